"""The saved snapshots of many nodes."""

import re
from pathlib import Path

from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FakeKernel, h200, plain_vm
from tests.support.topologies import marked_vm, refusing


def save(folder: Path, nodes: dict[str, Snapshot | str]) -> Path:
    """Write a file for each node, and return the folder."""
    folder.mkdir(exist_ok=True)
    for name, node in nodes.items():
        (folder / f"{name}.json").write_text(node if isinstance(node, str) else node.to_json())
    return folder


def save_every_kind(folder: Path) -> Path:
    """Write a file for each kind of node; on two, another InfiniBand device has the route."""
    escaping = h200().snapshot().to_json()
    names = {'"ib0"': '"ib3"', '"ib3"': '"ib0"'}
    with_other_numbers = re.sub('"ib[03]"', lambda name: names[name[0]], escaping)
    by_a_bridge = refusing().snapshot().to_json().replace('"ib0"', '"br-1f3bf2e4c5d6"')
    return save(
        folder,
        {
            "gpu-0": escaping,
            "gpu-1": with_other_numbers,
            "gpu-2": with_other_numbers,
            "broken": "{",
            "refusing": by_a_bridge,
            "bare": FakeKernel().snapshot(),
            "marked": marked_vm().snapshot(),
            "vm": plain_vm().snapshot(),
        },
    )

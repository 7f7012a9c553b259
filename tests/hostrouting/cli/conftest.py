"""Configurations that a command is given."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

HALVES = ({"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"})


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """Write a configuration: its static routes and the mode of its check of 172.16.0.0/16; the path."""

    def write(*routes: dict[str, object], mode: str = "STRICT", cidrs: tuple[str, ...] = ("172.16.0.0/16",)) -> str:
        document = {
            "staticRoutes": {"enabled": bool(routes), "routes": list(routes)},
            "routeOverlap": {"expectedCidrs": list(cidrs), "mode": mode},
        }
        path = tmp_path / f"config-{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(document))
        return str(path)

    return write


@pytest.fixture
def repaired(written: Callable[..., str]) -> str:
    """A configuration that repairs the H200 node, and is strict about it."""
    return written(*HALVES)

"""`snapshot` on one host, and the answer on another."""

from pathlib import Path

import pytest

from hostrouting import Snapshot
from hostrouting.testing import FakeHost, FakeKernel, cni_node, ecmp_node, h200, plain_vm, vpn_node
from tests.support.cli import say

HOSTS = {"h200": h200, "vpn": vpn_node, "cni": cni_node, "ecmp": ecmp_node, "plain": plain_vm, "bare": FakeKernel}


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize(
    "question",
    [("check", "172.16.0.0/12", "10.0.0.0/8"), ("repair", "172.16.0.0/12"), ("explain", "172.16.5.9")],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_the_same_answer_elsewhere(name: str, question: tuple[str, ...], form: tuple[str, ...], tmp_path: Path) -> None:
    """A saved snapshot gives the same answers as the host that it was taken on, and says where its commands belong."""
    host = FakeHost(kernel=HOSTS[name]())
    path = tmp_path / "node.json"
    path.write_text(say("snapshot", host=host).out, encoding="utf-8")
    here = say(*question, *form, host=host)
    there = say(*question, *form, "--snapshot", str(path), host=FakeHost())
    assert there.out.replace(f" --snapshot {path}", "").replace(", on that host as root:", ", as root:") == here.out
    assert there.code == here.code


def test_it_is_a_snapshot() -> None:
    """What is printed reads back as what the kernel has, with and without --json."""
    kernel = h200()
    said = say("snapshot", kernel=kernel)
    assert said.code == 0
    assert said.json["schema"] == "hostrouting/snapshot/1"
    with kernel.reopen() as backend:
        assert Snapshot.from_json(said.out) == backend.snapshot()
    assert say("snapshot", "--json", kernel=kernel) == said

"""`explain`: rule by rule, the route of a plain packet, and what the check says of it."""

from pathlib import Path

import pytest

from hostrouting.kernel.base import Answer
from hostrouting.model.route import Route
from hostrouting.testing import FakeKernel, cni_node, h200, plain_vm, vpn_node
from tests.support.cli import say
from tests.support.topologies import marked_vm, refusing


def test_the_whole_page() -> None:
    """The answer, each rule with what came of it, the route with its owner, and which packets it holds for."""
    said = say("explain", "172.16.5.9", kernel=vpn_node())
    assert said.code == 0
    assert said.lines == [
        "172.16.5.9 leaves by wg0, directly to the neighbour; eth0 and wg0: it is not known whether that is meant",
        "",
        "  RULE                                                 RESULT",
        "  0: from all lookup local                             no match in table local",
        "  32763: from all lookup main suppress_prefixlength 0  finds default, but suppresses it",
        "  32764: not from all fwmark 0xca6c lookup 51820       decides: default",
        "",
        "  route  default dev wg0 table 51820 proto static scope link",
        "  owner  static (route protocol 4)",
        "",
        "This holds for a plain packet of this host. Others are routed differently:",
        "  packets that match the rule 32764: not from all fwmark 0xca6c lookup 51820: by eth0",
    ]


@pytest.mark.parametrize(
    ("kernel", "address", "answer"),
    [
        (plain_vm(), "172.16.5.9", "172.16.5.9 leaves by eth0 via 10.0.0.1 (expected: eth0)"),
        (plain_vm(), "10.0.0.4", "10.0.0.4 stays on this host"),
        (plain_vm(), "2001:db8::1", "2001:db8::1 has no route"),
        (h200(), "172.16.5.9", "172.16.5.9 leaves by ib0, directly to the neighbour; expected: eth0"),
        (refusing(), "172.16.0.9", "172.16.0.9 is refused: prohibited"),
        (cni_node(), "10.244.0.9", "10.244.0.9 leaves by cni0, directly to the neighbour (allowed: cni0 (bridge))"),
    ],
)
def test_each_answer(kernel: FakeKernel, address: str, answer: str) -> None:
    """The first line says where the packet goes, and whether that is expected."""
    assert say("explain", address, kernel=kernel).lines[0].startswith(answer)


def test_the_document(tmp_path: Path) -> None:
    """The document has the same facts, also of a snapshot."""
    path = tmp_path / "node.json"
    path.write_text(marked_vm().snapshot().to_json())
    document = say("explain", "172.16.5.9", "--snapshot", str(path), "--json").json
    assert [(tried["result"]) for tried in document["rules"]] == ["no-route", "skipped", "decides"]
    assert (document["devs"], document["opinion"], document["expectedDevs"]) == (["eth0"], "expected", ["eth0"])
    assert [other["devs"] for other in document["others"]] == [["eth1"]]


def test_the_kernel_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel itself answers otherwise than its tables say, the page says so."""
    kernel = plain_vm()
    other = Route.to("0.0.0.0/0", dev="ib7")
    monkeypatch.setattr(type(kernel), "lookup", lambda *_, **__: (Answer("unicast", other),))
    lines = say("explain", "172.16.5.9", kernel=kernel).lines
    assert lines[1].startswith("But the kernel itself answers [default dev ib7")

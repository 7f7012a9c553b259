"""What the commands say of one host agrees, and they say what is to be typed next."""

import json
import re
import signal
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from hostrouting.host.layout import HostLayout
from hostrouting.model.prefix import Prefix, width_of
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, h200
from tests.support.cli import Said, say
from tests.support.nodes import BITS, block_of, nodes
from tests.support.tasks import CIDR, document, manager_of
from tests.support.topologies import cni_node, marked_vm, refusing, vpn_node

HOSTS = {"h200": h200, "vpn": vpn_node, "cni": cni_node, "refusing": refusing}


def of_a_snapshot(host: FakeHost, *words: str) -> Said:
    """What the command says of a snapshot, on a host with kubelet where nothing can be read."""
    saved = say("snapshot", host=host).out.encode()
    elsewhere = FakeHost(files=FakeFiles({HostLayout.config_path: "{"}))
    manager_of(elsewhere).properties["kubelet.service"] = {"LoadState": "loaded"}
    manager_of(elsewhere).states["kubelet.service"] = "active"
    return say(*words, "--snapshot", "-", host=elsewhere, stdin=saved)


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("words", ["check 172.16.0.0/12 10.0.0.0/8", "repair 172.16.0.0/12"])
def test_a_snapshot_is_judged_as_the_host_itself(name: str, words: str) -> None:
    """Whatever is installed where it is judged. The page says where a command is to be typed."""
    host = FakeHost(kernel=HOSTS[name]())
    for options in ([], ["--json"]):
        here = say(*words.split(), *options, host=host)
        there = of_a_snapshot(host, *words.split(), *options)
        assert (there.code, there.out) == (here.code, here.out)


@given(node=nodes(), block=st.integers(0, BITS))
def test_the_page_has_each_finding(node: tuple[int, Snapshot], block: int) -> None:
    """In the verdict, or under its name; a repair and its cost are elsewhere, or not shown."""
    family, snapshot = node
    half = Prefix(family, block_of(family).first, width_of(family) - block)
    words = ("check", str(block_of(family)), str(half), "--snapshot", "-")
    saved = snapshot.to_json().encode()
    page = say(*words, stdin=saved).out
    for finding in say(*words, "--json", stdin=saved).json["findings"]:
        if finding["name"] != "action":
            what_happens, *_ = re.split("; expected: |, and should leave", finding["sentence"])
            assert what_happens in page


def marked_ipv6() -> FakeKernel:
    """Without a default route in IPv4, and with another one for marked packets in IPv6."""
    kernel = FakeKernel()
    kernel.add_link("eth0")
    kernel.add_link("ib0")
    kernel.ip_route("add", Route.to("::/0", dev="eth0", gateway="fe80::1"))
    kernel.ip_route("add", Route.to("::/0", dev="ib0", table=7))
    kernel.add_rule(Rule(family=6, priority=100, table=7, fwmark=1, fwmask=0xFF))
    return kernel


STRICT_BOTH = {"mode": "STRICT", "expectedCidrs": [CIDR, "fd00::/64"]}


@pytest.mark.parametrize(
    ("make", "section", "codes"),
    [
        (FakeKernel, {"mode": "STRICT"}, (3, 3, 3, 3)),
        (FakeKernel, {"mode": "WARN"}, (1, 0, 0, 3)),  # a unit starts, and the verdict is open
        (marked_vm, {"mode": "STRICT", "undecided": "refuse"}, (3, 3, 3, 3)),
        (marked_ipv6, {**STRICT_BOTH, "undecided": "refuse"}, (3, 3, 3, 3)),
        (marked_vm, {"mode": "STRICT"}, (1, 0, 0, 3)),
        (h200, {"mode": "STRICT"}, (1, 1, 1, 1)),
        (h200, {"mode": "STRICT", "expectedDevs": ["eth7"]}, (1, 1, 1, 1)),
    ],
)
def test_the_exit_codes_agree(
    make: Callable[[], FakeKernel], section: dict[str, object], codes: tuple[int, ...]
) -> None:
    """Those of `plan`, `apply`, `plan` afterwards, and `status`."""
    host = FakeHost(kernel=make())
    wanted = document()
    wanted["routeOverlap"] |= section
    given = json.dumps(wanted).encode()
    plan, apply = "plan --config -", "apply --config - --wait 0"
    said = [say(*words.split(), host=host, stdin=given) for words in (plan, apply, plan, "status")]
    assert tuple(each.code for each in said) == codes


def test_a_stopped_run() -> None:
    """The page says what was changed, and how the host is; the document has the reason."""
    waits = json.dumps(document("9.0.0.0/8", cidrs=())).encode()
    for options in ([], ["--json"]):
        host = FakeHost(kernel=FakeKernel())  # without a default route, so apply waits
        host.faults.meanwhile("snapshot", lambda: signal.raise_signal(signal.SIGTERM), nth=2)
        said = say("apply", "--config", "-", *options, host=host, stdin=waits)
        assert said.code == 143
        if options:
            assert (said.json["failures"], said.json["stopped"]) == ([], "SIGTERM")
        else:
            assert said.lines[:3] == [
                "STOPPED: SIGTERM",
                "What this run has changed:",
                f"  wrote {HostLayout.program_path}",
            ]
            assert "WAITING: 9.0.0.0/8 needs an IPv4 default route" in said.lines

"""What the commands say of one host agrees, and they say what is to be typed next."""

import json
import re
import signal

import pytest
from hypothesis import Phase, given, settings, strategies as st

from hostrouting.host.layout import HostLayout
from hostrouting.model.prefix import Prefix, width_of
from hostrouting.model.snapshot import Snapshot
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, h200
from tests.support.cli import Said, say
from tests.support.nodes import BITS, block_of, nodes
from tests.support.tasks import document, manager_of
from tests.support.topologies import cni_node, refusing, vpn_node

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


# To shrink a failing node takes minutes, and its page says what is missing.
@settings(phases=set(Phase) - {Phase.shrink})
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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run(number: signal.Signals, code: int) -> None:
    """The page says what was changed, and how the host is; the document has the reason."""
    waits = json.dumps(document("9.0.0.0/8", cidrs=())).encode()
    for options in ([], ["--json"]):
        host = FakeHost(kernel=FakeKernel())  # without a default route, so apply waits
        host.faults.meanwhile("snapshot", lambda: signal.raise_signal(number), nth=2)
        said = say("apply", "--config", "-", *options, host=host, stdin=waits)
        assert said.code == code
        if options:
            assert (said.json["failures"], said.json["stopped"]) == ([], number.name)
        else:
            assert said.lines[:3] == [
                f"STOPPED: {number.name}",
                "What this run has changed:",
                f"  wrote {HostLayout.program_path}",
            ]
            assert "WAITING: 9.0.0.0/8 needs an IPv4 default route" in said.lines

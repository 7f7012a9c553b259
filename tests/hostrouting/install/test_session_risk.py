"""A change that moves the packets of the session in which it is typed
is named before it is made.
"""

import os
import shlex
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest

from hostrouting.host.session import ssh_client
from hostrouting.install.session_risk import find_session_at_risk
from hostrouting.model.route import Route
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, h200, plain_vm
from tests.support.cli import say
from tests.support.tasks import CIDR, WANTED, run
from tests.support.topologies import ETH1, vm_with

MOVED = (
    "this session comes from 172.16.9.9, and the change moves its packets from "
    "[172.16.0.0/16 dev ib0 proto kernel scope link src 172.16.1.10] to "
    "[172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting]: the session may end"
)


def host_of(client: str | None) -> FakeHost:
    """An H200 node, on which somebody from this address is logged in."""
    address = None if client is None else ip_address(client)
    return FakeHost(kernel=h200(), client=lambda: address)


def risks(host: FakeHost) -> list[str]:
    """The sentences of a dry run about the session."""
    findings = Configure(WANTED, host=host).plan().findings
    return [finding.sentence for finding in findings if finding.name == "session-at-risk"]


def test_a_client_whose_packets_move() -> None:
    """The plan says how its packets go now, and how they would go."""
    assert risks(host_of("172.16.9.9")) == [MOVED]


@pytest.mark.parametrize("client", [None, "192.0.2.7", "10.0.0.9", "2001:db8::7"])
def test_a_client_whose_packets_stay(client: str | None) -> None:
    """Nobody is warned of a change that does not concern the session."""
    assert risks(host_of(client)) == []


def test_a_client_whose_new_route_is_like_the_old() -> None:
    """On a host where nothing escapes, the new routes lead its packets where they go already."""
    client = ip_address("172.16.9.9")
    assert risks(FakeHost(kernel=plain_vm(), client=lambda: client)) == []


def test_a_client_whose_packets_move_to_another_gateway() -> None:
    """The device need not change: a firewall at the other gateway knows nothing of the session."""
    host = FakeHost(kernel=plain_vm(), client=lambda: ip_address("172.16.9.9"))
    former = Route.to("172.16.0.0/16", dev="eth0", gateway="10.0.0.9", protocol=4)
    host.kernel.ip_route("add", former)
    [sentence] = risks(host)
    assert f"from [{former}] to [172.16.0.0/17 via 10.0.0.1 dev eth0" in sentence


def test_a_client_whose_packets_are_dropped_now() -> None:
    """What drops them is named as the way that they go now."""
    host = FakeHost(kernel=plain_vm(), client=lambda: ip_address("172.16.9.9"))
    refused = Route.to(CIDR, type="blackhole", protocol=4)
    host.kernel.ip_route("add", refused)
    [sentence] = risks(host)
    assert f"from [{refused}] to [172.16.0.0/17 via 10.0.0.1 dev eth0" in sentence


def test_a_client_that_no_route_would_reach() -> None:
    """The lookup's end is named as the way that its packets would go."""
    host = host_of("172.16.9.9")
    lost = Route.to(CIDR, dev="eth0", gateway="10.0.0.1")
    [finding] = find_session_at_risk(
        host, [lost.prefix], vm_with()._replace(routes=(lost,)), vm_with()._replace(routes=())
    )
    assert f"from [{lost}] to [no-route]: " in finding.sentence


def test_a_client_whose_packets_move_to_another_device() -> None:
    """The gateway may have the same address there."""
    before = Route.to(CIDR, dev="eth0", gateway="10.0.0.1")
    after = Route.to(CIDR, dev="eth1", gateway="10.0.0.1")
    [finding] = find_session_at_risk(
        host_of("172.16.9.9"), [before.prefix], vm_with(before), vm_with(after, links=(ETH1,))
    )
    assert f"from [{before}] to [{after}]: " in finding.sentence


def test_a_client_that_moves_no_more() -> None:
    """Once the routes are there, there is nothing to warn of."""
    host = host_of("172.16.9.9")
    run(Configure(WANTED, host=host))
    assert risks(host) == []


def test_a_run_names_the_risk_before_the_change(caplog: pytest.LogCaptureFixture) -> None:
    """Afterwards, nobody may be there to read it."""
    host = host_of("172.16.9.9")
    said: list[str] = []
    host.faults.meanwhile("change", lambda: said.append(caplog.text))
    run(Configure(WANTED, host=host))
    assert MOVED in said[0]


def test_a_check_by_a_client_whose_packets_would_move() -> None:
    """`check` says it beside the commands of the repair."""
    page = say("check", CIDR, host=host_of("172.16.9.9")).out
    assert f"SESSION-AT-RISK: {MOVED}; with --confirm 60" in page


def test_a_check_by_a_client_whose_packets_would_stay() -> None:
    """`check` has nothing to say about the session."""
    assert "SESSION-AT-RISK" not in say("check", CIDR, host=host_of("10.0.0.9")).out


class TestClient:
    """Where the client's address comes from."""

    @pytest.mark.parametrize(
        ("value", "client"),
        [
            ("172.16.9.9 50000 10.0.0.4 22", "172.16.9.9"),
            ("fe80::9%eth0 50000 fe80::4%eth0 22", "fe80::9"),
            ("::ffff:172.16.9.9 50000 ::ffff:10.0.0.4 22", "172.16.9.9"),
        ],
    )
    def test_the_variable_of_this_process(
        self, value: str, client: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first word of SSH_CONNECTION."""
        monkeypatch.setenv("SSH_CONNECTION", value)
        assert str(ssh_client()) == client

    @pytest.mark.linux
    def test_the_variable_of_a_parent(self, tmp_path: Path) -> None:
        """Sudo takes the variable away: a parent has it, and others that are not text, like its
        name.
        """
        named = os.fsencode(tmp_path) + b"/\xff"
        os.symlink(b"/bin/sh", named)
        program = "from hostrouting.host.session import ssh_client; print(ssh_client())"
        python = shlex.quote(sys.executable)
        shell = f"env -u SSH_CONNECTION {python} -c '{program}'; true"
        seen = subprocess.run(
            [named, "-c", shell],
            env={**os.environb, b"SSH_CONNECTION": b"192.0.2.9 50000 10.0.0.4 22", b"X": b"\xff"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert seen.stdout == "192.0.2.9\n"

    def test_a_parent_that_has_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody is known to be logged in, as if it belonged to somebody else."""
        monkeypatch.delenv("SSH_CONNECTION", raising=False)
        monkeypatch.setattr(os, "getppid", lambda: 2**22 + 1)  # Linux gives no process this id
        assert ssh_client() is None

    @pytest.mark.parametrize("value", ["", "nobody", " "])
    def test_without_a_usable_variable(self, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a usable address there is no session to warn of."""
        monkeypatch.setenv("SSH_CONNECTION", value)
        monkeypatch.setattr(os, "getppid", lambda: 1)
        assert ssh_client() is None

"""hostrouting.node.start: what holds a unit back before it starts, and what the journal says."""

import signal
import time
from unittest.mock import Mock

import attrs
import pytest

from hostrouting.boot.files import render_config
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, HostError
from hostrouting.host.layout import HostLayout
from hostrouting.node import start
from hostrouting.node.ending import Stopped, TimeIsUp
from hostrouting.release import PASSED, REFUSED
from hostrouting.testing import FakeHost, h200
from tests.support.node import (
    DEFAULT,
    HALVES,
    PROBES,
    REPAIRED,
    UNIT,
    FakeLock,
    FakeNodeClock,
    logged,
    marker_of,
    node,
    wanting,
    without_default,
)

CONFIG = HostLayout.config_path
BROKEN = wanting()
"""An H200 node with this configuration is refused: InfiniBand catches the fabric."""
REFUSING = REPAIRED._replace(route_overlap=REPAIRED.route_overlap._replace(undecided="refuse"))
SAID_REFUSED = f"3 {UNIT} was refused: see the lines above"


def decide(
    host: FakeHost,
    *,
    unit: str = UNIT,
    clock: FakeNodeClock | None = None,
    lock: FakeLock | None = None,
) -> int:
    return start.decide(unit, host, clock=clock or FakeNodeClock(lock))


def test_a_refusal(capfd: pytest.CaptureFixture[str]) -> None:
    """Each finding is said once; the last lines say how to start it all the same."""
    host = node(BROKEN)
    assert decide(host) == REFUSED
    *findings, not_started, advice = logged(capfd)
    assert [line[:11] for line in findings] == ["3 OVERLAP: ", "4 ACTION: 2"]
    assert not_started == SAID_REFUSED
    assert advice.startswith("5 to start ALL gated units without any check until the next boot")
    assert advice.endswith(HostLayout.opening_command)


# What root runs and believes


def test_what_others_can_change(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is run or believed then; tests/hostrouting/gate has what else this is."""
    host = node()
    host.files.texts[HostLayout.program_path] = ""
    host.files.modes |= dict.fromkeys((CONFIG, HostLayout.program_path), 0o664)
    assert decide(host) == REFUSED
    first, second, not_started, _ = logged(capfd)
    assert first.startswith(f"3 FILE: users other than root can change {CONFIG}")
    assert second.startswith(f"3 FILE: users other than root can change {HostLayout.program_path}")
    assert not_started == SAID_REFUSED
    assert host.kernel.snapshot() == h200().snapshot()


# The configuration


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "is missing"),
        ("", "is empty"),
        ("{}", "configures nothing"),
        ('{"hostRouting": {"staticRoutes": {"enabled": true}}}', "configures nothing"),
        ('{"cluster": {}}', "cluster: unknown key"),
        ('{"cluster": {}, "nodes": {}}', "3 nodes: unknown key"),  # a line for each fault
        (render_config(REPAIRED).replace("STRICT", "STERN"), "hostRouting.routeOverlap.mode"),
    ],
)
def test_a_configuration_that_cannot_be_read(
    text: str | None, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """No unit starts, and the verdict of an earlier configuration goes."""
    host = node()
    assert decide(host) == PASSED
    logged(capfd)
    del host.files.texts[CONFIG]
    if text is not None:
        host.files.texts[CONFIG] = text
    assert decide(host) == REFUSED
    lines = logged(capfd)
    assert lines[0].startswith("3 ")
    assert CONFIG in lines[0]
    assert [line for line in lines if line.startswith("3 ") and reason in line]
    assert marker_of(host) == ""


def test_a_configuration_that_does_not_gate_the_unit(capfd: pytest.CaptureFixture[str]) -> None:
    """It does not start: otherwise a configuration of other units would open every gate."""
    host, text = node(), render_config(wanting(*HALVES, units=("a@.service",)))
    lock = FakeLock(lambda: host.files.write(CONFIG, text))  # by whoever had it before
    assert decide(host, lock=lock) == REFUSED
    sentence = f"3 {CONFIG} does not gate {UNIT}, but the drop-in of that unit runs the gate; "
    assert [line for line in logged(capfd) if line.startswith(sentence)]


@pytest.mark.parametrize(
    ("gated", "unit", "status"),
    [
        ("systemd-nspawn@.service", "systemd-nspawn@kube1.service", PASSED),
        ("systemd-nspawn@kube1.service", "systemd-nspawn@kube1.service", PASSED),
        ("systemd-nspawn@kube1.service", "systemd-nspawn@kube2.service", REFUSED),
        ("systemd-nspawn@.service", "systemd@kube1.service", REFUSED),
    ],
)
def test_instances(gated: str, unit: str, status: int) -> None:
    host = node(wanting(*HALVES, units=(gated,), probe_rewrite=PROBES))
    host.nftables.fail(HostError("nft is not installed", what="nft"))  # probes hold no unit back
    assert decide(host, unit=unit) == status


# What is awaited


def before_dhcp(**others: object) -> tuple[FakeHost, FakeNodeClock, FakeLock]:
    """A node without a default route, its clock, and the lock, which nobody has while it waits."""
    host = node(kernel=without_default(h200()), **others)  # type: ignore[arg-type]  # its parts
    lock = FakeLock()
    return host, FakeNodeClock(lock), lock


def test_a_default_route_that_comes(capfd: pytest.CaptureFixture[str]) -> None:
    """It is awaited without the lock, which is said once; then the unit starts at once."""
    host, clock, lock = before_dhcp()

    def dhcp_answers() -> None:
        assert not lock.is_held
        host.kernel.ip_route("add", DEFAULT)

    clock.at(20.4, dhcp_answers)
    assert decide(host, clock=clock) == PASSED
    assert 20.4 <= clock.now() < 20.9
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    waits, *_ = lines = logged(capfd)
    assert waits.startswith("6 waiting for up to 60 s: 2 routes, such as 172.16.0.0/17, need")
    assert len([line for line in lines if "waiting" in line]) == 1
    assert lines[-1].startswith("6 OK: ")


def test_what_was_changed_before_a_wait(capfd: pytest.CaptureFixture[str]) -> None:
    """The journal has it, although a later pass changes nothing."""
    cidrs = ("172.16.0.0/16", "fd00:16::/32")
    assert decide(node(wanting(*HALVES, cidrs=cidrs, mode="WARN"))) == PASSED
    waits, changed, *_ = logged(capfd)
    assert waits.startswith("6 waiting for up to 60 s: ")
    assert changed.startswith("6 static routes changed: 2, first: add 172.16.0.0/17 ")


@pytest.mark.parametrize("config", [REFUSING, REPAIRED, BROKEN])
def test_a_doubt_that_may_pass(config: HostRoutingConfig) -> None:
    """If it refuses the unit, it is read again; else the unit starts at once."""
    host = node(config)
    host.faults.is_restless = True
    clock = FakeNodeClock()

    def comes_to_rest() -> None:
        host.faults.is_restless = False
        host.files.write(CONFIG, render_config(REPAIRED))

    clock.at(20, comes_to_rest)
    assert decide(host, clock=clock) == PASSED
    assert int(clock.now()) == (0 if config is REPAIRED else 20)


# What ends it


@pytest.mark.parametrize("moment", ["the lock is awaited", "routes are set", "DHCP is awaited"])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Stopped("SIGTERM"), "3 SIGTERM ended this; "),
        (TimeIsUp("75"), "3 this took longer than 75 s, and was ended"),
        (ZeroDivisionError("a bug"), "3 ZeroDivisionError: a bug"),
    ],
)
def test_what_ends_a_start(
    moment: str, error: BaseException, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is refused; the journal says why, or has the traceback."""

    def interrupt() -> None:
        raise error

    host, clock, lock = before_dhcp()
    if moment == "the lock is awaited":
        clock = FakeNodeClock(FakeLock(interrupt))
    if moment == "routes are set":
        host.kernel.ip_route("add", DEFAULT)
        host.faults.meanwhile("change", interrupt)
    clock.at(3, interrupt)
    assert decide(host, clock=clock) == REFUSED
    assert not lock.is_held
    lines = logged(capfd)
    assert [line for line in lines if line.startswith(said)]
    assert lines[-2] == SAID_REFUSED


def test_something_hangs(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is ended when the time is up, and no second alarm interrupts a rollback."""
    rolled_back: list[str] = []

    def hang() -> None:
        try:
            time.sleep(20)
        finally:
            time.sleep(0.4)
            rolled_back.append("to the end")

    monkeypatch.setattr(start, "TIME_LIMIT", 0.1)
    assert decide(node(), lock=FakeLock(hang)) == REFUSED
    assert rolled_back
    assert logged(capfd)[0].startswith("3 this took longer than 0 s, and was ended")


def test_the_time_is_up_just_before_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may raise nothing for a signal that comes then: it comes again, and ends the wait."""
    waited: list[str] = []

    def miss_the_signal() -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            signal.sigwait({signal.SIGALRM})
        finally:  # on a busy machine, the time is up before that
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        time.sleep(20)
        waited.append("to the end")

    monkeypatch.setattr(start, "TIME_LIMIT", 0.01)
    assert decide(node(), lock=FakeLock(miss_the_signal)) == REFUSED
    assert waited == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_time_is_up_in_a_destructor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops what is raised there: it comes once more, and ends what hangs after that."""
    monkeypatch.setattr(start, "TIME_LIMIT", 0.01)
    monkeypatch.setattr("hostrouting.node.ending._TIME_TO_ROLL_BACK", 0.5)
    waited: list[str] = []

    class Slow:
        def __del__(self) -> None:
            time.sleep(0.2)

    def hang() -> None:
        slow = Slow()
        del slow
        time.sleep(5)
        waited.append("to the end")

    assert decide(node(), lock=FakeLock(hang)) == REFUSED
    assert waited == []


def test_netlink_cannot_be_opened(capfd: pytest.CaptureFixture[str]) -> None:
    """As where a seccomp profile forbids it: nothing starts, and no old verdict stays."""
    host = attrs.evolve(node(), backend=Mock(side_effect=BackendError("cannot use netlink")))
    host.files.texts[HostLayout.ok_path] = "ok\n"
    assert decide(host) == REFUSED
    assert logged(capfd)[0] == "3 cannot use netlink"
    assert marker_of(host) == ""

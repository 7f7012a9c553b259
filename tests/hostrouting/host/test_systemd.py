"""The edge of the service manager: which commands are run, and how answers are read."""

import signal

import pytest

from hostrouting.errors import HostError
from hostrouting.host.systemd import SystemdManager, unit_name
from hostrouting.kernel.programs import Ended
from tests.support.stand_ins import Answer, Programs

UNIT = "x.service"
INACTIVE = "ActiveState=inactive\n"
FAILED = "Result=exit-code\nExecMainStatus=3\nConditionTimestamp=Thu 09:00\n"
STOP = "systemctl --no-ask-password --no-pager --job-mode=ignore-dependencies stop x.service"
VERBS = ("start", "stop", "show", "daemon-reload", "reset-failed")


class Systemctl(Programs):
    """Answers by the verb of systemctl; journalctl has "sync" and "quiet"."""

    def key(self, *words: str) -> str:
        [verb] = {*words} & {*VERBS, "--sync", "--quiet"}
        return verb.strip("-").replace("-", "_")

    @property
    def commands(self) -> list[str]:
        return [" ".join(words) for words, _ in self.asked]


LOG = "eth0 is not there\n\ngiving up\n"


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        ({"sync": "", "quiet": LOG}, "eth0 is not there | giving up"),
        ({"sync": TimeoutError(), "quiet": LOG}, "eth0 is not there | giving up"),
        ({}, "Job failed"),  # there is no journal
    ],
)
def test_a_start_that_fails(journal: dict[str, Answer], words: str) -> None:
    """The error has systemd's reason and the unit's own words from that run."""
    run = Systemctl(
        start=Ended(1, "", "Job failed"), show=[Ended(0, INACTIVE), Ended(0, FAILED)], **journal
    )
    with pytest.raises(HostError) as caught:
        SystemdManager(run=run).start(UNIT, timeout=10)
    reason = f"{UNIT} failed (exit-code, exit status 3)"
    assert str(caught.value) == f"{reason}: {words}; see `journalctl -u {UNIT}`"
    assert caught.value.lines == tuple(words.split(" | "))
    assert (caught.value.kind, caught.value.target) == ("unit-failed", UNIT)
    assert run.commands[1] == STOP.replace("stop", "start")
    assert "--sync" in run.commands[-2]
    assert run.commands[-1] == (
        "journalctl --no-pager --quiet --output=cat --lines=20 --since=Thu 09:00 "
        f"_SYSTEMD_UNIT={UNIT}"
    )


@pytest.mark.parametrize(
    ("state", "verbs"),
    [
        ("inactive", ["start"]),
        ("failed", ["reset-failed", "start"]),
        ("active", []),
        ("reloading", []),
    ],
)
def test_a_start(state: str, verbs: list[str]) -> None:
    """A unit that runs is left alone, and no limit of starts refuses one of ours."""
    run = Systemctl(start="", show=f"ActiveState={state}\n", reset_failed="")
    SystemdManager(run=run).start("x", timeout=10)
    assert {words.split()[-1] for words in run.commands} == {UNIT}
    assert [words.split()[-2] for words in run.commands[1:]] == verbs


def test_a_start_that_is_canceled() -> None:
    """The unit has not failed, so systemctl says why, and not what the unit has logged."""
    run = Systemctl(
        start=Ended(1, "", "Job for x.service canceled."),
        show=[Ended(0, INACTIVE), Ended(0, FAILED.replace("exit-code", "success"))],
        sync="",
        quiet="all is well\n",
    )
    with pytest.raises(HostError, match=r"\(success, .*\): Job for x\.service canceled\.; see"):
        SystemdManager(run=run).start(UNIT, timeout=10)


def test_the_errors_of_a_unit() -> None:
    """Each error since that time, once, if root has logged it as the gate or as our service."""
    run = Systemctl(sync="", quiet="a line\n\nanother\na line\nanother\n")
    assert SystemdManager(run=run).errors_of("x", "Thu 09:00") == ("a line", "another")
    ours = f"_UID=0 SYSLOG_IDENTIFIER=env SYSLOG_IDENTIFIER=hostrouting _SYSTEMD_UNIT={UNIT}"
    assert run.commands[-1].endswith(f" --since=Thu 09:00 --priority=err {ours}")
    assert SystemdManager(run=run).errors_of(UNIT, "") == (), "it has not started"
    assert len(run.commands) == 2


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (TimeoutError(), HostError, r"systemctl did not start x.service within 0\.5 s"),
        (Ended(-signal.SIGTERM), HostError, "could not start x.service .* ended by signal 15"),
        # systemctl, which has a session of its own, did not get it.
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
@pytest.mark.parametrize("state", ["inactive", "activating"])
def test_a_start_that_is_given_up(
    state: str, answer: Answer, kind: type[BaseException], reason: str
) -> None:
    """A stop cancels the job, unless it is the boot's. The unit is not said to have failed."""
    run = Systemctl(show=f"ActiveState={state}\n", start=answer, stop=TimeoutError())
    with pytest.raises(kind, match=reason):
        SystemdManager(run=run).start(UNIT, timeout=0.5)
    assert (run.commands[-1] == STOP) is (state == "inactive")


def test_stop() -> None:
    """A missing unit is stopped; a canceled or late stop is an error, as without systemctl."""
    run = Systemctl(stop=Ended(5))
    SystemdManager(run=run).stop(UNIT)
    assert run.commands == [STOP]
    canceled = Ended(1, "", "Job for x.service canceled.")
    with pytest.raises(HostError, match=canceled.err):
        SystemdManager(run=Systemctl(stop=canceled)).stop(UNIT)
    with pytest.raises(HostError, match=r"systemctl did not stop x\.service within 30 s"):
        SystemdManager(run=Systemctl(stop=TimeoutError())).stop(UNIT)
    sentence = "systemctl was not found; install the package systemd, or write into an image"
    with pytest.raises(HostError, match=sentence):
        SystemdManager(run=Systemctl()).reload()


def test_show() -> None:
    """Each unit has the requested properties; systemd 249's n/a is empty."""
    text = (
        "Id=m@a.service\nExecCondition=one\nExecCondition=two\nBefore=n/a\n\n"
        "Id=m@b.service\nExecCondition=a\u2028b\x85c\n"
    )
    run = Systemctl(show=[Ended(0, text, "a warning"), Ended(0)])
    assert SystemdManager(run=run).show(("Id", "ExecCondition", "Before"), "m@*.service") == (
        {"Id": "m@a.service", "ExecCondition": "one two", "Before": ""},
        {"Id": "m@b.service", "ExecCondition": "a\u2028b\x85c", "Before": ""},
    )
    properties = "show --all --property Id,ExecCondition,Before -- m@*.service"
    assert run.commands == [STOP.replace("stop x.service", properties)]
    assert SystemdManager(run=run).show(("Id",), "none@*.service") == ()


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables that make systemctl succeed without acting do not reach it; all others do."""
    for name in ("SYSTEMD_OFFLINE", "SYSTEMD_IN_CHROOT", "OTHER"):
        monkeypatch.setenv(name, "1")
    run = Systemctl(daemon_reload="")
    SystemdManager(run=run).reload()
    assert not {"SYSTEMD_OFFLINE", "SYSTEMD_IN_CHROOT"} & run.environment.keys()
    assert run.environment["SYSTEMD_IGNORE_CHROOT"] == "1"
    assert run.environment["OTHER"] == "1"


def test_the_name_of_a_unit() -> None:
    """A service may be given by its short name, as to systemctl."""
    names = {"kubelet": "kubelet.service", "m@a.b": "m@a.b.service", "m@*": "m@*"}
    kinds = "service socket target timer path mount automount swap device slice scope"
    names |= {f"a.{kind}": f"a.{kind}" for kind in kinds.split()}
    assert {name: unit_name(name) for name in names} == names

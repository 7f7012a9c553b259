"""`preflight`: its answer, its list, and an exit code for the worst of it."""

from collections.abc import Callable

import attrs
import pytest

import phases
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, MemoryBackend, h200
from tests.support.cli import say
from tests.support.tasks import LAYOUT


def locked() -> FakeHost:
    """A host that another run has locked."""
    return FakeHost(kernel=h200(), files=FakeFiles(locked={LAYOUT.lock_path}))


@pytest.mark.parametrize(
    ("make", "code", "first"),
    [
        (lambda: FakeHost(kernel=h200()), 0, "READY: nothing prevents "),
        (lambda: FakeHost(kernel=h200(), manager=FakeManager(running=False)), 1, "DOUBTFUL: 0 errors, 1 warning; "),
        (
            lambda: FakeHost(kernel=MemoryBackend()),
            1,
            "NOT READY: 0 errors, 2 warnings; apply would wait, and may then ",
        ),
        (locked, 1, "NOT READY: 0 errors, 1 warning; apply would wait, and may then fail"),
        (lambda: FakeHost(find_program=lambda _: None), 2, "WOULD FAIL: "),
    ],
    ids=["ready", "doubtful", "not yet", "locked", "would fail"],
)
def test_the_worst_decides(make: Callable[[], FakeHost], code: int, first: str, repaired: str) -> None:
    """The exit code is 0, 1 or 2 by the worst finding, with --json as without."""
    said = say("preflight", "--config", repaired, host=make())
    assert said.code == code
    assert said.lines[0].startswith(first)
    listed = say("preflight", "--config", repaired, "--json", host=make())
    assert listed.code == code
    assert listed.json["schema"] == "hostrouting/preflight/2"
    severities = {finding["severity"] for finding in listed.json["findings"]}
    assert {"error": 2, "warning": 1}.get(min(severities, default=""), 0) == code


def test_without_a_file(repaired: str) -> None:
    """Without --config, the installed configuration is judged; if none is installed, the error says what to write.

    Kills: judging an empty configuration, which is always READY.
    """
    host = FakeHost(kernel=h200())
    said = say("preflight", host=host)
    assert (said.code, said.err.count("hostrouting preflight --config FILE")) == (2, 1)
    say("apply", "--config", repaired, host=host)
    said = say("preflight", host=host)
    assert (said.code, said.lines[0]) == (
        0,
        "READY: nothing prevents the installed configuration from working on this host",
    )


def test_help() -> None:
    """The help says what exit code 2 means for this command, and for no other."""
    assert "  2  there are errors, or bad input: the command line" in say("preflight", "--help").out
    assert "  2  bad input: the command line" in say("plan", "--help").out
    assert "hostrouting/error/2" in say("preflight", "--help").out, (
        "the schema of bad input, which also has exit code 2"
    )


def test_a_folder_in_the_place_of_a_script(repaired: str) -> None:
    """An installed script that cannot be read is a finding among others; preflight does not need to read it first."""
    host = FakeHost(kernel=h200(), files=FakeFiles(strange={HostLayout().routes_script_path: "a directory"}))
    said = say("preflight", "--config", repaired, "--json", host=host)
    assert (said.code, said.json["schema"]) == (2, "hostrouting/preflight/2")
    assert [finding["name"] for finding in said.json["findings"]] == ["file"]


def test_the_installed_wait(repaired: str) -> None:
    """Preflight assumes the waiting time of the installed scripts, as apply does."""
    host = FakeHost(kernel=h200())
    phases.execute(Configure(HostRoutingConfig.load(repaired), host=host, wait=50), phases.Context(observers=[]))
    assert (
        say(
            "preflight",
            "--config",
            repaired,
            host=attrs.evolve(host, files=attrs.evolve(host.files, broken={"/etc": "no"})),
        ).code
        == 0
    )

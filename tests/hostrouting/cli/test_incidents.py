"""An incident is told once, in tests/support/statuses.py: what was broken.

tests/hostrouting/status has the pages. Here, each command that a page of the incident prints is
typed on it as it stands.
"""

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from hostrouting.finding import WRONG
from hostrouting.model.route import OURS, Route
from hostrouting.node import start
from hostrouting.release import PASSED, REFUSED
from hostrouting.status import find_status
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.incidents import KUBELET, garble, let_pass
from tests.support.node import FakeNodeClock, logged
from tests.support.statuses import INCIDENTS, OVERRIDE, Change, lost, right_but, start_router
from tests.support.tasks import CIDR, LAYOUT, manager_of

WORST_LAST = ("in force", "nothing", "waiting", "undecided", "differs")
BEYOND_A_CHECK = re.compile(
    f"FAILED: ({KUBELET} starts unchecked: {OVERRIDE} |cannot write .*: Read-only file system)"
)
"""How a repair may fail that `check` proposes, which knows nothing of gates and disks."""
CARDS = ("eth1", "eth0")
PAGES = ("status", f"check {CIDR}")


def commands_of(words: str, host: FakeHost) -> Iterator[str]:
    """The commands that the answer to this command line has; none if there is no answer."""
    document = say(*words.split(), "--json", host=host).json
    for finding in document["findings"]:
        yield from finding["commands"]
    if document.get("command"):
        yield document["command"]


def type_in(host: FakeHost, line: str) -> None:
    """Type this line. No command may fail, but a question may have any answer."""
    line = line.replace(LAYOUT.node_command, "hostrouting")
    for part in line.split(" && "):
        printed = b""
        for command in part.split(" | "):
            if not command.startswith("hostrouting"):
                type_other(host, command)
                continue
            words = shlex.split(command.removeprefix("hostrouting"))
            if LAYOUT.config_path in words:
                words[words.index(LAYOUT.config_path)] = "-"  # else it is a file of the machine
                printed = host.files.texts[LAYOUT.config_path].encode()
            said = say(*words, host=host, stdin=printed)
            assert said.code == 0 or is_question(command) or BEYOND_A_CHECK.match(said.out), said
            printed = said.out.encode()


def is_question(command: str) -> bool:
    """Whether its exit code is about the host."""
    return re.search(r" (apply|remove|render)\b", command) is None


def type_other(host: FakeHost, command: str) -> None:
    manager = manager_of(host)
    match shlex.split(command):
        case ["ip", "route", "add", destination, "via", gateway, "dev", dev]:
            host.kernel.ip_route("add", Route.to(destination, dev=dev, gateway=gateway, protocol=3))
        case ["ip", "route", "del", destination, "dev", dev, *_]:
            [route] = [
                route
                for route in host.kernel.snapshot().routes
                if str(route.prefix) == destination and route.devs == (dev,)
            ]
            host.kernel.ip_route("delete", route)
        case ["rm", path]:
            host.files.remove(path)
        case ["chown", "-h", "root", path]:
            host.files.owners[path] = 0
        case ["chmod", "go-w", path]:
            host.files.modes[path] &= ~0o022
        case ["sed", "-i", "", _]:
            pass  # nobody has a fake file open
        case ["systemctl", "daemon-reload"]:
            manager.reload()
        case ["systemctl", "unmask", "--runtime", unit]:
            assert manager.properties.pop(unit)["UnitFileState"] == "masked-runtime"
        case ["systemctl", "reset-failed", _]:
            pass  # no fake counts starts
        case ["systemctl", "start", unit]:
            manager.properties[unit] = {"LoadState": "loaded", "ActiveState": "active"}
            let_pass(host, unit)
        case _:
            raise AssertionError(f"the test cannot type this: {command}")


@pytest.mark.parametrize("name", INCIDENTS)
def test_what_is_printed_can_be_typed(name: str) -> None:
    """Nothing that is printed fails or makes the host worse; what is to make it right does."""
    make = INCIDENTS[name]
    before = find_status(make())
    worst = WORST_LAST.index(before.state)
    printed = {each for words in PAGES for each in commands_of(words, make())}
    for command in printed:
        assert not re.search(r"CIDR|FILE", command), "something is to be filled in"
        if re.search(r"REASON|journalctl|systemctl cat|--help", command):
            continue  # what the operator only reads
        host = make()
        type_in(host, command)
        after = find_status(host)
        assert WORST_LAST.index(after.state) <= worst, command
        if command == before.command:
            assert not after.command
            assert {finding.name for finding in after.findings} & {*WRONG, "route-differs"} == set()


@pytest.mark.parametrize(
    "what",
    [
        "differs: for a device to be named",
        "differs: the verdict is undecided",
        "undecided: a VPN has the halves of a default route",
        "undecided: two cards have default routes of one metric",
    ],
)
def test_nobody_knows_which_device_is_meant(what: str) -> None:
    """`status` and `check` have a command for each, after which nothing is in doubt."""
    make = INCIDENTS[what]
    for page in PAGES:
        lines = [line for line in commands_of(page, make()) if "--dev" in line]
        assert len(lines) == 2
        for line in lines:
            host = make()
            type_in(host, line)
            assert {finding.name for finding in find_status(host).findings} <= {"allowed"}


def test_a_route_that_works_is_moved_by_no_printed_command() -> None:
    """The default route is another card's by now: only an operator knows which one is right."""
    for page in PAGES:
        host = INCIDENTS["differs: the default route is another card's by now"]()
        for line in commands_of(page, host):
            type_in(host, line)
        routes = host.kernel.snapshot().routes
        assert {route.devs for route in routes if route.protocol == OURS} == {("eth0",)}
        assert "repair" not in say(*page.split(), host=host).out.replace("would repair", "")


@pytest.mark.parametrize("change", [lost(LAYOUT.config_path), garble])
def test_a_configuration_that_nobody_has_saved(change: Change) -> None:
    """Each command says how to make a new one; `check` judges by an empty one until then."""
    host = right_but(change)()
    for words in ("status", f"check {CIDR}", f"repair {CIDR}"):
        said = say(*words.split(), host=host)
        assert said.code == 2
        assert "--config - > FILE; then add gate.units, guard and mode)" in said.out + said.err
        newer = f"if a newer hostrouting wrote it: {LAYOUT.node_command} status"
        assert (newer in str(said)) is (change is garble)
    assert say("check", CIDR, "--config", "-", host=host, stdin=b"{}").code == 0
    proposed = say("repair", CIDR, "--config", "-", host=host, stdin=b"{}").out
    written = json.dumps({**json.loads(proposed), "gate": {"units": [KUBELET]}}).encode()
    assert say("apply", "--config", "-", "--allow-removal", host=host, stdin=written).code == 0
    assert find_status(host).state == "in force"


@pytest.mark.parametrize("right", CARDS)
def test_another_card_has_a_better_default_route(
    right: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The gate refuses; `status` has a command for each card, after which the unit starts."""
    host = right_but(start_router)()
    assert start.decide(KUBELET, host, clock=FakeNodeClock()) == REFUSED
    stays, *others = logged(capfd)
    assert "; to keep it via 10.0.0.1 dev eth0, write dev and gateway into the route, " in stays
    assert not any("apply --config" in line or "ACTION" in line for line in (stays, *others))
    lines = {dev: f"hostrouting repair --dev {dev} | hostrouting apply --config -" for dev in CARDS}
    assert [*commands_of("status", host)][:2] == [*lines.values()]
    type_in(host, lines[right])
    assert start.decide(KUBELET, host, clock=FakeNodeClock()) == PASSED
    routes = host.kernel.snapshot().routes
    assert {route.devs for route in routes if route.protocol == OURS} == {(right,)}
    assert find_status(host).state == "in force"

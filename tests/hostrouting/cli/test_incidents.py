"""An incident is told once, in tests/support/statuses.py: what was broken, the command that its
page prints, and how the host is after that was typed.

tests/hostrouting/status has the pages. Here, each command that a page of the incident prints is
typed on it as it stands, in the way in which hostrouting was called.
"""

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from hostrouting.cli.parser import parse
from hostrouting.command import LineToType
from hostrouting.model.route import Route
from hostrouting.status import find_status
from hostrouting.status.findings import STATES
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.incidents import GUARDED, config, let_pass
from tests.support.statuses import INCIDENTS, UNCANCEL, UNMASK
from tests.support.tasks import CIDR, LAYOUT, REPAIR, manager_of

WAYS = ("hostrouting", "env/bin/hostrouting", "python3 hostrouting.pyz")
BACKUP = json.dumps(config(*REPAIR, guard=GUARDED))
WORST_LAST = ("in force", "nothing", "waiting", "differs", "open", "shut")
PAGES = ("status", f"check {CIDR}", "explain 172.16.5.9")


def commands_of(words: str, host: FakeHost, called: str) -> Iterator[str]:
    """The commands that the page of this command line has; none if there is no page."""
    arguments = parse(words.split(), called)
    try:
        lines = [*arguments.run(arguments, host).lines]
    except Exception:  # noqa: BLE001  test_any_host is about errors
        return
    for line in lines:
        if isinstance(line, LineToType) and line.command:
            yield line.command


def type_in(host: FakeHost, line: str, called: str) -> None:
    """Type this line, which calls hostrouting in this way. No command may fail, but a question may
    be answered by any verdict.
    """
    for part in line.split(" && "):
        printed = b""
        for command in part.split(" | "):
            if not command.startswith(called):
                type_other(host, command)
                continue
            words = shlex.split(command.removeprefix(called))
            if words[-1] == "--config":  # whose end the operator knows
                words.append("-")
                printed = BACKUP.encode()
            elif LAYOUT.config_path in words:
                words[words.index(LAYOUT.config_path)] = "-"  # else it is a file of the machine
                printed = host.files.texts[LAYOUT.config_path].encode()
            said = say(*words, host=host, stdin=printed, called=called)
            assert said.code == 0 or is_question(command), f"{command}: {said}"
            printed = said.out.encode()


def is_question(command: str) -> bool:
    """Whether the command only asks, so its exit code is about the host."""
    return re.search(r" (apply|remove|render)\b", command) is None


def type_other(host: FakeHost, command: str) -> None:
    """What other programs do on a fake host."""
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
        case ["mv", path, place]:
            host.files.texts[place] = host.files.texts.pop(path)
        case ["kill", _]:
            host.files.locked.clear()
        case ["chown", "root", path]:
            host.files.owners.pop(path, None)
        case ["chmod", "go-w", path]:
            host.files.modes[path] = host.files.modes.get(path, 0o755) & ~0o022
        case ["sed", "-i", program, path]:
            pattern = program.removeprefix("/").removesuffix("/d")
            lines = host.files.texts[path].splitlines(keepends=True)
            kept = [text for text in lines if not re.search(pattern, text)]
            host.files.texts[path] = "".join(kept)
        case ["systemctl", "daemon-reload"]:
            manager.reload()
        case ["systemctl", "unmask", unit]:
            manager.properties.pop(unit, None)
        case ["systemctl", "start" | "restart", unit]:
            manager.properties[unit] = {"LoadState": "loaded", "ActiveState": "active"}
            let_pass(host, unit)
        case _:
            raise AssertionError(f"the test cannot type this: {command}")


# Each in one way, by its name: a new incident changes the way of no other one.
@pytest.mark.parametrize(
    ("name", "called"), [(name, WAYS[len(name) % len(WAYS)]) for name in INCIDENTS]
)
def test_what_is_printed_can_be_typed(name: str, called: str) -> None:
    """No command of any page fails, and none makes the host worse than it was. The page of `status`
    has the one that ends the incident.
    """
    incident = INCIDENTS[name]
    status = find_status(incident.make())
    states = {STATES.get(finding.name, "differs") for finding in status.findings}
    worst = max(map(WORST_LAST.index, {status.state, *states}))
    pages: tuple[str, ...] = PAGES
    if "escape, and /etc is read-only" in name:  # only `status` looks at the files
        pages = PAGES[:1]
    of_status, *others = [{*commands_of(words, incident.make(), called)} for words in pages]
    ending = re.sub(r"\bhostrouting (repair|apply|remove)", rf"{called} \1", incident.typed)
    if ending:
        assert ending in of_status
        worst = max(worst, WORST_LAST.index(incident.after))
    printed = of_status.union(*others)
    for command in printed - {ending}:
        if re.search(r"CIDR|REASON|journalctl|du -|--help|systemctl restart", command):
            continue  # what the operator has to fill in, or only reads
        host = incident.make()
        for first in {UNMASK, UNCANCEL} & printed - {command}:  # apply is said to repair the rest
            type_in(host, first, called)
        type_in(host, command.replace("--confirm 60", "--confirm-if true"), called)  # no terminal
        assert WORST_LAST.index(find_status(host).state) <= worst, command
    if ending:
        host = incident.make()
        type_in(host, ending, called)
        assert find_status(host).state == incident.after

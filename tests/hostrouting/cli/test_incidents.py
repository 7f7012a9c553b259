"""An incident is told once: the state that `status` has for it, what was broken, the command that
the page prints, and how the host is after that was typed.

tests/hostrouting/status has the pages. Here, each command that a page of the incident prints is
typed on it as it stands: nothing is worse afterwards. The one that ends it is typed where
hostrouting was called in another way.
"""

import json
import re
import shlex
from collections.abc import Iterator
from itertools import cycle
from typing import NamedTuple

import pytest

from hostrouting.cli.parser import parse
from hostrouting.command import LineToType
from hostrouting.model.route import Route
from hostrouting.status import find_status
from hostrouting.status.findings import STATES
from hostrouting.testing import FakeHost
from tests.support.cli import say
from tests.support.incidents import GUARDED, config, let_pass
from tests.support.statuses import HOSTS
from tests.support.tasks import LAYOUT, REPAIR as HALVES, manager_of

WAYS = ("hostrouting", "env/bin/hostrouting", "python3 hostrouting.pyz")
APPLY = f"{WAYS[0]} apply --config {LAYOUT.config_path}"
REPAIR = f"{WAYS[0]} repair | {WAYS[0]} apply --config -"
UNMASK = f"systemctl unmask {LAYOUT.guard_unit}"
CANCELS = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf"
UNCANCEL = rf"sed -i '/^\s*ExecCondition\s*=\s*$/d' {CANCELS} && systemctl daemon-reload"
SCRIPT = f"{LAYOUT.gate_directory}/30-site.sh"
NAMED = f"{WAYS[0]} repair --dev eth0 | {WAYS[0]} apply --config -"
MARKED = f"{WAYS[0]} repair --allow 'fwmark 0xca6c' | {WAYS[0]} apply --config -"


OWN = f"chown root {LAYOUT.config_directory} && chmod go-w {LAYOUT.config_directory}"
HANGS = f"{LAYOUT.gate_directory}/50-gpu-health.sh"
WITHOUT_SCRIPT = f"mv {HANGS} {HANGS}.off && systemctl restart kubelet.service"
BACKUP = json.dumps(config(*HALVES, guard=GUARDED))
WORST_LAST = ("in force", "nothing", "waiting", "differs", "open", "shut")


class Incident(NamedTuple):
    """What is typed, and how the host is then."""

    command: str
    after: str = "in force"


INCIDENTS: dict[str, Incident | None] = {
    "nothing": None,
    "in force": None,
    "in force: a node of kubeadm in mode WARN": Incident(f"{APPLY} --gate k3s.service"),
    "in force: the files of another release": Incident(APPLY),
    "in force: another program has set the routes": None,
    "in force: the card with the better default route is expected": None,
    "differs: another card has a better default route": Incident(NAMED),
    "differs: another card has a better default route, in mode WARN": Incident(NAMED),
    "differs: another card has a better default route, and addresses escape": Incident(NAMED),
    "open: a drop-in is deleted, and another card has a better default route": Incident(
        APPLY, "differs"
    ),
    "open: a drop-in is deleted, another card is better, and addresses escape": Incident(NAMED),
    "differs: routes are missing": Incident(APPLY),
    "differs: the place of a route is taken": Incident(REPAIR),
    "differs: addresses escape in mode WARN": Incident(REPAIR),
    "differs: addresses escape in mode STRICT": Incident(REPAIR),
    "differs: addresses escape in mode WARN, and nft does not answer": None,
    "differs: config.json was edited": Incident(REPAIR, "open"),
    "differs: a unit of ours was edited": None,
    "differs: /etc is read-only": None,
    "differs: the guard has failed, and routes are missing": Incident(APPLY),
    "differs: the guard is masked": Incident(f"{UNMASK} && {APPLY}"),
    "differs: the guard is masked, and routes are missing": Incident(f"{UNMASK} && {APPLY}"),
    "differs: routes of hostrouting are not configured": Incident(REPAIR),
    "differs: routes were typed until the next boot": Incident(REPAIR),
    "differs: the table for probes is lost": Incident(APPLY),
    "differs: addresses escape, and /etc is read-only": None,
    "differs: /run is full": None,
    "differs: /run is full, so that a start has no note": None,
    "differs: the opening is ignored": Incident(f"rm {LAYOUT.opening_path}"),
    "differs: kubelet was refused, and nothing holds it back now": Incident(
        "systemctl start kubelet.service"
    ),
    "differs: kubelet was refused, and another process has the lock": Incident(
        "kill 4711", "differs"
    ),
    "differs: a script of another program did not end": Incident(WITHOUT_SCRIPT),
    "in force: kubelet fails": None,
    "open: kubelet fails": Incident(f"rm {LAYOUT.opening_path}"),
    "open: by an administrator": Incident(f"rm {LAYOUT.opening_path}"),
    "open: by a drop-in that systemd has loaded": Incident(UNCANCEL),
    "open: k3s is not gated": Incident(f"{APPLY} --gate k3s.service"),
    "differs: addresses escape, and k3s is not gated": Incident(f"{REPAIR} --gate k3s.service"),
    "open: no systemd": None,
    "shut: the program is lost": Incident(APPLY),
    "shut: Python leads nowhere": Incident(APPLY),
    "shut: Python is broken": None,
    "shut: others can change a script": Incident(f"chown root {SCRIPT} && chmod go-w {SCRIPT}"),
    "shut: everything belongs to another user": Incident(f"{OWN} && {APPLY}"),
    "shut: config.json is broken": Incident(f"{WAYS[0]} remove", "nothing"),
    "shut: config.json is empty": Incident(f"{WAYS[0]} remove", "nothing"),
    "shut: /etc/hostrouting is deleted": Incident(f"{WAYS[0]} remove", "nothing"),
    "waiting: for a default route": None,
    "waiting: for the gateway of the routes": None,
    "waiting: for a device to be named": Incident(NAMED),
    "waiting: the verdict is undecided": Incident(NAMED),
    "waiting: packets with a mark go elsewhere": Incident(MARKED),
    "waiting: a start waits for the lock": Incident("kill 4711", "waiting"),
    "waiting: systemd does not answer": None,
    "waiting: the kernel does not answer": None,
    "waiting: only root may read the files": None,
}
"""By the incident: what ends it; None if no command that the page prints can do that."""
PAGES = ("status", "check", "check 172.16.0.0/16", "explain 172.16.5.9")


def commands_of(words: str, host: FakeHost, called: str = WAYS[0]) -> Iterator[str]:
    """The commands that the page of this command line has; none if there is no page."""
    arguments = parse(words.split(), called)
    try:
        lines = [*arguments.run(arguments, host).lines]
    except Exception:  # noqa: BLE001  test_any_host is about errors
        return
    for line in lines:
        if isinstance(line, LineToType) and line.command:
            yield line.command


def type_in(host: FakeHost, line: str, called: str = WAYS[0]) -> None:
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
                words[words.index(LAYOUT.config_path)] = (
                    "-"  # `say` would read a file of the machine
                )
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


def test_each_incident_is_in_the_table() -> None:
    """None is forgotten."""
    assert [*INCIDENTS] == [*HOSTS]


ENDED = {name: incident for name, incident in INCIDENTS.items() if incident is not None}


# A page that forgot how it was called would print the first way.
@pytest.mark.parametrize(("name", "called"), [*zip(ENDED, cycle(WAYS[1:]), strict=False)])
def test_what_ends_it(name: str, called: str) -> None:
    """The page of `status` has the command, which does it."""
    incident = ENDED[name]
    host = HOSTS[name]()
    command = re.sub(r"\bhostrouting (repair|apply|remove)", rf"{called} \1", incident.command)
    assert command in commands_of("status", host, called)
    type_in(host, command, called)
    assert find_status(host).state == incident.after


@pytest.mark.parametrize("name", [name for name in HOSTS if "nft does not answer" not in name])
def test_what_is_printed_can_be_typed(name: str) -> None:
    """No command of any page fails, and none makes the host worse than it was."""
    incident = INCIDENTS[name]
    status = find_status(HOSTS[name]())
    states = {STATES.get(finding.name, "differs") for finding in status.findings}
    worst = max(map(WORST_LAST.index, {status.state, *states}))
    if incident is not None:
        worst = max(worst, WORST_LAST.index(incident.after))
    pages: tuple[str, ...] = PAGES
    if "escape, and /etc is read-only" in name:  # only `status` looks at the files
        pages = PAGES[:1]
    printed = {command for words in pages for command in commands_of(words, HOSTS[name]())}
    for command in printed:
        if re.search(r"CIDR|REASON|journalctl|du -|--help|--confirm|systemctl restart", command):
            continue  # what the operator has to fill in, only reads, or needs a terminal
        host = HOSTS[name]()
        if UNMASK in printed:  # the page says that apply fails before that
            type_in(host, UNMASK)
        type_in(host, command)
        assert WORST_LAST.index(find_status(host).state) <= worst, command

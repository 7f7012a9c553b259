"""A node that is never left alone: `make soak MINUTES=60`, and SEED=… for the same steps again.

A unit starts again and again, while step after step is drawn by lot (`STEPS`). systemd-networkd has
eth0; after a reboot, NetworkManager; and so on.
"""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from random import Random

from hostrouting.config.settings import GateConfig, GuardConfig
from tests.support.gate import CONFIG, HALVES, LAYOUT, apply, config, host, markers, ours
from tests.support.newer import newer_program
from tests.support.sections import static
from tests.support.systemd import System
from tests.support.waiting import wait_for
from tests.system.test_beside_real_programs import (
    NETWORK_MANAGER_CONF,
    NETWORK_MANAGER_PROFILE,
    NM_UP,
)
from tests.system.test_networkd_restart import AS_OFTEN_AS_ASKED, LINK, LINK_PATH

UNIT = "pods.service"
STARTED = "/run/started"
"""When the unit has started, in seconds since the boot of the machine: a line for each start."""
WATCHED = "/run/watched"
"""What happened to any route at any moment, as `ip monitor` wrote it."""
STARTS = f"while :; do systemctl start {UNIT}; sleep 0.5; systemctl stop {UNIT}; done"
FILES = {
    f"/etc/systemd/system/{UNIT}": "[Unit]\nStartLimitIntervalSec=0\n[Service]\n"
    f"ExecStart=/bin/sh -c 'cut -d\" \" -f1 /proc/uptime >>{STARTED}; exec sleep infinity'\n",
    "/etc/systemd/system/starts.service": f"[Service]\nExecStart=/bin/sh -c '{STARTS}'\n",
    "/etc/systemd/system/watch.service": "[Unit]\nBefore=network.target\n"
    f"[Service]\nStandardOutput=file:{WATCHED}\nExecStart=/usr/bin/env ip -N -o monitor route\n",
    LINK_PATH: LINK,
    **AS_OFTEN_AS_ASKED,
    "/etc/NetworkManager/NetworkManager.conf": NETWORK_MANAGER_CONF,
}
MANAGERS = (("systemd-networkd", "networkctl reconfigure eth0"), ("NetworkManager", NM_UP))
"""The unit that has eth0, and the command by which it takes eth0's routes away, and sets them."""
WANTED = "/etc/systemd/system/multi-user.target.d/soak.conf"
WANTS = "[Unit]\nWants=watch.service {}.service\n"
# Once the unit is gated.
LATER = "/etc/systemd/system/multi-user.target.d/starts.conf"
# eth1 is a card that no manager has.
THEIRS = (
    "10.50.0.0/16 via 10.1.0.1 dev eth1 proto 4",
    "10.51.0.0/16 dev eth1 metric 7",
    "10.52.0.0/16 via 10.1.0.7 dev eth1 proto 12",
    "10.53.0.0/16 via 10.1.0.1 dev eth1 table 77 proto 11",
    "192.168.99.0/24 dev ib0",
)
RULE = "to 10.53.0.0/16 lookup 77"
AT_BOOT = f"""\
ip link add eth1 type veth peer name peer-eth1
ip link set eth1 up
ip link set peer-eth1 up
ip address add 10.1.0.4/24 dev eth1
ip rule add {RULE}
ip address flush dev eth0
{NETWORK_MANAGER_PROFILE}
"""
ESCAPE = "172.16.200.7 dev ib0"
BASE = config(*HALVES, mode="STRICT")._replace(
    gate=GateConfig((UNIT,)), guard=GuardConfig(enabled=True), manage_foreign="keep"
)
MORE = static("10.77.0.0/16")
NEWER = "/usr/local/bin/newer.pyz"
SETTLED = 60.0
"""Seconds after a step in which everything is right again, on a machine that is busy."""
LARGER = 3 * 1024
"""So many KiB more than after the first minute are no leak: Python keeps freed tuples, up to 2,000
of each length. A thousand passes bring it there, which is 1.5 MiB; then it stays.
"""


class Soak:
    """The node, and what has to hold there."""

    def __init__(self, system: System, chance: Random) -> None:
        self.system = system
        self._managers = cycle(MANAGERS)
        self.manager, self.reconfigure = next(self._managers)
        self._chance = chance
        self._routes = HALVES
        self._is_newer = False
        self._escaping_since = 0.0
        """When no start was left that had begun before the escape; 0 if nothing escapes."""
        self.counts = Counter[str]()
        self._sizes: dict[str, tuple[float, int, int]] = {}
        """By process: when it was first seen, and its KiB and descriptors a minute later."""
        self._lines_read = Counter[str]()
        """Of each file, since the last boot."""

    def step(self) -> str:
        """Do something to the node, and see whether everything holds; the name of the step."""
        names = [name for name, (weight, _) in STEPS.items() for _ in range(weight)]
        name = self._chance.choice(names)
        self.counts[name] += 1
        STEPS[name][1](self)
        self.check()
        return name

    # What is done to the node.

    def systemctl(self, *words: str) -> None:
        self.system.must("systemctl", *words)

    def escape(self) -> None:
        """An address escapes from now on, or no longer."""
        if self._escaping_since:
            self.check_starts()
            self._escaping_since = 0.0
            self.system.must("ip", "route", "del", *ESCAPE.split())
            before = self._lines_read[STARTED]
            wait_for("a start", lambda: self.check_starts() > before)
            return
        self.system.must("ip", "route", "add", *ESCAPE.split())
        self._await_the_end_of_a_start()
        uptime = self.system.must("cut", "-d", " ", "-f1", "/proc/uptime")
        self._escaping_since = float(uptime)

    def fight(self) -> None:
        """Another program takes our routes away, as often as it likes."""
        times = self._chance.randint(1, 12)
        flush = f"for _ in $(seq {times}); do ip route flush proto 213; sleep 0.3; done"
        self.system.must("sh", "-c", flush)

    def edit(self) -> None:
        """Another configuration is applied, by the release that is installed."""
        self._routes = HALVES if len(self._routes) > len(HALVES) else [*HALVES, MORE]
        self._apply()

    def upgrade(self) -> None:
        """The other release takes the place of the one that is installed."""
        self._is_newer = not self._is_newer
        self._apply()

    def garbage(self) -> None:
        """For a moment, config.json is half a file, as an editor leaves it."""
        place = self.system.outside(LAYOUT.config_path)
        text = place.read_text()
        place.write_text(text[: len(text) // 2])
        self._await_the_end_of_a_start()
        before = self.check_starts()
        time.sleep(self._chance.random())
        assert self.check_starts() == before, "started with half a config.json"
        place.write_text(text)

    def lose_device(self) -> None:
        """The device of the default route goes down and up, with all of its routes."""
        self.system.must("ip", "link", "set", "eth0", "down")
        time.sleep(self._chance.random())
        self.system.must("ip", "link", "set", "eth0", "up")

    def reboot(self) -> None:
        """The machine starts again, with the other manager: what was typed is gone."""
        self.check_starts()
        self.check_watched()
        self._escaping_since = 0.0
        self._lines_read.clear()
        self.manager, self.reconfigure = next(self._managers)
        self.system.lay(WANTED, WANTS.format(self.manager))
        self.system.reboot()
        wait_for("a start", self.check_starts)

    # What has to hold.

    def check(self) -> None:
        """Everything, once what is under way has ended."""
        self.check_routes()
        self.check_status()
        self.check_starts()
        self.check_watched()
        self.check_sizes()

    def check_routes(self) -> None:
        """Ours are those that are configured, and theirs are there."""
        wanted = sorted(str(route.destination) for route in self._routes)
        wait_for(
            f"our routes {wanted}", lambda: sorted(ours(self.system)) == wanted, longest=SETTLED
        )
        listed = self.system.must("ip", "-4", "-N", "route", "show", "table", "all")
        for route in THEIRS:
            assert any(has_words(line, route) for line in listed.splitlines()), f"lost: {route}"
        assert RULE in self.system.must("ip", "-4", "rule"), f"lost: rule {RULE}"

    def check_status(self) -> None:
        """It names the escape, and nothing else is wrong but a fight; so does the marker."""
        right = {"overlap"} if self._escaping_since else set[str]()
        follows = {"unit", "unsafe", "action"} if self._escaping_since else set[str]()
        marker = LAYOUT.detected_path if self._escaping_since else LAYOUT.ok_path

        def is_right() -> bool:
            said = self.system.run(LAYOUT.program_path, "status", "--metrics").stdout
            wrong = set(re.findall(r'hostrouting_findings\{name="([^"]+)"\} [1-9]', said))
            return wrong - {"fight", *follows} == right and markers(self.system) == {marker}

        try:
            wait_for("status to be right", is_right, longest=SETTLED)
        except TimeoutError:
            page = self.system.run(LAYOUT.program_path, "status").stdout
            raise AssertionError(
                f"status should name {right or 'nothing'}, beside {marker}:\n{page}"
            ) from None

    def check_starts(self) -> int:
        """No start while an address escapes; the number of starts."""
        new = [float(line) for line in self._new_lines(STARTED)]
        self.counts["starts"] += len(new)
        if self._escaping_since:
            wrong = [moment for moment in new if moment > self._escaping_since]
            assert not wrong, f"started at {wrong}, with an escape since {self._escaping_since}"
        return self._lines_read[STARTED]

    def check_watched(self) -> None:
        """At no moment was a route of ours another than is configured, or one of theirs gone."""
        configured = {str(route.destination) for route in (*HALVES, MORE)}
        for line in self._new_lines(WATCHED):
            is_gone = line.startswith("Deleted ")
            words = line.removeprefix("Deleted ")
            if " proto 213 " in f"{words} ":
                assert words.split()[0] in configured, f"of ours, and not configured: {line}"
                assert " via 10.0.0.1 dev eth0 " in words, f"of ours, and elsewhere: {line}"
                self.counts["ours deleted" if is_gone else "ours added"] += 1
            elif is_gone:
                assert not any(has_words(words, route) for route in THEIRS), f"gone: {line}"

    def _new_lines(self, path: str) -> list[str]:
        """Those that were not read yet."""
        lines = (self.system.read(path) or "").splitlines()
        new = lines[self._lines_read[path] :]
        self._lines_read[path] = len(lines)
        return new

    def check_sizes(self) -> None:
        """Of the guard, as long as it is the same process, and of systemd."""
        now = time.monotonic()
        for pid in (self.system.show(LAYOUT.guard_unit, "MainPID"), "1"):
            if pid == "0":
                continue
            place = self.system.outside(f"/proc/{pid}")
            [line] = re.findall(r"^VmRSS:\s+(\d+)", (place / "status").read_text(), re.MULTILINE)
            kib, descriptors = int(line), len([*(place / "fd").iterdir()])
            name = f"process {self.system.leader}/{pid}"
            since, first_kib, first_descriptors = self._sizes.get(name, (now, kib, descriptors))
            if now < since + 60:
                self._sizes[name] = (since, kib, descriptors)
                continue
            assert kib < first_kib + LARGER, f"{name} had {first_kib} KiB, and has {kib}"
            assert descriptors <= first_descriptors + 8, f"{name} has {descriptors} descriptors"

    def _apply(self) -> None:
        code = 1 if self._escaping_since else 0
        routes = tuple(self._routes)
        settings = BASE._replace(static_routes=BASE.static_routes._replace(routes=routes))
        if not self._is_newer:
            apply(self.system, settings, code=code)
            return
        self.system.lay(CONFIG, json.dumps(settings.to_mapping()))
        words = ("apply", "--allow-removal", "--config", CONFIG)
        done = self.system.run("/usr/bin/python3", NEWER, *words, timeout=120)
        assert done.returncode == code, f"apply ended with {done.returncode}:\n{done.stdout}"

    def _await_the_end_of_a_start(self) -> None:
        """Wait until no start is left that has begun before."""
        before = self.system.show(UNIT, "InvocationID")

        def is_over() -> bool:
            if self.system.show(UNIT, "InvocationID") != before:
                return True
            return self.system.show(UNIT, "ActiveState") not in {"activating", "active"}

        wait_for("the start that was under way", is_over)


def has_words(line: str, route: str) -> bool:
    """Whether the line has all words of the route, in whatever order, and begins as it does."""
    words = route.split()
    return set(words) <= set(line.split()) and line.split()[:1] == words[:1]


STEPS: dict[str, tuple[int, Callable[[Soak], object]]] = {
    "escape": (60, Soak.escape),
    "fight": (40, Soak.fight),
    "edit": (30, Soak.edit),
    "garbage": (20, Soak.garbage),
    "device": (20, Soak.lose_device),
    "reload": (30, lambda soak: soak.systemctl("daemon-reload")),
    "reexec": (10, lambda soak: soak.systemctl("daemon-reexec")),
    "restart": (20, lambda soak: soak.systemctl("restart", soak.manager)),
    "reconfigure": (20, lambda soak: soak.system.must(*soak.reconfigure.split())),
    "services": (20, lambda soak: soak.systemctl("restart", LAYOUT.routes_unit)),
    # Seldom, so that a guard lives for minutes.
    "upgrade": (2, Soak.upgrade),
    "kill": (1, lambda soak: soak.systemctl("kill", "--signal=KILL", LAYOUT.guard_unit)),
    "reboot": (1, Soak.reboot),
}
"""How often a step comes up, and what it does."""


@contextmanager
def node(chance: Random) -> Iterator[Soak]:
    """The node, with everything that is not left alone."""
    add = "".join(f"ip route add {route}\n" for route in THEIRS)
    files = FILES | {WANTED: WANTS.format(MANAGERS[0][0])}
    with host(more=files, then=AT_BOOT + add, machines=()) as system:
        system.outside(NEWER).write_bytes(newer_program())
        soak = Soak(system, chance)
        apply(system, BASE, wait=60)
        soak.systemctl("restart", soak.manager)  # only then, it reads to leave others' rules alone
        system.lay(LATER, "[Unit]\nWants=starts.service\n")
        soak.systemctl("daemon-reload")
        soak.systemctl("start", "starts.service")
        soak.check()
        yield soak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    say = partial(print, flush=True)
    say(f"SEED={arguments.seed}")
    with node(Random(arguments.seed)) as soak:  # noqa: S311  nothing secret
        while (began := time.monotonic()) < end:
            name = soak.step()
            say(f"{name:12} {time.monotonic() - began:6.1f} s")
        say(f"{dict(soak.counts)}")


if __name__ == "__main__":
    main()

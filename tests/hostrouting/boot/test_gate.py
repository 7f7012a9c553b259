"""hostrouting.boot.gate: put up, changed and taken away, one change at a time, and never half of one and half of another."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from functools import cache
from itertools import count, pairwise, product
from typing import TYPE_CHECKING

import attrs
import pytest

import phases
from hostrouting.boot.gate import Changed, Gate, Part
from hostrouting.boot.gate_files import GateStep, parse_gate_steps, render_gate_drop_in, render_gate_steps
from hostrouting.config.settings import GateConfig
from hostrouting.errors import ConfigError, FileError, HostRoutingError, ManagerError
from hostrouting.host.fileset import File, FileSet
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeManager, MemoryBackend, h200
from phases.errors import ExceptionGroup
from phases.testing import FakeClock
from tests.support.mishaps import Killed, Mishaps, busy, full, killed, mishap_host
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hostrouting.config.settings import HostRoutingConfig

KUBELET = "kubelet.service"
CONFIGS = {
    "nothing": config(),
    "one route": config(REPAIR[0]),
    "two routes": config(*REPAIR),
    "warn": config(cidrs=(CIDR,), mode="WARN"),
    "strict": config(cidrs=(CIDR,)),
    "a route, warn": config(REPAIR[0], cidrs=(CIDR,), mode="WARN"),
    "two routes, strict": config(*REPAIR, cidrs=(CIDR,)),
}
SOMETHING = [name for name in CONFIGS if name != "nothing"]
FOR_KUBELET = attrs.evolve(CONFIGS["strict"], gate=GateConfig([KUBELET, "k3s.service"]))
PAIRS = [pair for pair in product(CONFIGS, CONFIGS) if pair[0] != pair[1]]
each_pair = pytest.mark.parametrize(("one", "other"), PAIRS)
RING = [*pairwise([*CONFIGS, "nothing"])]
"""Each configuration once as the former one, and once as the new one."""

STEPS, DROP_IN = LAYOUT.gate_steps_path, LAYOUT.gate_drop_in()
STOP = f"stop {LAYOUT.gate_unit}"
CONSTANT = (DROP_IN, LAYOUT.gate_unit_path, LAYOUT.gate_script_path)
MACHINE = "systemd-nspawn@kube1.service"


@cache
def parts(wanted: HostRoutingConfig) -> tuple[list[Part], list[Part]]:
    """The parts to install and the parts to remove for this configuration."""
    tasks = Configure(wanted, host=FakeHost()).subtasks
    return [task.part for task in tasks if task.is_wanted], [task.part for task in tasks if not task.is_wanted]


def gate_host() -> tuple[FakeHost, Mishaps]:
    """A host without a route: the gate does not ask the kernel."""
    return mishap_host(MemoryBackend())


def context() -> phases.Context:
    """A run on a clock that does not really wait."""
    return phases.Context(clock=FakeClock(), observers=[])


def change(host: FakeHost, wanted: HostRoutingConfig) -> Changed:
    """Make the gate what this configuration says."""
    return Gate(host, wanted).change(context(), *parts(wanted))


def is_whole(host: FakeHost, wanted: HostRoutingConfig) -> bool:
    """Whether the gate is what the configuration says, read by systemd, and nothing is to be done."""
    assert host.manager is not None
    up, down = parts(wanted)
    gate = Gate(host, wanted)
    read = host.manager.show(("NeedDaemonReload",), LAYOUT.gate_unit)[0]["NeedDaemonReload"] == "no"
    return read and not gate.changes(up, down) and not gate.is_unread((*up, *down)) and not has_changing(host)


def has_changing(host: FakeHost) -> bool:
    """Whether any step is changing."""
    return any(step.kind == "changing" for step in Gate(host).steps)


def listed(host: FakeHost) -> tuple[GateStep, ...] | None:
    """The steps in the list, which must be whole; None without a list."""
    text = host.files.read(STEPS)
    return None if text is None else parse_gate_steps(text)


@cache
def changed(name: str) -> tuple[FakeHost, Mishaps]:
    """A host with the gate of this configuration; tests copy it."""
    host, mishaps = gate_host()
    change(host, CONFIGS[name])
    return host, mishaps


def copied(host: FakeHost, mishaps: Mishaps) -> tuple[FakeHost, Mishaps]:
    """A copy of the host with the same kernel, which the gate does not ask."""
    return deepcopy((host, mishaps), {id(host.kernel): host.kernel})


def interrupted(one: str, other: str, error: Callable[[str], BaseException]) -> Iterator[tuple[FakeHost, Mishaps]]:
    """The host after each change of a run that was ended there, or that went on past the failure."""
    for nth in count(1):
        host, mishaps = copied(*changed(one))
        mishaps.arm(nth, error)
        with suppress(Killed, HostRoutingError):
            change(host, CONFIGS[other])
        if len(mishaps.events) < nth:
            return
        mishaps.disarm()
        yield host, mishaps


class TestNeverAMixture:
    """A machine that starts is judged by what was before, or by what is after."""

    @pytest.mark.parametrize("error", [killed, full], ids=["killed", "refused"])
    def test_whatever_ends_it(self, error: Callable[[str], BaseException]) -> None:
        """If a change is interrupted anywhere, the list and files are the old ones, or each step is new or changing.

        The next run ends with all of it, whether it is told the same or what was before.
        """
        for one, other in RING:
            before, up = changed(one)[0].files, parts(CONFIGS[other])[0]
            old = [path for part in parts(CONFIGS[one])[0] for path in part.files.present(before)]
            for host, mishaps in interrupted(one, other, error):
                has_old = all(
                    host.files.texts.get(path) == before.texts.get(path)
                    and host.files.links.get(path) == before.links.get(path)
                    for path in (STEPS, *old)
                )
                if has_old:
                    pass
                elif not up:
                    assert listed(host) == () or DROP_IN not in host.files.texts
                else:
                    found = {step.name: step for step in listed(host) or ()}
                    assert set(found) == {part.name for part in up}
                    ready = [part for part in up if found[part.name].kind != "changing"]
                    assert [found[part.name] for part in ready] == [part.step for part in ready]
                    assert not [part.name for part in ready if part.files.differences(host.files)]
                for wanted in (CONFIGS[one], CONFIGS[other]):
                    again, _ = copied(host, mishaps)
                    change(again, wanted)
                    assert is_whole(again, wanted)

    @each_pair
    def test_each_file_that_cannot_be_changed(self, one: str, other: str) -> None:
        """If any file fails, the drop-in is in place and loaded, and the gate is shut or unchanged."""
        host, mishaps = gate_host()
        change(host, CONFIGS[one])
        mishaps.disarm()
        change(host, CONFIGS[other])
        up, _ = parts(CONFIGS[other])
        for path in [event.partition(" ")[2] for event in mishaps.events if "/" in event] if up else []:
            host, _ = gate_host()
            change(host, CONFIGS[one])
            before = dict(host.files.texts)
            host.files.broken[path] = "No space left on device"
            with pytest.raises(FileError, match="No space left on device"):
                change(host, CONFIGS[other])
            assert host.manager is not None
            assert host.manager.read.get(DROP_IN) == host.files.texts.get(DROP_IN), path
            assert (DROP_IN in host.files.texts) == (path != DROP_IN), path
            is_missing = not {LAYOUT.gate_script_path, STEPS} <= set(host.files.texts)
            is_as_before = host.files.texts.get(STEPS) == before.get(STEPS)
            assert is_missing or is_as_before or has_changing(host) or path not in parts_paths(up), path
            host.files.broken.clear()
            change(host, CONFIGS[other])
            assert is_whole(host, CONFIGS[other])


def parts_paths(of: list[Part]) -> set[str]:
    """The paths of all their files and links."""
    return {path for part in of for path in (*(file.path for file in part.files.files), *dict(part.files.links))}


class TestOrder:
    """Pairs of changes: the first has to come before the second."""

    @each_pair
    def test_stopped_first(self, one: str, other: str) -> None:
        """The list changes first and last; the gate's unit is stopped between the two, before any other file changes.

        So a run that has read the former list ends before a script differs, whether or not it waits for a lock.
        """
        host, mishaps = gate_host()
        change(host, CONFIGS[one])
        mishaps.disarm()
        up, _ = parts(CONFIGS[other])
        change(host, CONFIGS[other])
        assert mishaps.events[:2] == [f"write {STEPS}", STOP]
        assert mishaps.events.count(STOP) == 1
        files = [event for event in mishaps.events if "/" in event]
        if any(event.partition(" ")[2] in parts_paths(up) for event in files):
            assert files[-1] == mishaps.events[-1] == f"write {STEPS}"

    @pytest.mark.parametrize("name", SOMETHING)
    def test_up(self, name: str) -> None:
        """On a new host, the list shuts the gate before its script exists; the drop-in is written near the end."""
        host, mishaps = gate_host()
        change(host, CONFIGS[name])
        written = [event.partition(" ")[2] for event in mishaps.events if "/" in event]
        assert written[:3] == [STEPS, LAYOUT.gate_script_path, LAYOUT.gate_unit_path]
        assert written[-2:] == [DROP_IN, STEPS]
        events = mishaps.events
        assert events.index(f"write {DROP_IN}") < events.index("reload") < len(events) - 1
        assert events[-1] == f"write {STEPS}"

    @pytest.mark.parametrize("name", CONFIGS)
    def test_again(self, name: str) -> None:
        """A gate that is already right stays as it is, and nothing is stopped."""
        host, mishaps = gate_host()
        change(host, CONFIGS[name])
        mishaps.disarm()
        assert change(host, CONFIGS[name]) == {}
        assert mishaps.events == []

    @each_pair
    def test_what_is_announced(self, one: str, other: str) -> None:
        """What `changes` names is what `change` writes and removes, the list only where it is another in the end."""
        host = FakeHost(kernel=h200())
        change(host, CONFIGS[one])
        up, down = parts(CONFIGS[other])
        announced = Gate(host).changes(up, down)
        there = {**host.files.texts, **host.files.links}
        changed = {path for paths in change(host, CONFIGS[other]).values() for path in paths}
        assert changed == {*announced.writes, *announced.removes}
        now = {*host.files.texts, *host.files.links}
        assert set(announced.removes) == set(there) - now
        assert set(announced.writes) <= now

    def test_a_stop_that_fails(self) -> None:
        """While the gate's unit cannot be stopped, nothing is changed."""
        for one, other in PAIRS:
            host, mishaps = gate_host()
            change(host, CONFIGS[one])
            before = dict(host.files.texts)
            mishaps.arm(1, busy)
            with pytest.raises(HostRoutingError, match="did not answer"):
                change(host, CONFIGS[other])
            assert host.files.texts == before


class TestConstant:
    """What systemd reads of the gate never changes."""

    def test_the_same_for_every_configuration(self) -> None:
        """Drop-in, unit and script have one text, whatever is configured and whatever was before."""
        host, mishaps = gate_host()
        change(host, CONFIGS["two routes"])
        texts = {path: host.files.texts[path] for path in CONSTANT}
        for name in (*SOMETHING, *reversed(SOMETHING)):
            mishaps.disarm()
            change(host, CONFIGS[name])
            assert {path: host.files.texts[path] for path in CONSTANT} == texts
            assert not [event for event in mishaps.events if event.partition(" ")[2] in CONSTANT]

    def test_no_reload_for_another_list(self) -> None:
        """If only the list and scripts change, systemd is not told to read anything."""
        host, mishaps = gate_host()
        change(host, CONFIGS["a route, warn"])
        mishaps.disarm()
        change(host, CONFIGS["two routes, strict"])
        assert "reload" not in mishaps.events

    def test_no_room_for_a_reload(self) -> None:
        """If systemd would not read a new unit, or go on with a deleted one, nothing is changed. Scripts need no reload."""
        host, mishaps = gate_host()
        assert host.manager is not None
        host.manager.room = 15 << 20
        with pytest.raises(ManagerError, match=r"systemd reads no new units with .* which has 15 MiB; to see"):
            change(host, CONFIGS["warn"])
        assert (host.files.texts, mishaps.events) == ({}, [])
        host.manager.room = 16 << 20
        change(host, CONFIGS["warn"])
        host.manager.room = 0
        change(host, CONFIGS["strict"])
        assert is_whole(host, CONFIGS["strict"])
        before = dict(host.files.texts)
        with pytest.raises(ManagerError, match="systemd reads no new units"):
            change(host, CONFIGS["nothing"])
        assert host.files.texts == before


def another(name: str, text: str = "#!/bin/sh\n") -> Part:
    """The part of a task that we have never heard of."""
    files = FileSet((File(f"{LAYOUT.config_directory}/{name}.sh", text, 0o755),))
    return Part(GateStep(70, "wants", name), files, f"{name}.service")


class TestOthers:
    """Parts that come and go one at a time."""

    @pytest.mark.parametrize("kind", ["requires", "wants", "changing"])
    def test_steps_of_others_stay(self, kind: str) -> None:
        """A step that is neither added nor removed stays unchanged in the list, under any name."""
        host = FakeHost(kernel=h200())
        theirs = GateStep.parse(f"55 {kind} something-else")
        host.files.write(STEPS, render_gate_steps([theirs]))
        [routes], others = parts(CONFIGS["one route"])
        check = next(part for part in others if part.unit == LAYOUT.check_unit)
        gate = Gate(host)
        gate.change(context(), (routes,))
        assert listed(host) == (routes.step, theirs)
        gate.change(context(), (check,))
        assert listed(host) == (routes.step, theirs, check.step)
        gate.change(context(), (), (routes,))
        assert listed(host) == (theirs, check.step)
        gate.change(context(), (), (check,))
        assert listed(host) == (theirs,)
        assert DROP_IN in host.files.texts

    def test_by_rank(self) -> None:
        """Steps are listed by rank, and by name if ranks are equal."""
        host = FakeHost()
        gate = Gate(host)
        for name in ("b", "a", "c"):
            gate.change(
                context(), (attrs.evolve(another(name), step=GateStep(9 if name == "c" else 70, "wants", name)),)
            )
        assert [step.name for step in gate.steps] == ["c", "a", "b"]

    def test_the_last_one_goes(self) -> None:
        """The gate is removed completely with its last step."""
        host = FakeHost()
        gate = Gate(host)
        gate.change(context(), (another("a"), another("b")))
        gate.change(context(), (), (another("a"),))
        assert set(CONSTANT) <= set(host.files.texts)
        gate.change(context(), (), (another("b"),))
        assert host.files.texts == {}
        assert gate.present() == ()

    def test_changed_paths_by_part(self) -> None:
        """The answer has the paths of each part; the first part also has those of the gate."""
        host = FakeHost()
        changed = Gate(host).change(context(), (another("a"), another("b")))
        assert changed["b"] == ("/etc/hostrouting/b.sh",)
        assert set(changed["a"]) == {STEPS, *CONSTANT, "/etc/hostrouting/a.sh"}
        assert host.files.modes[LAYOUT.gate_script_path] == 0o755, "only root may write what root runs"

    def test_a_broken_list(self) -> None:
        """Lines that are not steps are left out when the list is written again."""
        host = FakeHost()
        host.files.write(STEPS, "50 requires a\nnonsense\n60 wants b")
        Gate(host).change(context(), (another("c"),))
        assert listed(host) == (GateStep(50, "requires", "a"), GateStep(60, "wants", "b"), another("c").step)

    def test_what_remains_of_its_runs(self) -> None:
        """Files that the runs of a part leave go with it."""
        host = FakeHost()
        part = attrs.evolve(another("a"), remains=("/run/a.ok",))
        Gate(host).change(context(), (part, another("b")))
        host.files.write("/run/a.ok", "")
        assert "/run/a.ok" in part.present(host.files)
        assert "/run/a.ok" in Gate(host).change(context(), (another("b"),), (part,))["a"]
        assert "/run/a.ok" not in host.files.texts

    def test_a_unit_that_is_not_ours_is_not_stopped(self) -> None:
        """If a part is removed whose unit we did not write, the unit keeps running."""
        host, mishaps = gate_host()
        change(host, CONFIGS["two routes, strict"])
        host.files.texts[LAYOUT.check_unit_path] = "[Service]\nExecStart=/opt/x\n"
        mishaps.disarm()
        change(host, CONFIGS["nothing"])
        assert f"stop {LAYOUT.check_unit}" not in mishaps.events
        assert f"stop {LAYOUT.routes_unit}" in mishaps.events


@attrs.define
class Starting(FakeManager):
    """A manager that answers so many times that a machine still runs its commands before the start."""

    looks: int = 10**6
    seen: Callable[[], object] = lambda: None

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """See Manager."""
        if "SubState" not in names:
            return super().show(names, *units)
        assert units == ("systemd-nspawn@*.service",)
        self.seen()
        self.looks -= 1
        return ({"Id": MACHINE, "SubState": "start-pre" if self.looks >= 0 else "running"},)


def left(host: FakeHost) -> set[str]:
    """The remaining files, without the script of the routes: their task removes it after the routes."""
    return {*host.files.texts, *host.files.links} - {LAYOUT.routes_script_path}


class TestTakenAway:
    """First machines are let in, then the whole gate is removed."""

    @pytest.mark.parametrize("name", SOMETHING)
    def test_in_order(self, name: str) -> None:
        """The list is opened, the drop-in removed and systemd reloaded; then units are stopped and files removed, the list last."""
        host, mishaps = gate_host()
        change(host, CONFIGS[name])
        up = parts_paths(parts(CONFIGS[name])[0])
        mishaps.disarm()
        change(host, CONFIGS["nothing"])
        events = mishaps.events
        assert events[:4] == [f"write {STEPS}", STOP, f"remove {DROP_IN}", "reload"]
        stops = [f"stop {part.unit}" for part in parts(CONFIGS["nothing"])[1] if part.unit]
        assert events[4 : 4 + len(stops)] == stops
        begin = 4 + len(stops)
        mine = [at for at, event in enumerate(events) if event.partition(" ")[2] in up]
        assert mine == list(range(begin, begin + len(mine)))
        rest = [f"remove {path}" for path in (LAYOUT.gate_script_path, LAYOUT.gate_unit_path)]
        assert events[begin + len(mine) :] == [*rest, "reload", f"remove {STEPS}"]
        assert left(host) == set()

    @pytest.mark.parametrize("looks", [0, 5, 10**6])
    def test_starting_machines_are_waited_for(self, looks: int) -> None:
        """The drop-in stays until all starting machines have passed, and at most 20 s. Then it is removed."""
        manager = Starting(looks=looks)
        host = FakeHost(kernel=h200(), manager=manager)
        change(host, CONFIGS["two routes"])
        opened: list[bool] = []
        manager.seen = lambda: opened.append(Gate(host).steps == () and DROP_IN in host.files.texts)
        ctx = context()
        Gate(host).change(ctx, *parts(CONFIGS["nothing"]))
        assert opened
        assert all(opened)
        assert ctx.clock.now() == pytest.approx(min(looks / 10, 20), abs=0.2)
        assert left(host) == set()

    @pytest.mark.parametrize("substate", ["condition", "start-pre"])
    def test_which_machines_are_starting(self, substate: str) -> None:
        """A machine is starting while its unit is at its conditions or at its commands before the start."""
        host = FakeHost()
        assert host.manager is not None
        host.manager.properties = {MACHINE: {"SubState": substate}, "systemd-nspawn@b.service": {"SubState": "running"}}
        assert Gate(host).starting((LAYOUT.machine_unit,)) == (MACHINE,)

    def test_past_failures(self) -> None:
        """Whichever files cannot be removed, all others go, and each that is left is named."""
        host, mishaps = gate_host()
        change(host, CONFIGS["two routes, strict"])
        mishaps.disarm()
        change(host, CONFIGS["nothing"])
        paths = {event.partition(" ")[2] for event in mishaps.events if "/" in event}
        for broken in ({path} for path in paths):
            host, _ = gate_host()
            change(host, CONFIGS["two routes, strict"])
            host.files.broken |= dict.fromkeys(broken, "Read-only file system")
            with pytest.raises(FileError, match=f"cannot remove {next(iter(broken))}: Read-only"):
                change(host, CONFIGS["nothing"])
            if broken == {DROP_IN}:
                assert Gate(host).steps == ()
                assert left(host) == {STEPS, *CONSTANT}, "machines go on asking, and pass"
            else:
                assert left(host) == broken
            host.files.broken.clear()
            change(host, CONFIGS["nothing"])
            assert left(host) == set()

    def test_several_failures(self) -> None:
        """Several failures are one error with all of them."""
        host = FakeHost(kernel=h200())
        change(host, CONFIGS["two routes"])
        broken = {LAYOUT.gate_unit_path, LAYOUT.routes_unit_path}
        host.files.broken |= dict.fromkeys(broken, "Read-only file system")
        with pytest.raises(ExceptionGroup, match="not everything could be removed") as caught:
            change(host, CONFIGS["nothing"])
        assert {error.path for error in caught.value.exceptions if isinstance(error, FileError)} == broken


class TestUnits:
    """The list of gated units is that of the configuration; what it is on the host, the host itself knows."""

    def test_who_comes_and_who_leaves(self) -> None:
        """Units get and lose our drop-in with one daemon-reload; another's file in the folder stays.

        Kills: a drop-in that stays behind, and a digest of one that is gone.
        """
        host = FakeHost()
        change(host, CONFIGS["strict"])
        other = f"/etc/systemd/system/{KUBELET}.d/10-kubeadm.conf"
        host.files.write(other, "[Service]\n")
        assert host.manager is not None
        host.manager.reload()
        host.manager.calls.clear()
        change(host, FOR_KUBELET)
        assert host.manager.calls.count("reload") == 1
        assert Gate(host).gated == ("k3s.service", KUBELET)
        assert {host.files.read(LAYOUT.gate_drop_in(unit)) for unit in Gate(host).gated} == {render_gate_drop_in()}
        assert host.files.read(DROP_IN) is None
        assert DROP_IN not in (host.files.read(STEPS) or "")
        change(host, CONFIGS["nothing"])
        assert left(host) == {other}

    def test_a_drop_in_that_was_removed(self) -> None:
        """A unit that has lost its drop-in is still known as gated; a change without a list writes the drop-in again.

        Kills: a list that is only looked up in the folders of the units.
        """
        host = FakeHost()
        change(host, FOR_KUBELET)
        host.files.remove(LAYOUT.gate_drop_in(KUBELET))
        assert Gate(host).gated == ("k3s.service", KUBELET)
        up, down = parts(FOR_KUBELET)
        Gate(host).change(context(), up, down)
        assert host.files.read(LAYOUT.gate_drop_in(KUBELET)) == render_gate_drop_in()

    def test_a_list_that_was_lost(self) -> None:
        """The drop-ins themselves say which units are gated, and a file of another program with their name does not."""
        host = FakeHost()
        change(host, FOR_KUBELET)
        host.files.remove(STEPS)
        host.files.write(LAYOUT.gate_drop_in("other.service"), "[Service]\n")
        assert Gate(host).gated == ("k3s.service", KUBELET)
        change(host, CONFIGS["nothing"])
        assert left(host) == {LAYOUT.gate_drop_in("other.service")}

    def test_a_unit_that_the_gate_waits_for(self) -> None:
        """A unit that starts before the network would wait for the gate, and the gate for it: nothing is changed.

        Kills: asking about the units that are gated already, a refusal after the first file, and a path without the
        agent's section.
        """
        host = FakeHost()
        assert host.manager is not None
        host.manager.properties = {"k3s.service": {"Before": "shutdown.target network.target"}}
        told = '"k3s.service" starts before network.target, which the gate waits for'
        for settings in (FOR_KUBELET, attrs.evolve(FOR_KUBELET, nested_in="hostRouting")):
            with pytest.raises(ConfigError, match=f"^{settings.path('gate', 'units')}: {told}"):
                change(host, settings)
        assert host.files.writes == []
        host.manager.properties = {"k3s.service": {"Before": "shutdown.target"}}
        change(host, FOR_KUBELET)

    @pytest.mark.parametrize(("unit", "name"), [(KUBELET, "node.service"), ("kube@.service", "node@.service")])
    def test_an_alias(self, unit: str, name: str) -> None:
        """An alias is refused with the name that systemd uses, which `%n` and every message would have.

        Kills: gating an alias, whose break glass would open nothing.
        """
        host, settings = FakeHost(), attrs.evolve(CONFIGS["strict"], gate=GateConfig([unit]))
        assert host.manager is not None
        asked, known = (text.replace("@.", "@hostrouting-probe.") for text in (unit, name))
        host.manager.properties = {asked: {"Id": known}}
        with pytest.raises(ConfigError, match=f'gate.units: "{unit}" is an alias of {name}; write "{name}"'):
            change(host, settings)
        assert host.files.writes == []

    def test_a_run_that_is_killed(self) -> None:
        """Wherever a run is killed, the next one finishes: the units of its list are gated, and systemd has read it.

        Kills: forgetting, after the kill, the unit whose drop-in was removed before the daemon-reload.
        """
        for nth in count(1):
            host, mishaps = copied(*changed("strict"))
            assert host.manager is not None
            host.manager.properties = {MACHINE: {}}
            mishaps.arm(nth, killed)
            with suppress(Killed):
                change(host, FOR_KUBELET)
                break
            assert Gate(host).gated
            mishaps.disarm()
            change(host, FOR_KUBELET)
            assert Gate(host).gated == ("k3s.service", KUBELET)
            assert is_whole(host, FOR_KUBELET)
            assert host.manager.has_read_all, nth

    def test_a_unit_that_leaves_while_it_starts(self) -> None:
        """Its start comes to an end first: systemd would skip the commands of its other drop-ins."""
        host = FakeHost()
        change(host, CONFIGS["strict"])
        assert host.manager is not None
        host.manager.properties = {MACHINE: {"SubState": "start-pre"}}
        ctx, wanted = context(), FOR_KUBELET
        Gate(host, wanted).change(ctx, *parts(wanted))
        assert ctx.clock.now() == pytest.approx(20, abs=0.2)


class TestImage:
    """A host on which no systemd runs."""

    @pytest.mark.parametrize("manager", [None, FakeManager(running=False)])
    def test_files_alone(self, manager: FakeManager | None) -> None:
        """The same files are written and removed, and systemd is not asked."""
        host = FakeHost(kernel=h200(), manager=manager)
        change(host, CONFIGS["two routes, strict"])
        with_systemd = FakeHost(kernel=h200())
        change(with_systemd, CONFIGS["two routes, strict"])
        assert (host.files.texts, host.files.links) == (with_systemd.files.texts, with_systemd.files.links)
        assert change(host, CONFIGS["two routes, strict"]) == {}
        assert not manager or not (manager.calls or manager.asked)
        change(host, CONFIGS["nothing"])
        assert left(host) == set()


def test_mishaps_count_every_change() -> None:
    """The double of these tests sees each change once; the other tests here depend on that."""
    host, mishaps = gate_host()
    assert isinstance(mishaps, Mishaps)
    change(host, CONFIGS["two routes, strict"])
    assert host.manager is not None
    paths = [event.partition(" ")[2] for event in mishaps.events if "/" in event]
    assert paths == host.files.writes
    assert [event for event in mishaps.events if "/" not in event] == host.manager.calls

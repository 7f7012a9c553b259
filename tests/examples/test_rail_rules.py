"""examples/rail_rules.py: a task of another project in one file, which keeps the contract and is known everywhere."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import phases
from examples.rail_rules import RailRules
from hostrouting import (
    TASKS,
    Change,
    ConfigError,
    Configure,
    Effects,
    Guard,
    Host,
    HostRoutingConfig,
    HostTask,
    Operation,
    Part,
    Remove,
)
from hostrouting.boot.installed import kept_config
from hostrouting.errors import TaskError
from hostrouting.fleet import Ran, outcome_of
from hostrouting.host.fileset import Changes
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.tasks.configure import installed_tasks
from hostrouting.testing import FakeFiles, FakeHost, MemoryBackend, check_task
from tests.support.cli import say
from tests.support.namespace import private_namespace
from tests.support.tasks import run

RAIL = {"address": "10.1.0.4", "gateway": "10.1.0.1", "dev": "eth1", "table": 1001}
CONFIG = HostRoutingConfig(extensions={"rail-rules": [RAIL]})
BOTH = (*TASKS, RailRules)
SCRIPT = "/etc/hostrouting/rail-rules.sh"
SETTING = "/proc/sys/net/ipv4/ip_forward"
KEPT = "/etc/hostrouting/extensions/rail-rules.json"
THINGS = "default via 10.1.0.1 dev eth1 table 1001 proto 214", "1000: from 10.1.0.4/32 lookup 1001"


def rail_host() -> FakeHost:
    """A host with a secondary NIC."""
    kernel = MemoryBackend()
    for dev, address in (("eth0", "10.0.0.4/24"), ("eth1", "10.1.0.4/24")):
        kernel.add_link(dev)
        kernel.add_address(dev, address)
    return FakeHost(kernel=kernel, files=FakeFiles({SETTING: "0\n"}))


def things(backend: Any) -> tuple[str, ...]:
    """What the task has in a kernel."""
    now = backend.snapshot()
    return tuple(str(thing) for thing in (*now.routes, *now.rules) if thing.protocol == 214)


def test_the_contract() -> None:
    """The task keeps the promises of a task."""
    check_task(RailRules, CONFIG, host=rail_host)


# Each breaks one promise.


class Idle(RailRules):
    """Does nothing."""

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:  # noqa: ARG002  see the class
        """See the class."""
        return Effects()


class Restless(RailRules):
    """Does the same again in each run."""

    def change(self, *, up: bool) -> Change:
        """See the class."""
        return super().change(up=up) + Change(operations=(Operation("add", "nothing", "no reason"),))

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:
        """See the class."""
        done = tuple(operation for operation in change.operations if operation.thing)
        super().carry_out(ctx, attrs.evolve(change, operations=done), up=up)
        return Effects(operations=change.operations)


class Staying(RailRules):
    """Leaves its routes and rules in the kernel."""

    def change(self, *, up: bool) -> Change:
        """See the class."""
        return super().change(up=up) if up else Change()


class Scattering(RailRules):
    """Writes a file outside of the image's root."""

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:
        """See the class."""
        if self.host.backend is None:
            self.host.files.write("/etc/rails", "here")
        return super().carry_out(ctx, change, up=up)


class Blind(RailRules):
    """Looks at its rules only, so that a route that was lost stays lost."""

    def change(self, *, up: bool) -> Change:
        """See the class."""
        found = super().change(up=up).operations
        return Change(operations=found if any(" lookup " in operation.object for operation in found) else ())


class Careless(RailRules):
    """Is not guarded."""

    def keep(self, *_: object) -> Any:
        """See the class."""
        return Staying(self.config, host=rail_host()).keep(phases.Context(observers=[]), lambda _: False)


class Lax(RailRules):
    """Has a setting too, which its guard does not look at."""

    def change(self, *, up: bool) -> Change:
        """See the class."""
        wanted = "1" if up else "0"
        is_set = (self.host.files.read(SETTING) or "").strip() == wanted
        more = () if is_set else (Operation("set", f"ip_forward to {wanted}", "it is not", wanted),)
        return super().change(up=up) + Change(operations=more)

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:  # noqa: ARG002  as in the class above
        """See the class."""
        return Effects.of_each(change.operations, self._act)

    def _act(self, operation: Operation) -> None:
        if isinstance(operation.thing, str):
            self.host.files.write(SETTING, f"{operation.thing}\n")
        else:
            self._set(operation)

    def keep(self, *given: Any) -> Any:
        """See the class."""
        return RailRules(self.config, host=self.host).keep(*given)


class Tabling(RailRules):
    """Has a table of nftables too, and looks only at its rules: a kill between them leaves one without the other."""

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:
        """See the class."""
        done = super().carry_out(ctx, change, up=up)
        if done.operations and self.host.nftables is not None:
            self.host.nftables().load(
                "table ip6 rails {\n}\n" if up else "add table ip6 rails\ndelete table ip6 rails\n"
            )
        return done


class Noting(RailRules):
    """Has a file too, which it writes after its rules; it looks only at these."""

    def change(self, *, up: bool) -> Change:
        """See the class."""
        found, note = super().change(up=up), ("/etc/rails",)
        files = (Changes(note) if up else Changes(removes=note)) if found.operations else Changes()
        return attrs.evolve(found, files=files)

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:
        """See the class."""
        done, write, remove = super().carry_out(ctx, change, up=up), self.host.files.write, self.host.files.remove
        is_changed = done.operations and (write("/etc/rails", "here") if up else remove("/etc/rails"))
        return attrs.evolve(done, files=("/etc/rails",) if is_changed else ())


class Halting(RailRules):
    """Deletes its route before its rule, and forgets a rule without a route."""

    def change(self, *, up: bool) -> Change:
        """See the class."""
        found = super().change(up=up).operations
        if up:
            return Change(operations=found)
        is_halfway = len(found) == 1 and "lookup" in found[0].object
        return Change(operations=() if is_halfway else found[::-1])


class Taking(RailRules):
    """Has a part with the name of another task's, whose script it would replace."""

    @property
    def part(self) -> Part:
        """See the class."""
        return Part.of(self.host.layout, "static-routes", "exit 0\n", rank=45)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (Taking, "the part static-routes is that of ConfigureStaticRoutes; give yours another name"),
        (Tabling, "another run does not finish the work"),
        (Noting, "another run does not finish the work"),
        (Halting, "after a kill of Remove before its effect \\d+, another leaves something"),
        (Idle, "other operations than planned|still something to do"),
        (Restless, "after a run, there is still something to do"),
        (Staying, "Remove leaves something on the host: 1000: from 10.1.0.4/32 lookup 1001, default via 10.1.0.1"),
        (Lax, f"the guard does not repair what was lost: {SETTING}\n"),
        (Scattering, "outside of the image"),
        (Careless, "the guard does not repair"),
        (Blind, "another run does not finish|Remove leaves something"),
    ],
)
def test_a_broken_promise(task: type[HostTask[Effects]], told: str) -> None:
    """The suite names the promise that a task does not keep."""
    with pytest.raises(AssertionError, match=told):
        check_task(task, CONFIG, host=rail_host)


def test_each_host_is_new() -> None:
    """If two runs share a host, the error blames the caller, not the task."""
    host = rail_host()
    with pytest.raises(AssertionError, match="host= does not make a new host each time"):
        check_task(RailRules, CONFIG, host=lambda: host)


# In an agent.


def test_beside_the_others() -> None:
    """Its step comes before the check, and its rules and settings come and go with its section."""
    host = rail_host()
    run(Configure(CONFIG, host=host, tasks=BOTH))
    assert things(host.kernel.reopen()) == THINGS
    assert "45 requires rail-rules" in host.files.texts["/etc/hostrouting/host-routing-gate.conf"]
    assert json.loads(host.files.texts[KEPT])["settings"] == [RAIL]
    # The gate would go with its only step, and the remedy is the section of that task.
    gone = Configure(HostRoutingConfig(), host=host, tasks=BOTH).preview().removals
    assert [(finding.target, finding.remedy.partition(",")[0]) for finding in gone] == [
        ('extensions["rail-rules"]', 'add extensions["rail-rules"]')
    ]
    run(Configure(HostRoutingConfig(), host=host, tasks=BOTH))
    assert things(host.kernel.reopen()) == ()
    assert not {SCRIPT, KEPT} & {*host.files.texts}


def test_faults_have_their_path() -> None:
    """Each fault of the section is reported with its path, before anything is changed."""
    bad = HostRoutingConfig(extensions={"rail-rules": [RAIL, {**RAIL, "dev": "a b"}, {"address": "10.1.0.4"}]})
    host = rail_host()
    with pytest.raises(phases.TaskFailed) as caught:
        run(Configure(bad, host=host, tasks=BOTH))
    assert isinstance(caught.value.error, ConfigError)
    paths = [fault.path for fault in caught.value.error.faults]
    assert paths == ['extensions["rail-rules"][1]', 'extensions["rail-rules"][2]']
    assert host.files.writes == []


class Other(RailRules):
    """Another task, with a section of its own."""

    name = extension = "other-rails"

    @property
    def part(self) -> Part:
        """See the class."""
        return Part.of(self.host.layout, self.name, "exit 0\n", rank=46)


def test_all_faults_at_once() -> None:
    """The faults of all sections are in one error, for a run and for a plan."""
    bad = HostRoutingConfig(extensions={"rail-rules": [{}], "other-rails": [RAIL, {}]})
    configure = Configure(bad, host=rail_host(), tasks=(*BOTH, Other))
    paths = ['extensions["rail-rules"][0]', 'extensions["other-rails"][1]']
    with pytest.raises(phases.TaskFailed) as caught:
        run(configure)
    with pytest.raises(ConfigError) as planned:
        configure.preview()
    for error in (caught.value.error, planned.value):
        assert isinstance(error, ConfigError)
        assert [fault.path for fault in error.faults] == paths


def test_nobody_reads_the_section() -> None:
    """A section that none of the tasks reads is a fault: else a wrong name would leave the rails without rules."""
    with pytest.raises(ConfigError, match=r'extensions\["rail-rules"\]: no task of this name'):
        Configure(CONFIG, host=rail_host())


def test_tasks_are_classes() -> None:
    """An instance, or something else, is refused with the remedy."""
    for wrong in (RailRules(CONFIG, host=rail_host()), phases.serial):
        with pytest.raises(TypeError, match="name the class"):
            Configure(CONFIG, host=rail_host(), tasks=(*TASKS, wrong))  # type: ignore[arg-type]  # that is the mistake


# In other processes, which find it by its entry point.


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make Python find a package that names a task."""

    def install(value: str) -> None:
        folder = tmp_path / "site" / "rail_rules-1.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: rail-rules\nVersion: 1\n")
        (folder / "entry_points.txt").write_text(f"[hostrouting.tasks]\nrail-rules = {value}\n")
        monkeypatch.syspath_prepend(tmp_path / "site")

    return install


@pytest.fixture
def config(tmp_path: Path) -> str:
    """The path of the configuration."""
    path = tmp_path / "config.json"
    path.write_text(CONFIG.to_json())
    return str(path)


def test_the_command(installed: Callable[[str], None], config: str, tmp_path: Path) -> None:
    """Plan, apply, status, render and remove know it, without a word of it in them."""
    installed("examples.rail_rules:RailRules")
    host = rail_host()
    for verb in (("plan", "--config", config), ("apply", "--config", config), ("status",)):
        assert SCRIPT in say(*verb, host=host).out, verb
    assert "IN FORCE: rail-rules" in say("status", host=host).out
    host.kernel.reopen().delete_rule(host.kernel.snapshot().rules[1])
    assert "NOT IN FORCE: rail-rules" in say("status", host=host).out
    assert SCRIPT in say("remove", host=host).out
    assert (things(host.kernel.reopen()), SCRIPT in host.files.texts) == ((), False)
    (tmp_path / "image").mkdir()
    assert SCRIPT in say("render", "--config", config, "--root", str(tmp_path / "image")).out


class Setting(RailRules):
    """Has a verb of its own."""

    def change(self, *, up: bool) -> Change:
        """See the class."""
        is_set = self.host.files.is_there("/run/set") is up
        return Change(operations=() if is_set else (Operation("set", f"it to {up}", "it is not"),))

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:  # noqa: ARG002  as in the class above
        """See the class."""
        act = self.host.files.write if up else lambda path, _: self.host.files.remove(path)
        return Effects.of_each(change.operations, lambda _: act("/run/set", "yes"))


def test_any_verb(installed: Callable[[str], None], config: str) -> None:
    """An operation may have another verb than those of hostrouting's tasks."""
    installed(f"{__name__}:Setting")
    host = rail_host()
    assert "set it to True" in say("plan", "--config", config, host=host).out
    assert re.search("DONE: .*set it to True", say("apply", "--config", config, host=host).out)


def test_the_installed_guard(installed: Callable[[str], None]) -> None:
    """The guard's service reads the kept section, and repairs."""
    installed("examples.rail_rules:RailRules")
    host = rail_host()
    run(Configure(CONFIG, host=host, tasks=BOTH))
    fresh = attrs.evolve(rail_host(), files=host.files)
    ctx = phases.Context(observers=[], deadline=3)
    guard = Guard(kept_config(fresh), host=fresh, tasks=installed_tasks())
    with pytest.raises(phases.Cancelled):
        phases.execute(guard, ctx)
    assert things(fresh.kernel.reopen()) == THINGS


def test_its_package_is_gone(config: str) -> None:
    """Where the task is not installed, its step is named and kept, and its section is a fault."""
    host = rail_host()
    run(Configure(CONFIG, host=host, tasks=BOTH))
    told = "the gate's step rail-rules belongs to a task that is not installed here"
    assert told in say("status", host=host).out
    removed = say("remove", host=host)
    assert (removed.code, told in removed.out) == (1, True)  # not everything could be removed
    left = outcome_of({"remove": Ran(1, say("remove", "--json", host=host).out)})
    assert (left.failed, left.message) == (True, "NOTHING TO DO: hostrouting has nothing else installed on this host")
    assert SCRIPT in host.files.texts
    assert "45 requires rail-rules" in host.files.texts["/etc/hostrouting/host-routing-gate.conf"]
    guard = Guard(kept_config(host), host=host)
    with pytest.raises(phases.Cancelled):
        phases.execute(guard, phases.Context(observers=[], deadline=2))
    assert told in host.files.texts[host.layout.guard_path]
    said = say("plan", "--config", config, host=host)
    assert (said.code, "no task of this name is installed here" in said.err) == (2, True)
    run(Remove(CONFIG, host=host, tasks=BOTH))
    assert not [path for path in host.files.texts if path.startswith("/etc")]


class Namesake(RailRules):
    """Has the name of another task."""

    name = "configure-static-routes"


def test_a_name_is_that_of_one_task(installed: Callable[[str], None]) -> None:
    """Configure refuses a second task with the name; the command works without it, and the log says which it is."""
    told = "hostrouting.tasks.static_routes.ConfigureStaticRoutes and .*Namesake have one name, configure-static-routes"
    with pytest.raises(TypeError, match=told):
        Configure(CONFIG, host=rail_host(), tasks=(*TASKS, Namesake))
    installed(f"{__name__}:Namesake")
    said = say("remove", host=rail_host())
    assert (said.code, "have one name, configure-static-routes" in said.err) == (0, True)


class Mistaken(RailRules):
    """Its hooks have the mistakes of a beginner, as soon as its configuration says which."""

    @property
    def is_wanted(self) -> bool:
        """See the class."""
        return self.settings != "is_wanted" or not None + 1  # type: ignore[operator]  # that is the mistake

    @property
    def rails(self) -> tuple[Any, ...]:
        """See the class."""
        return ()

    def change(self, *, up: bool) -> Change:
        """See the class."""
        if self.settings == "change":
            return None  # type: ignore[return-value]  # that is the mistake
        return super().change(up=up) + Change(operations=(Operation("add", "nothing", "no reason"),))

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:
        """See the class."""
        super().carry_out(ctx, attrs.evolve(change, operations=()), up=up)
        return None if self.settings == "result" else self.settings["dev"]  # type: ignore[return-value]  # as above


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("is_wanted", r"Mistaken.is_wanted raised TypeError: unsupported .*test_rail_rules.py, line \d+"),
        ("change", "Mistaken.change returned None, and not an object of Change"),
        ("result", "Mistaken.carry_out returned None, and not an object of Effects"),
        ("carry_out", "Mistaken.carry_out raised TypeError: string indices"),
    ],
)
def test_whose_mistake_it_is(settings: str, told: str, installed: Callable[[str], None], tmp_path: Path) -> None:
    """What a hook raises by mistake names the task, the hook and the line; it is not called a bug of hostrouting."""
    host, wrong = rail_host(), HostRoutingConfig(extensions={"rail-rules": settings})
    with pytest.raises(phases.TaskFailed) as caught:
        run(Configure(wrong, host=host, tasks=(*TASKS, Mistaken)))
    assert isinstance(caught.value.error, TaskError)
    assert re.search(f"{told}.*this is a mistake in that task: report it to its authors", str(caught.value.error))
    installed(f"{__name__}:Mistaken")
    (tmp_path / "wrong.json").write_text(wrong.to_json())
    said = say("apply", "--config", str(tmp_path / "wrong.json"), host=rail_host())
    assert (said.code, "bug in hostrouting" in said.err, bool(re.search(told, said.out + said.err))) == (1, False, True)


class PartBroken(RailRules):
    """Cannot say what it has installed."""

    @property
    def part(self) -> Part:
        """See the class."""
        raise KeyError("part")


class ChangeBroken(RailRules):
    """Cannot say what is to be done."""

    def change(self, *, up: bool) -> Change:
        """See the class."""
        raise KeyError(up)


@pytest.mark.parametrize("broken", [PartBroken, ChangeBroken])
def test_the_others_are_removed(broken: type, installed: Callable[[str], None]) -> None:
    """A mistake of one task does not keep what the others have installed; the exit code and the message are its."""
    installed(f"{__name__}:{broken.__name__}")
    host = rail_host()
    run(Configure(HostRoutingConfig(kernel_rules="keep"), host=host))
    assert "/etc/hostrouting/kernel-rules.sh" in host.files.texts
    said = say("remove", host=host)
    assert (said.code, f"{broken.__name__}." in said.out + said.err) == (1, True)
    assert not [path for path in host.files.texts if path.startswith("/etc")]


def test_the_guard_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of one task is a failure of that task: the guard keeps the others right, and says so."""
    host = rail_host()
    run(Configure(CONFIG, host=host, tasks=BOTH))
    fresh = attrs.evolve(rail_host(), files=host.files)
    monkeypatch.setattr(RailRules, "keep", lambda *_: RAIL["of nobody"])
    config = HostRoutingConfig(extensions=CONFIG.extensions, kernel_rules="keep")
    guard = Guard(config, host=fresh, tasks=BOTH)
    with pytest.raises(phases.Cancelled):
        phases.execute(guard, phases.Context(observers=[], deadline=3))
    assert "RailRules.keep raised KeyError" in fresh.files.texts[fresh.layout.guard_path]


def test_a_package_that_cannot_be_loaded(installed: Callable[[str], None]) -> None:
    """Commands work without a package that cannot be loaded, and the log names it."""
    installed("nobody.has.this:Task")
    said = say("remove", host=rail_host())
    assert (said.code, "the task rail-rules (nobody.has.this:Task) cannot be used" in said.err) == (0, True)


def test_a_faulty_section_on_the_command_line(installed: Callable[[str], None], tmp_path: Path) -> None:
    """A fault is reported as the other faults of a configuration, with its path in an agent's larger file."""
    installed("examples.rail_rules:RailRules")
    bad = {"extensions": {"rail-rules": [{"dev": "eth1"}, {}]}}
    (tmp_path / "bad.json").write_text(json.dumps({"hostRouting": bad}))
    for verb in ("plan", "apply"):
        said = say(verb, "--config", str(tmp_path / "bad.json"), host=rail_host())
        rows = [row.strip().partition(":")[0] for row in (said.out + said.err).splitlines()]
        assert (said.code, [row for row in rows if row.startswith("hostRouting")]) == (
            2,
            ['hostRouting.extensions["rail-rules"][0]', 'hostRouting.extensions["rail-rules"][1]'],
        )


# On Linux.


@pytest.mark.linux
@pytest.mark.needs("root")
def test_on_linux(tmp_path: Path) -> None:
    """The kernel takes and gives back what the task asks for, and the boot script does the same."""
    with private_namespace() as node:
        node.batch(["link add eth1 type veth peer eth2", "address add 10.1.0.4/24 dev eth1"])
        node.batch(["link set eth1 up", "link set eth2 up"])
        with node.inside():
            fake = rail_host()
            host: Host = attrs.evolve(fake, backend=NetlinkBackend, files=FakeFiles(), manager=None)
            configure = Configure(CONFIG, host=host, tasks=(RailRules,))
            run(configure)
            with NetlinkBackend() as kernel:
                assert things(kernel) == THINGS
            assert configure.preview().is_empty
            script = tmp_path / "rail-rules.sh"
            script.write_text(host.files.read(SCRIPT) or "")
            phases.undo(configure, phases.Context(observers=[]))
            with NetlinkBackend() as kernel:
                assert things(kernel) == ()
            for _ in range(2):
                done = node.run("bash", str(script))
                assert done.returncode == 0, done.stderr
            with NetlinkBackend() as kernel:
                assert things(kernel) == THINGS

"""FakeHost: a host in memory, for tests of tasks: a fake kernel, files in a dictionary, a manager
that records calls.

The fake manager shows the properties of a unit as systemd would: only the few that hostrouting
reads, from the unit files and drop-ins in /etc/systemd/system.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import attrs

from hostrouting.errors import HostError
from hostrouting.host.files import (
    Entry,
    require_kind,
    require_mode,
    require_path,
    require_target,
    require_text,
)
from hostrouting.host.host import Host, require_connects
from hostrouting.host.systemd import require_names, unit_failed
from hostrouting.kernel.programs import BOOT_PROGRAMS, Ended, Rights, tool_error
from hostrouting.testing.faults import FaultyBackend
from hostrouting.testing.filters import FakeNftables
from hostrouting.testing.kernel import FakeKernel
from hostrouting.testing.topologies import plain_vm
from phases.arguments import must_be, must_be_number

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.kernel.base import RouteBackend
    from hostrouting.model.prefix import IP

_NO_SYSTEMD = (
    "System has not been booted with systemd as init system (PID 1). Can't operate. | "
    "Failed to connect to bus: Host is down"
)
"""What systemctl prints where systemd does not run, on one line."""


@attrs.define
class FakeFiles:
    """Files and links in dictionaries, which tests can read and set.

    A folder exists while something is in it. A link is followed once, by `read`, and no folder is a
    link.
    """

    texts: dict[str, str] = attrs.field(factory=dict)
    modes: dict[str, int] = attrs.field(factory=dict)
    """The modes of files; 0644 if none is given."""
    links: dict[str, str] = attrs.field(factory=dict)
    writes: list[str] = attrs.field(factory=list)
    """Every path that was written, linked, removed or locked, in order."""
    broken: dict[str, str] = attrs.field(factory=dict)
    """Paths that cannot be changed, with the reason for each."""
    locked: set[str] = attrs.field(factory=set)
    """Paths that another process has locked."""

    def read(self, path: str) -> str | None:
        require_path(path)
        target = self.links.get(path, path)
        place = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if place == "/dev/null":
            return ""
        require_kind("read", place, self.look(place), "file")
        return self.texts.get(place)

    def look(self, path: str) -> Entry | None:
        require_path(path)
        if path in self.links:
            return Entry("link", 0, self.links[path])
        if path in self.texts:
            return Entry("file", self.modes.get(path, 0o644))
        if self.names(path):
            return Entry("directory", 0o755)
        return None

    def names(self, folder: str) -> tuple[str, ...]:
        require_path(folder)
        below = f"{folder.rstrip('/')}/"
        names: set[str] = set()
        for path in (*self.texts, *self.links):
            if path.startswith(below):
                name, _, _ = path.removeprefix(below).partition("/")
                names.add(name)
        return tuple(sorted(names))

    def write(self, path: str, text: str, *, mode: int = 0o644) -> None:
        require_text(text)
        require_mode(mode)
        self._change("write", path, "file")
        self.texts[path] = text
        self.modes[path] = mode

    def link(self, path: str, target: str) -> None:
        require_target(target)
        self._change("link", path, "file", "link")
        self.texts.pop(path, None)
        self.links[path] = target

    def remove(self, path: str) -> bool:
        if not self.look(path):
            return False
        self._change("remove", path, "file", "link")
        self.texts.pop(path, None)
        self.links.pop(path, None)
        return True

    def remove_empty(self, folder: str) -> None:
        """See Files: a folder is gone as soon as nothing is in it."""
        require_path(folder)

    def why_unwritable(self, folder: str) -> str:
        """See Files. A folder that is `broken`, or is in one, refuses files."""
        require_path(folder)
        for path, reason in self.broken.items():
            if f"{folder}/".startswith(f"{path}/"):
                return reason
        return ""

    def try_lock(self, path: str) -> Callable[[], None] | None:
        if path in self.locked:
            return None
        self._change("lock", path, "file", "directory")
        self.locked.add(path)
        return partial(self.locked.discard, path)

    def _change(self, verb: str, path: str, *kinds: str) -> None:
        if path in self.broken:
            raise HostError(f"cannot {verb} {path}: {self.broken[path]}", what="file", target=path)
        require_kind(verb, path, self.look(path), *kinds)
        self.writes.append(path)


_STATES = ("ActiveState", "SubState")
"""The properties that a start changes."""


@attrs.define
class FakeManager:
    """A service manager that records what it starts and stops in `calls`. The units in `failing`
    fail to start, and so do those that are masked.
    """

    running: bool = True
    """If it is false, there is no systemd: what is asked of it raises HostError."""
    calls: list[str] = attrs.field(factory=list)
    failing: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Units that fail to start, each with the lines that it logs."""
    states: dict[str, str] = attrs.field(factory=dict)
    """The states of units; "inactive" if none is given."""
    properties: dict[str, dict[str, str]] = attrs.field(factory=dict)
    """By unit: properties that `show` reports instead of those from the unit's files."""
    files: FakeFiles | None = None
    """The files of the host. The manager reads units from them at boot and at each reload."""
    version: str = "257"
    errors: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    """By unit: what it has logged as errors since it began."""
    read: dict[str, str] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.boot()

    def boot(self) -> None:
        """Read the units from the files; this is not recorded in `calls`."""
        self.read = self._units()

    def is_running(self) -> bool:
        return self.running

    def reload(self) -> None:
        self._require_running()
        self.calls.append("reload")
        self.read = self._units()

    def start(self, unit: str, *, timeout: float) -> None:
        must_be_number(timeout, "timeout")  # nothing takes time here
        self._require_running()
        if self._properties_of(unit)["ActiveState"] == "active":
            return
        self.calls.append(f"start {unit}")
        if self._properties_of(unit)["LoadState"] == "masked":
            reason = f"Failed to start {unit}: Unit {unit} is masked."
            raise unit_failed(unit, result="success", status="0", lines=[reason])
        if unit in self.failing:
            lines = self.failing[unit]
            must_be(
                (list, tuple), lines, f"failing[{unit!r}]", "the lines that it logs, in a tuple"
            )
            self._set_state(unit, "failed")
            raise unit_failed(unit, result="exit-code", status="1", lines=lines)
        self._set_state(unit, "active")

    def stop(self, unit: str) -> None:
        self._require_running()
        self.calls.append(f"stop {unit}")
        if unit in self.states:
            self.states[unit] = "inactive"

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """See Manager. Values come from `properties` first, then from the unit files as last read.

        A pattern matches the units in `properties`; a template is not a unit. NeedDaemonReload is
        "yes" if a file of the unit has changed since.
        """
        require_names(names)
        self._require_running()
        if not units:
            return (dict.fromkeys(names, "") | {"Version": self.version},)
        shown: list[dict[str, str]] = []
        for unit in self._matching(units):
            known = self._properties_of(unit)
            shown.append({name: known.get(name, "") for name in names})
        return tuple(shown)

    def errors_of(self, unit: str, since: str) -> tuple[str, ...]:
        if not since:
            return ()
        return self.errors.get(unit, ())

    def _set_state(self, unit: str, state: str) -> None:
        """The state that `properties` gave to the unit has ended."""
        self.states[unit] = state
        if unit in self.properties:
            given = self.properties[unit].items()
            self.properties[unit] = {name: value for name, value in given if name not in _STATES}

    def _require_running(self) -> None:
        """Raise the error of systemctl if systemd does not run."""
        if not self.running:
            ended = Ended(1, err=_NO_SYSTEMD)
            raise tool_error(ended, "systemctl", purpose="", what="systemd")

    def _matching(self, units: Sequence[str]) -> list[str]:
        """The units, with those that match each pattern in its place."""
        matching: list[str] = []
        for unit in units:
            if "@." in unit:
                reason = f"Unit name {unit} is neither a valid invocation ID nor unit name."
                sentence = f"systemctl could not show {unit}: {reason}"
                raise HostError(sentence, what="systemd", kind="refused")
            if "*" in unit:
                matching += fnmatch.filter(self.properties, unit)
            else:
                matching.append(unit)
        return matching

    def _properties_of(self, unit: str) -> dict[str, str]:
        units = self._units()
        is_loaded = "@" not in unit or unit in self.states or unit in self.properties
        read = self.read if is_loaded else units  # systemd reads an instance when it is asked for
        is_read = _texts_of(unit, units) == _texts_of(unit, read)
        return {
            "Id": unit,
            "ActiveState": self.states.get(unit, "inactive"),
            **_properties_in(unit, read),
            "NeedDaemonReload": "no" if is_read else "yes",
            **self.properties.get(unit, {}),
        }

    def _units(self) -> dict[str, str]:
        if self.files is None:
            return {}
        there = {**self.files.texts, **self.files.links}
        return {path: text for path, text in there.items() if path.startswith(_FOLDER)}


def nobody() -> None:
    """Nobody is logged in: see FakeHost.client."""


@attrs.frozen(kw_only=True)
class FakeHost(Host):
    """A host in memory. Tests set its parts before a run, and read them after it.

    For example::

        host = FakeHost(kernel=h200())
        phases.execute(CheckRouteOverlap(config, host=host))
        print(host.kernel)  # as `ip rule` and `ip route` print it
    """

    kernel: FakeKernel = attrs.field(factory=plain_vm)

    faults: FaultyBackend = attrs.field(
        default=attrs.Factory(lambda self: FaultyBackend(self.kernel), takes_self=True), repr=False
    )
    """The kernel as tasks see it, with the faults that a test sets: `host.faults.fail("change",
    errno.ENOBUFS)`.
    """
    backend: Callable[[], AbstractContextManager[RouteBackend]] | None = attrs.field(
        default=attrs.Factory(lambda self: lambda: nullcontext(self.faults), takes_self=True)
    )
    """To test a backend of yours, with faults below it: `faults=faults, backend=lambda:
    nullcontext(Mine(faults))`.
    """
    files: FakeFiles = attrs.field(factory=FakeFiles, repr=False)
    manager: FakeManager | None = attrs.field(factory=FakeManager, repr=False)
    nftables: FakeNftables = attrs.field(factory=FakeNftables)
    missing: Collection[str] = ()
    rights: Callable[[], Rights] = Rights
    """Returns what the process may do. By default it is root and may do everything."""
    client: Callable[[], IP | None] = nobody
    """Returns the address of whoever is logged in and runs the process. By default nobody is."""

    @classmethod
    def image(cls) -> Self:
        """An image in memory: files, and no kernel or service manager."""
        return cls(backend=None, manager=None)

    def has_program(self, name: str) -> bool:
        return name not in self.missing

    def __attrs_post_init__(self) -> None:
        must_be(FakeFiles, self.files, "files", "FakeFiles(texts={…})")
        must_be(
            FakeKernel,
            self.kernel,
            "kernel",
            "a FakeKernel: call h200(), or make the fixture h200 a parameter of the test",
        )
        if not set(self.missing).issubset(BOOT_PROGRAMS):
            raise ValueError(
                f"missing is {self.missing!r:.80}; it must be a collection of programs that "
                f"hostrouting needs: {', '.join(sorted(BOOT_PROGRAMS))}"
            )
        require_connects(self.backend)
        if self.manager is not None and self.manager.files is None:
            self.manager.files = self.files
            self.manager.boot()


# The properties of a unit, for the fake manager.

_FOLDER = "/etc/systemd/system/"
_LISTS = ("ExecCondition", "SuccessExitStatus")


def _properties_in(unit: str, read: Mapping[str, str]) -> dict[str, str]:
    """The properties of a unit that its files say."""
    texts = _texts_of(unit, read)
    fragments = [path for path in texts if not path.endswith(".conf")]
    drop_ins = [path for path in texts if path.endswith(".conf")]
    state = "not-found"
    if fragments and texts[fragments[0]] in {"", "/dev/null"}:
        state = "masked"
    elif fragments or "@" in unit:
        state = "loaded"
    is_enabled = f"{_FOLDER}multi-user.target.wants/{unit}" in read
    return {
        "LoadState": state,
        "UnitFileState": "enabled" if is_enabled else "",
        "DropInPaths": " ".join(drop_ins),
        **_settings_in(unit, texts.values()),
    }


def _settings_in(unit: str, texts: Iterable[str]) -> dict[str, str]:
    """The settings of these files: an empty value resets a list, as in systemd."""
    values: dict[str, list[str]] = {name: [] for name in _LISTS}
    for line in "\n".join(texts).splitlines():
        name, equals, value = line.partition("=")
        if not equals or name not in values:
            continue
        if not value:
            values[name].clear()
        if value:
            values[name].append(value.replace("%n", unit))
    return {name: " ".join(parts) for name, parts in values.items()}


def _texts_of(unit: str, read: Mapping[str, str]) -> dict[str, str]:
    """The files that define a unit, by path: its own or its template's, and drop-ins, where its own
    take precedence.
    """
    names = [unit]
    before, at, rest = unit.partition("@")
    if at:
        names.insert(0, f"{before}@.{rest.rpartition('.')[2]}")
    paths: dict[str, str] = {}
    """By the name of the drop-in; the unit file has none, and comes first."""
    for name in names:
        folder = f"{_FOLDER}{name}.d/"
        for path in read:
            if path == f"{_FOLDER}{name}":
                paths[""] = path
            elif path.startswith(folder) and path.endswith(".conf"):
                paths[path.removeprefix(folder)] = path
    return {path: read[path] for _, path in sorted(paths.items())}

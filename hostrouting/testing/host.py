"""FakeHost: a host in memory, for tests of tasks: a fake kernel, files in a dictionary, a manager that records calls.

Here: the fakes of the edges in `hostrouting.host`. The fake manager shows the properties of a unit as systemd would:
only the few that hostrouting reads, from the unit files and drop-ins in /etc/systemd/system.
"""

from __future__ import annotations

import errno
import fnmatch
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from hostrouting.errors import BackendError, HostError
from hostrouting.host.files import PROTECTED
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.host.systemd import UnitState, require_room, unit_failed
from hostrouting.kernel.programs import Rights
from hostrouting.testing.faults import FaultyBackend
from hostrouting.testing.filters import FakeEbtables, FakeLinkLayer, FakeNftables
from hostrouting.testing.topologies import plain_vm

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.kernel.base import RouteBackend
    from hostrouting.kernel.ebtables import Ebtables
    from hostrouting.kernel.neighbours import LinkLayer
    from hostrouting.kernel.nftables import Nftables
    from hostrouting.testing.kernel import FakeKernel


@attrs.define
class FakeFiles:
    """Files in a dictionary. Tests can read and set `texts`, `modes` and `links`; `writes` records the changes."""

    texts: dict[str, str] = attrs.field(factory=dict)
    modes: dict[str, int] = attrs.field(factory=dict)
    links: dict[str, str] = attrs.field(factory=dict)
    writes: list[str] = attrs.field(factory=list)
    """Every path that was written, linked, removed or locked, in order."""
    broken: dict[str, str] = attrs.field(factory=dict)
    """Paths that cannot be written or removed, with the reason for each."""
    strange: dict[str, str] = attrs.field(factory=dict)
    """Paths that are not regular files, with what they are: "a fifo", "a socket", "a device", "a directory"."""
    locked: set[str] = attrs.field(factory=set)
    _locks: dict[str, _FakeLock] = attrs.field(factory=dict, init=False)

    def read(self, path: str) -> str | None:
        """See Files."""
        self._require_file("read", path)
        return self.texts.get(path)

    def holds(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        self._require_file("read", path)
        return path not in self.links and self.texts.get(path) == text and self.modes.get(path) == mode

    def is_protected(self, path: str) -> bool:
        """See Files."""
        is_file = path in self.texts and path not in self.links and path not in self.strange
        mode = self.modes.get(path, PROTECTED)
        return is_file and bool(mode & stat.S_IRUSR) and not mode & PROTECTED

    def write(self, path: str, text: str, *, mode: int = 0o644) -> bool:
        """See Files."""
        self._require_file("write", path)
        self._require_way("write", path, path.rpartition("/")[0])
        if path in self.broken:
            raise HostError(f"cannot write {path}: {self.broken[path]}", what="file", target=path)
        if path in self.links:
            raise HostError(
                f"{path} is a link to {self.links[path]}, and nothing is written through a link",
                what="file",
                target=path,
            )
        if self.holds(path, text, mode=mode):
            return False
        self.texts[path], self.modes[path] = text, mode
        self.writes.append(path)
        return True

    def leads(self, path: str, target: str) -> bool:
        """See Files."""
        self._require_file("link", path)
        return self.links.get(path) == target

    def link(self, path: str, target: str) -> bool:
        """See Files."""
        self._require_file("link", path)
        if path in self.broken:
            raise HostError(f"cannot link {path}: {self.broken[path]}", what="file", target=path)
        if self.leads(path, target):
            return False
        self.links[path] = target
        self.texts.pop(path, None)
        self.writes.append(path)
        return True

    def remove(self, path: str) -> bool:
        """See Files."""
        there = self.is_there(path)
        if self.strange.get(path) == "a directory":
            self._require_file("remove", path)
        if there and path in self.broken:
            raise HostError(f"cannot remove {path}: {self.broken[path]}", what="file", target=path)
        self.texts.pop(path, None)
        self.links.pop(path, None)
        self.strange.pop(path, None)
        if there:
            self.writes.append(path)
        return there

    def remove_empty(self, folder: str) -> bool:  # noqa: ARG002  a folder exists here only while it has files
        """See Files."""
        return False

    def is_there(self, path: str) -> bool:
        """See Files."""
        return any(name == path or name.startswith(f"{path}/") for name in (*self.texts, *self.links, *self.strange))

    def names(self, folder: str) -> tuple[str, ...]:
        """See Files."""
        below = f"{folder}/"
        paths = (path for path in (*self.texts, *self.links, *self.strange) if path.startswith(below))
        return tuple(sorted({path.removeprefix(below).partition("/")[0] for path in paths}))

    def why_unwritable(self, folder: str) -> str:
        """See Files. A folder that is `broken`, or is in one, refuses files."""
        names = folder.split("/")
        places = ("/".join(names[:count]) for count in range(2, len(names) + 1))
        return next((self.broken[place] for place in places if place in self.broken), "")

    def holder(self, path: str) -> str:
        """See Files."""
        return f"process 4711 (hostrouting) has locked {path}" if path in self.locked else f"fuser {path}"

    def try_lock(self, path: str) -> _FakeLock | None:
        """See Files."""
        self._require_file("lock", path)
        if path in self.broken:
            raise HostError(f"cannot lock {path}: {self.broken[path]}", what="file", target=path)
        if path in self.locked:
            return None
        self.writes.append(path)
        self.locked.add(path)
        self._locks[path] = lock = _FakeLock(self, path)
        return lock

    def _require_way(self, verb: str, path: str, folder: str) -> None:
        """Raise HostError if the folder's path leads through a link to a missing folder."""
        for link, target in self.links.items():
            if f"{folder}/".startswith(f"{link}/") and not self.names(target):
                remedy = "a part of the path is a link to a missing file or directory: remove that link"
                where = "" if link == path else f"{link}: "
                reason = f"{where}No such file or directory; {remedy}"
                raise HostError(f"cannot {verb} {path}: {reason}", what="file", target=path, errno=errno.ENOENT)

    def _require_file(self, verb: str, path: str) -> None:
        if path in self.strange:
            reason = f"there is {self.strange[path]} in its place; remove it"
            raise HostError(f"cannot {verb} {path}: {reason}", what="file", target=path)


@attrs.frozen(eq=False)
class _FakeLock:
    _files: FakeFiles
    _path: str

    def release(self) -> None:
        """See Lock."""
        if self._path in self._files.locked and self._files._locks[self._path] is self:
            self._files.locked.discard(self._path)


@attrs.define
class FakeManager:
    """A service manager that records what it starts and stops in `calls`. The units in `failing` fail to start."""

    running: bool = True
    calls: list[str] = attrs.field(factory=list)
    failing: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Units that fail to start, each with the lines that it logs."""
    states: dict[str, UnitState] = attrs.field(factory=dict)
    properties: dict[str, dict[str, str]] = attrs.field(factory=dict)
    """By unit: properties that `show` reports instead of those from the unit's files."""
    files: FakeFiles | None = None
    """The files of the host. The manager reads units from them at boot and at each reload."""
    version: str = "257"
    """The version of systemd that `show` reports."""
    room: int = 1 << 30
    """The free space in /run/systemd, in bytes."""
    read: dict[str, str] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        """Start as after a boot."""
        self.boot()

    def boot(self) -> None:
        """Read the units from the files; this is not recorded in `calls`."""
        self.read = self._units()

    def is_running(self) -> bool:
        """See Manager."""
        return self.running

    def require_room(self) -> None:
        """See Manager."""
        require_room(self.room)

    def reload(self) -> None:
        """See Manager."""
        self.require_room()
        self.calls.append("reload")
        self.read = self._units()

    def start(self, unit: str, *, timeout: float) -> None:  # noqa: ARG002  nothing takes time here
        """See Manager."""
        self.calls.append(f"start {unit}")
        if unit in self.failing:
            self.states[unit] = UnitState("loaded", "failed", "exit-code", 1)
            raise unit_failed(unit, result="exit-code", status=1, words=self.failing[unit])
        stays = _shown(unit, self.read).get("Type") != "oneshot"
        self.states[unit] = UnitState("loaded", "active" if stays else "inactive")

    def stop(self, unit: str) -> None:
        """See Manager."""
        self.calls.append(f"stop {unit}")
        if (known := self.states.get(unit)) is not None and known.active == "active":
            self.states[unit] = known._replace(active="inactive")

    def state(self, unit: str) -> UnitState:
        """See Manager."""
        return self.states.get(unit, UnitState("not-found", "inactive"))

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """See Manager. Values come from `properties` first, then from the unit files as last read.

        A pattern matches the units in `properties`; a template is not a unit. NeedDaemonReload is "yes" if a file
        of the unit has changed since.
        """
        if not units:
            return ({name: self.version if name == "Version" else "" for name in names},)
        for template in (unit for unit in units if "@." in unit):
            reason = f"Unit name {template} is neither a valid invocation ID nor unit name."
            raise HostError(f"systemctl show: Failed to get properties: {reason}", what="systemd", kind="no-answer")
        units_shown, there = [], self._units()
        read_all = there == self.read
        for unit in units:
            for matching in fnmatch.filter(self.properties, unit) if "*" in unit else (unit,):
                unread = not read_all and _texts_of(matching, there) != _texts_of(matching, self.read)
                known = {
                    "Id": matching,
                    "NeedDaemonReload": "yes" if unread else "no",
                    **_shown(matching, self.read),
                    **self.properties.get(matching, {}),
                }
                units_shown.append({name: known.get(name, "") for name in names})
        return tuple(units_shown)

    def _units(self) -> dict[str, str]:
        if self.files is None:
            return {}
        there = {**self.files.texts, **self.files.links}
        return {path: text for path, text in there.items() if path.startswith(_FOLDER)}


@attrs.define
class _Connection:
    """A backend for one task. The task closes it, and the kernel behind it stays open for the test."""

    backend: FaultyBackend
    is_closed: bool = False

    def __getattr__(self, name: str) -> Any:
        if self.is_closed:
            raise BackendError("the backend was closed", kind="unusable")
        return getattr(self.backend, name)

    def close(self) -> None:
        """See RouteBackend."""
        self.is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_installed(name: str) -> str:
    return f"/usr/bin/{name}"


@attrs.frozen(kw_only=True)
class FakeHost(Host):
    """A host in memory. Tests set its parts before a run, and read them after it.

    host = FakeHost(kernel=h200())
    phases.execute(CheckRouteOverlap(config, host=host))
    print(host.kernel)  # as `ip rule` and `ip route` print it
    """

    kernel: FakeKernel = attrs.field(factory=plain_vm)
    faults: FaultyBackend = attrs.field(
        default=attrs.Factory(lambda self: FaultyBackend(self.kernel), takes_self=True), repr=False
    )
    """The kernel as tasks see it, with the faults that a test sets: `host.faults.fail("change", errno.ENOBUFS)`."""
    backend: Callable[[], RouteBackend] | None = attrs.field(
        default=attrs.Factory(lambda self: lambda: cast("RouteBackend", _Connection(self.faults)), takes_self=True)
    )
    files: FakeFiles = attrs.field(factory=FakeFiles)
    manager: FakeManager | None = attrs.field(factory=FakeManager)
    tables: FakeNftables = attrs.field(factory=FakeNftables)
    nftables: Callable[[], Nftables] | None = attrs.field(
        default=attrs.Factory(lambda self: lambda: self.tables, takes_self=True)
    )
    bridge_rules: FakeEbtables = attrs.field(factory=FakeEbtables)
    ebtables: Callable[[], Ebtables] | None = attrs.field(
        default=attrs.Factory(lambda self: lambda: self.bridge_rules, takes_self=True)
    )
    neighbours: FakeLinkLayer = attrs.field(factory=FakeLinkLayer)
    link_layer: Callable[[], LinkLayer] | None = attrs.field(
        default=attrs.Factory(lambda self: lambda: self.neighbours, takes_self=True)
    )
    find_program: Callable[[str], str | None] = attrs.field(default=_is_installed)
    """Returns the path of a program. By default every program is installed."""
    rights: Callable[[], Rights] = attrs.field(default=Rights)
    """Returns what the process may do. By default it is root and may do everything."""

    @classmethod
    def local(cls) -> Self:
        """A plain VM in memory."""
        return cls()

    @classmethod
    def offline(cls, root: str) -> Self:
        """An image in memory; its paths begin with `root`."""
        return cls.image(root)

    @classmethod
    def image(cls, root: str = "/") -> Self:
        """An image in memory: files, and no kernel, service manager or packet filter."""
        return cls(
            backend=None, manager=None, nftables=None, ebtables=None, link_layer=None, layout=HostLayout(root=root)
        )

    def __attrs_post_init__(self) -> None:
        """Let the manager read the units from the files."""
        if self.manager is not None and self.manager.files is None:
            self.manager.files = self.files
            self.manager.boot()


# The properties of a unit, for the fake manager.

_FOLDER = "/etc/systemd/system/"
_LISTS = ("ExecCondition", "SuccessExitStatus")
_SINGLE = {"Type": "simple", "RootDirectory": "", "RootImage": ""}
"""Properties with a single value, and their defaults."""


def _shown(unit: str, read: Mapping[str, str]) -> dict[str, str]:
    """The properties of a unit that its files say: an empty value resets a list, as in systemd."""
    paths = [*_texts_of(unit, read)]
    fragment = next((path for path in paths if not path.endswith(".conf")), "")
    values: dict[str, list[str]] = {}
    for line in "\n".join(read[path] for path in paths).splitlines():
        name, equals, value = line.partition("=")
        if equals and name in _LISTS:
            values[name] = [*values.get(name, []), value.replace("%n", unit)] if value else []
        elif equals and name in _SINGLE:
            values[name] = [value]
    is_masked = fragment != "" and read[fragment] in {"", "/dev/null"}
    load = "masked" if is_masked else "loaded" if fragment or "@" in unit else "not-found"
    drop_ins = " ".join(path for path in paths if path != fragment)
    shown = {name: " ".join(values.get(name, [_SINGLE.get(name, "")])) for name in (*_LISTS, *_SINGLE)}
    return {"LoadState": load, "FragmentPath": fragment, "DropInPaths": drop_ins, **shown}


def _texts_of(unit: str, read: Mapping[str, str]) -> dict[str, str]:
    """The files that define a unit, by path: its own or its template's, and drop-ins, of which its own come first."""
    before, at, rest = unit.partition("@")
    names = dict.fromkeys((unit, f"{before}@.{rest.rpartition('.')[2]}" if at else unit))
    fragments = [path for name in names if (path := f"{_FOLDER}{name}") in read][:1]
    drop_ins: dict[str, str] = {}
    for folder in [f"{_FOLDER}{name}.d/" for name in names]:
        for path in read:
            if path.startswith(folder) and path.endswith(".conf"):
                drop_ins.setdefault(path.removeprefix(folder), path)
    return {path: read[path] for path in (*fragments, *(path for _, path in sorted(drop_ins.items())))}

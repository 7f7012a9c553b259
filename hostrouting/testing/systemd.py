"""FakeManager: a service manager that records calls.

It shows properties of a unit as systemd would, but only those that hostrouting reads. They come
from the unit files and drop-ins in /etc/systemd/system.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import attrs

from hostrouting.gate.unit_names import template_of
from hostrouting.host.systemd import unit_failed, unit_name
from hostrouting.kernel.programs import Ended, tool_error

if TYPE_CHECKING:
    from hostrouting.testing.files import FakeFiles

Gate: TypeAlias = Callable[[str], tuple[str, ...]]
"""Given a unit: what the gate logs if it refuses the unit; empty if it lets the unit pass."""

_FOLDER = "/etc/systemd/system/"
_SHOWN = {
    "ExecCondition": "{{ argv[]={} ; ignore_errors=no }}",
    "SuccessExitStatus": "{}",
    "RootDirectory": "{}",
}
"""By setting that is a list: how systemctl shows each of its values."""
_NO_SYSTEMD = (
    "System has not been booted with systemd as init system (PID 1). Can't operate. | "
    "Failed to connect to bus: Host is down"
)
"""What systemctl prints where systemd does not run, on one line."""


@attrs.define
class FakeManager:
    """A service manager that records what it starts and stops in `calls`. The units in `failing`
    fail to start, and so do those that are masked and, on a FakeHost, those that its gate refuses.
    A unit without a file starts, because systemd would read kubelet.service and others from folders
    that a test need not fill. Keys that a test sets are whole names of units: `kubelet.service`.
    """

    running: bool = True
    """Whether systemd runs. If not, every method but `is_running` raises HostError."""
    calls: list[str] = attrs.field(factory=list)
    failing: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    """Units that fail to start, each with the lines that it logs."""
    states: dict[str, str] = attrs.field(factory=dict)
    """The states of units; "inactive" if none is given."""
    properties: dict[str, dict[str, str]] = attrs.field(factory=dict)
    """By unit: properties that `show` reports instead of those from the unit's files."""
    files: FakeFiles | None = None
    """The files of the host. The manager reads units from them at boot and at each reload."""
    errors: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    """By unit: the lines that it has logged as errors since it began."""
    gate: Gate | None = attrs.field(default=None, repr=False, eq=False)
    """Asked before each start. The FakeHost of the manager sets it: a unit that the installed
    configuration refuses does not start.
    """
    read: dict[str, str] = attrs.field(init=False, factory=dict)
    """The files by path, as they were at boot or at the last reload."""

    def __attrs_post_init__(self) -> None:
        self.boot()

    def boot(self) -> None:
        """Read the units from the files; this is not recorded in `calls`."""
        self.read = self._files_on_disk()

    def is_running(self) -> bool:
        return self.running

    def reload(self) -> None:
        self._require_running()
        self.calls.append("reload")
        self.boot()  # reads the files again

    def start(self, unit: str, *, timeout: float) -> None:  # noqa: ARG002  no time passes
        self._require_running()
        unit = unit_name(unit)
        properties = self._properties_of(unit)
        if properties["ActiveState"] == "active":
            return
        self.calls.append(f"start {unit}")
        if properties["LoadState"] == "masked":
            # systemd refuses before it runs anything, so the unit's Result stays "success".
            reason = f"Failed to start {unit}: Unit {unit} is masked."
            raise unit_failed(unit, result="success", status="0", lines=(reason,))
        if self.gate is not None:
            refusal = self.gate(unit)
            if refusal:
                self._set_state(unit, "failed")
                # The main process was not started, so it has no exit status.
                raise unit_failed(unit, result="exit-code", status="0", lines=refusal)
        if unit in self.failing:
            self._set_state(unit, "failed")
            raise unit_failed(unit, result="exit-code", status="1", lines=self.failing[unit])
        self._set_state(unit, "active")

    def stop(self, unit: str) -> None:
        self._require_running()
        unit = unit_name(unit)
        self.calls.append(f"stop {unit}")
        # As in systemd, a unit that has failed stays failed.
        if self._properties_of(unit)["ActiveState"] not in {"inactive", "failed"}:
            self._set_state(unit, "inactive")

    def show(self, names: Sequence[str], *units: str) -> tuple[Mapping[str, str], ...]:
        """See Manager. Values come from `properties` first, then from the unit files as last read.

        A pattern such as `a@*.service` matches loaded units: those in `properties`, and those that
        are not inactive. NeedDaemonReload is "yes" if a file of the unit has changed since systemd
        read the files.
        """
        self._require_running()
        shown: list[dict[str, str]] = []
        for unit in self._matching(units):
            known = self._properties_of(unit)
            shown.append({name: known.get(name, "") for name in names})
        return tuple(shown)

    def errors_of(self, unit: str, since: str) -> tuple[str, ...]:
        # `since` is empty if the unit has not started.
        return self.errors.get(unit_name(unit), ()) if since else ()

    def _set_state(self, unit: str, state: str) -> None:
        """Set the state of the unit. A state that a test has set in `properties` is removed there,
        because it would be shown in place of the new one.
        """
        self.states[unit] = state
        for name in ("ActiveState", "SubState"):  # what a start changes
            self.properties.get(unit, {}).pop(name, None)

    def _require_running(self) -> None:
        """Raise the error that systemctl gives if systemd does not run."""
        if not self.running:
            ended = Ended(1, err=_NO_SYSTEMD)
            # The message of this error does not use `purpose`.
            raise tool_error(ended, "systemctl", purpose="", what="systemd")

    def _matching(self, units: Sequence[str]) -> list[str]:
        """The units, with each pattern replaced by the loaded units that match, as in systemctl."""
        not_inactive = {name for name, state in self.states.items() if state != "inactive"}
        loaded = sorted(not_inactive.union(self.properties))
        matching: list[str] = []
        for unit in map(unit_name, units):
            if "*" in unit:
                matching += fnmatch.filter(loaded, unit)
            else:
                matching.append(unit)
        return matching

    def _properties_of(self, unit: str) -> dict[str, str]:
        """All properties that systemd would show of the unit. Values that a test has set in
        `properties` replace those from the unit's files.
        """
        on_disk = self._files_on_disk()
        as_read = self.read  # the files as systemd has read them
        if "@" in unit and unit not in self.states and unit not in self.properties:
            as_read = on_disk  # an instance that is not loaded: systemd reads its files only now
        files = _files_of(unit, as_read)
        is_current = files == _files_of(unit, on_disk)
        state = self.states.get(unit, "inactive")
        has_failed = state == "failed"
        return {
            "Id": unit,
            "ActiveState": state,
            "Result": "exit-code" if has_failed else "success",
            "ExecMainStatus": "1" if has_failed else "0",
            "LoadState": _load_state(unit, files),
            "UnitFileState": "enabled"
            if f"{_FOLDER}multi-user.target.wants/{unit}" in as_read
            else "",
            "DropInPaths": " ".join(files.drop_ins),
            **_properties_that_are_lists(unit, [files.text or "", *files.drop_ins.values()]),
            "NeedDaemonReload": "no" if is_current else "yes",
            **self.properties.get(unit, {}),
        }

    def _files_on_disk(self) -> dict[str, str]:
        """By path: the text of each file, and the target of each link. What systemd has read at its
        last reload is compared with this, to see whether a unit needs another reload.
        """
        if self.files is None:
            return {}
        return {**self.files.texts, **self.files.links}


# The properties that the files of a unit say.


class _UnitFiles(NamedTuple):
    """The files that define a unit."""

    text: str | None
    """The text of its own file or that of its template, or the target if that is a link; None if
    it has neither.
    """
    drop_ins: dict[str, str]
    """The texts by path, sorted by the names of the files."""


def _files_of(unit: str, texts_of_files: Mapping[str, str]) -> _UnitFiles:
    """The text and the drop-ins of a unit, from its own files and those of its template. If both
    have a text, or a drop-in of the same name, the unit's own is used. `texts_of_files` has the
    text of each file, and the target of each link, by path.
    """
    text: str | None = None
    # The path of each drop-in by the name of its file.
    paths: dict[str, str] = {}
    # The template comes first, so that what the unit has replaces it.
    for name in (template_of(unit), unit):
        text = texts_of_files.get(f"{_FOLDER}{name}", text)
        folder = f"{_FOLDER}{name}.d/"
        for path in texts_of_files:
            if path.startswith(folder) and path.endswith(".conf"):
                paths[path.removeprefix(folder)] = path
    return _UnitFiles(text, {path: texts_of_files[path] for _, path in sorted(paths.items())})


def _load_state(unit: str, files: _UnitFiles) -> str:
    # The property LoadState of the unit with these files.
    if files.text in {"", "/dev/null"}:
        return "masked"  # by an empty file, or by a link to /dev/null
    # An instance counts as loaded even if a test has not written its template.
    if files.text is None and "@" not in unit:
        return "not-found"
    return "loaded"


def _properties_that_are_lists(unit: str, texts: Iterable[str]) -> dict[str, str]:
    """The properties of a unit that are lists, as systemctl prints them: `_SHOWN` has their names,
    and the form of a printed value. `texts` are the unit's files, in order. As in systemd, a line
    `NAME=VALUE` adds a value to the list, and an empty value empties the list.
    """
    lists: dict[str, list[str]] = {name: [] for name in _SHOWN}
    for line in "\n".join(texts).splitlines():
        name, _, value = line.partition("=")
        if name not in lists:
            continue
        if value:
            lists[name].append(_SHOWN[name].format(value.replace("%n", unit)))
        else:
            lists[name].clear()
    return {name: " ".join(values) for name, values in lists.items()}

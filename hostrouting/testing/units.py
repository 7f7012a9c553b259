"""The properties of a unit as systemd would show them, parsed from unit files and drop-ins for the fake manager.

Here: the few properties that hostrouting reads. An empty value resets a list, as in systemd. The rest of systemd's
syntax is not implemented.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["UNIT_FOLDERS", "shown", "texts_of"]

UNIT_FOLDERS = tuple(
    f"{folder}/"
    for folder in (
        "/etc/systemd/system.control",
        "/run/systemd/system.control",
        "/run/systemd/transient",
        "/etc/systemd/system",
        "/run/systemd/system",
        "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system",
    )
)
"""The folders of systemd's units, in order of precedence: a file overrides files with its name in later folders."""

_COMMANDS = ("ExecStartPre", "ExecStart", "ExecCondition")
_LISTS = {
    *_COMMANDS,
    "SuccessExitStatus",
    "BindPaths",
    "BindReadOnlyPaths",
    "MountImages",
    "ExtensionImages",
    "ExtensionDirectories",
}
_SINGLE = {"Type": "simple", "RemainAfterExit": "no", "PrivateNetwork": "no"} | dict.fromkeys(
    ("NetworkNamespacePath", "RootDirectory", "RootImage"), ""
)
"""Properties with a single value, and their defaults."""


def shown(unit: str, read: Mapping[str, str]) -> dict[str, str]:
    """The properties of a unit, from the texts by path. The text of a link is its target."""
    fragment, in_order = _files_of(unit, read)
    is_masked = fragment != "" and _is_nothing(read[fragment])
    values: dict[str, list[str]] = {}
    for path in (fragment, *in_order):
        text = read.get(path, "")
        for line in "" if _is_nothing(text) else text.splitlines():
            name, equals, value = line.partition("=")
            if equals and name in _LISTS:
                values[name] = [*values.get(name, []), value] if value else []
            elif equals:
                values[name] = [value]
    found = {
        "LoadState": "masked" if is_masked else "loaded" if fragment or "@" in unit else "not-found",
        "FragmentPath": fragment,
        "DropInPaths": " ".join(in_order),
    }
    found |= {name: values.get(name, [default])[-1] or default for name, default in _SINGLE.items()}
    for name in _LISTS:
        given = values.get(name, [])
        found[name] = " ".join(map(_command, given) if name in _COMMANDS else given)
    return {**found, "Type": ""} if is_masked else found


def texts_of(unit: str, read: Mapping[str, str]) -> dict[str, str]:
    """The texts that define a unit, by path: its file and its drop-ins."""
    fragment, drop_ins = _files_of(unit, read)
    return {path: read[path] for path in (fragment, *drop_ins) if path}


def _files_of(unit: str, read: Mapping[str, str]) -> tuple[str, list[str]]:
    """The unit's own file, if it has one, and its drop-ins in order."""
    places, folders = _places(unit)
    fragment = next((path for path in places if path in read), "")
    drop_ins: dict[str, tuple[int, str]] = {}
    for path in read:
        folder, _, name = path.rpartition("/")
        if folder in folders and name.endswith(".conf"):
            found = folders[folder], path
            drop_ins[name] = min(found, drop_ins.get(name, found))
    return fragment, [path for _, (_, path) in sorted(drop_ins.items())]


@cache
def _places(unit: str) -> tuple[tuple[str, ...], dict[str, int]]:
    """The paths of a unit's own file, in order of precedence, and the folders of its drop-ins, with their rank."""
    own = tuple(f"{folder}{name}" for name in (unit, _template(unit)) for folder in UNIT_FOLDERS)
    folders = [f"{folder}{name}.d" for folder in UNIT_FOLDERS for name in _names(unit)]
    of_all = [f"{folder}service.d" for folder in UNIT_FOLDERS]
    return own, {folder: place for place, folder in reversed([*enumerate((*folders, *of_all))])}


def _is_nothing(text: str) -> bool:
    return text in {"", "/dev/null"}


def _names(unit: str) -> Iterator[str]:
    """The names whose drop-ins apply to a unit: its own, its template's, and their prefixes that end with a dash."""
    name, _, kind = unit.rpartition(".")
    yield unit
    if "@" in name:
        yield _template(unit)
        name = name.partition("@")[0]
    while "-" in (name := name.removesuffix("-")):
        name = name[: name.rindex("-") + 1]
        yield f"{name}.{kind}"


def _template(unit: str) -> str:
    name, at, rest = unit.partition("@")
    return f"{name}@.{rest.rpartition('.')[2]}" if at else unit


def _command(value: str) -> str:
    words, ignores = value.removeprefix("-").replace("'", ""), "yes" if value.startswith("-") else "no"
    return f"{{ path={words.split()[0]} ; argv[]={words} ; ignore_errors={ignores} ; }}"

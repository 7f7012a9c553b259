"""What systemd would show of a unit: the fake manager's reading of unit files and drop-ins.

Here: the few properties that are asked for. Lists are emptied by an empty value, as systemd does; the rest of its
language is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["shown"]

_LISTS = {"ExecStartPre", "ExecStart", "ExecCondition", "SuccessExitStatus"}


def shown(unit: str, read: Mapping[str, str]) -> dict[str, str]:
    """The properties of a unit, by the texts that were read, each under its path."""
    names = {unit, _template(unit)}
    fragment = next((path for path in read if path.rpartition("/")[2] in names and _is_unit(path)), "")
    folders = {f"{name}.d" for name in names}
    drop_ins = {path.rpartition("/")[2]: path for path in sorted(read) if path.split("/")[-2] in folders}
    in_order = [path for _, path in sorted(drop_ins.items()) if read[path] and read[path] != "/dev/null"]
    values: dict[str, list[str]] = {}
    for path in (fragment, *in_order):
        for line in read.get(path, "").splitlines():
            name, equals, value = line.partition("=")
            if equals and name in _LISTS:
                values[name] = [*values.get(name, []), value] if value else []
            elif equals:
                values[name] = [value]
    is_machine = "@" in unit
    found = {
        "LoadState": "loaded" if fragment or is_machine else "not-found",
        "FragmentPath": fragment,
        "DropInPaths": " ".join(in_order),
        "Type": values.get("Type", ["simple"])[-1],
        "RemainAfterExit": values.get("RemainAfterExit", ["no"])[-1],
        "SuccessExitStatus": " ".join(values.get("SuccessExitStatus", [])),
    }
    commands = {name: values.get(name, []) for name in _LISTS if name.startswith("Exec")}
    return {**found, **{name: " ".join(map(_command, given)) for name, given in commands.items()}}


def _is_unit(path: str) -> bool:
    return path.endswith(".service") and not path.split("/")[-2].endswith((".wants", ".requires"))


def _template(unit: str) -> str:
    name, at, rest = unit.partition("@")
    return f"{name}@.{rest.rpartition('.')[2]}" if at else unit


def _command(value: str) -> str:
    words, ignores = value.removeprefix("-"), "yes" if value.startswith("-") else "no"
    return f"{{ path={words.split()[0]} ; argv[]={words} ; ignore_errors={ignores} ; }}"

"""The names of units: a template such as `a@.service`, its instances, and the drop-ins of both."""

from __future__ import annotations

import re

UNIT_PATH = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
"""Where systemd looks for the files of units, in its order. Generators write no drop-ins that we
know of, so their folders are not looked at.
"""


def is_template(unit: str) -> bool:
    """Whether this is a template: systemd starts only its instances."""
    return "@." in unit


def template_of(unit: str) -> str:
    """The template of an instance; any other unit itself."""
    return re.sub(r"@.*(?=\.)", "@", unit)


def plain_instance(unit: str) -> str:
    """The unit; for a template, an instance without settings of its own."""
    return unit.replace("@.", "@hostrouting-probe.")


def loaded_pattern(unit: str) -> str:
    """What `systemctl show` gets for a unit: for a template, a pattern for its loaded instances."""
    return unit.replace("@.", "@*.")


def drop_in_folders(unit: str) -> tuple[str, ...]:
    """The folders of the drop-ins of a unit, in the order in which systemd looks: of two files with
    the same name, it reads the first.
    """
    stem, _, kind = unit.rpartition(".")
    prefix, at, _ = stem.partition("@")
    names = [unit, template_of(unit)]
    while "-" in prefix:  # a-.service.d is for all units whose names begin with `a-`
        prefix = prefix.rpartition("-")[0]
        if at:
            names.append(f"{prefix}-@.{kind}")
        names.append(f"{prefix}-.{kind}")
    folders = [f"{place}/{name}.d" for place in UNIT_PATH for name in names]
    folders += [f"{place}/{kind}.d" for place in UNIT_PATH]  # for all units of this kind
    return tuple(dict.fromkeys(folders))

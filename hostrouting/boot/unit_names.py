"""The names of units: a template such as `a@.service`, and its instances."""

from __future__ import annotations

import re


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

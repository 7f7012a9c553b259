"""The names of units: a template such as `a@.service`, and its instances."""

from __future__ import annotations


def is_template(unit: str) -> bool:
    """Whether this is a template, such as `a@.service`: systemd starts only its instances."""
    return "@" in unit and template_of(unit) == unit


def template_of(unit: str) -> str:
    """The template of an instance; any other unit unchanged."""
    return _with_instance(unit, "")


def plain_instance(unit: str) -> str:
    """The name by which to ask systemd about this unit. For a template, of which systemd shows
    nothing, it is an instance that nobody uses: this has no settings of its own, so systemd shows
    those of the template.
    """
    return _with_instance(unit, "hostrouting-probe") if is_template(unit) else unit


def instance_pattern(unit: str) -> str:
    """The unit; for a template, the pattern for `systemctl show` of its loaded instances."""
    return _with_instance(unit, "*") if is_template(unit) else unit


def _with_instance(unit: str, instance: str) -> str:
    """Put this instance into the name of the unit: `a@b.service` with "c" is `a@c.service`. A name
    without an @ is returned unchanged. The instance is the text between the first @ and the last
    dot, and may contain both characters.
    """
    prefix, at, rest = unit.partition("@")
    if not at:
        return unit
    return f"{prefix}@{instance}.{rest.rpartition('.')[2]}"

"""The names of units: a template such as `a@.service`, and its instances."""

from __future__ import annotations


def is_template(unit: str) -> bool:
    """Whether this is a template, such as `a@.service`: systemd starts only its instances."""
    return "@" in unit and template_of(unit) == unit


def template_of(unit: str) -> str:
    """The template of an instance; any other unit unchanged."""
    return _with_instance(unit, "")


def unused_instance(unit: str) -> str:
    """For a template, an instance that nobody uses; any other unit unchanged. systemd shows nothing
    of a template, but of such an instance it shows the settings of the template, because there are
    no others.
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

"""The names of units: a template such as `a@.service`, and its instances."""

from __future__ import annotations


def is_template(unit: str) -> bool:
    """Whether this is a template, such as `a@.service`: systemd starts only its instances."""
    return "@" in unit and template_of(unit) == unit


def template_of(unit: str) -> str:
    """The template of an instance; any other unit unchanged."""
    return _with_instance(unit, "")


def plain_instance(unit: str) -> str:
    """The unit; for a template, an instance that nobody uses. systemd shows an instance, and no
    template; this one has no settings of its own, so it shows those of the template.
    """
    return _with_instance(unit, "hostrouting-probe") if is_template(unit) else unit


def instance_pattern(unit: str) -> str:
    """The unit; for a template, the pattern for `systemctl show` of its loaded instances."""
    return _with_instance(unit, "*") if is_template(unit) else unit


def _with_instance(unit: str, instance: str) -> str:
    """The unit of the same template with this instance; a unit without an @ unchanged. The instance
    is the text between the first @ and the last dot, and may contain both characters.
    """
    prefix, at, rest = unit.partition("@")
    if not at:
        return unit
    return f"{prefix}@{instance}.{rest.rpartition('.')[2]}"

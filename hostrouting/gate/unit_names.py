"""The names of units: a template such as `a@.service`, and its instances."""

from __future__ import annotations

import re

_TYPES = (
    ".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer",
    ".slice", ".scope",
)  # fmt: skip
"""How the name of a unit ends, by systemd.unit(5)."""
_TEMPLATE = re.compile(r"^([^@]*@)(\.[^.]*)$")
"""The name of an instance is what stands between the first @ and the last dot, and may have both in
it. A template has nothing there.
"""


def with_type(name: str) -> str:
    """The unit that systemctl takes this name for: a service, if the name does not have a type. The
    name of a machine may have dots.
    """
    return name if name.endswith(_TYPES) else f"{name}.service"


def is_template(unit: str) -> bool:
    """Whether this is a template: systemd starts only its instances."""
    return _TEMPLATE.match(unit) is not None


def template_of(unit: str) -> str:
    """The template of an instance; any other unit itself."""
    return re.sub(r"@.*(?=\.)", "@", unit)


def plain_instance(unit: str) -> str:
    """The unit; for a template, an instance without settings of its own."""
    return _TEMPLATE.sub(r"\1hostrouting-probe\2", unit)


def instance_pattern(unit: str) -> str:
    """The unit; for a template, a pattern for its instances. `systemctl show` takes that for those
    that are loaded.
    """
    return _TEMPLATE.sub(r"\1*\2", unit)

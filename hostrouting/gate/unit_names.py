"""The names of units: a template such as `a@.service`, and its instances. The instance is the text
between the first @ and the last dot of a name, and may contain both characters.
"""

from __future__ import annotations

import re

_TEMPLATE = re.compile(r"^([^@]*@)(\.[^.]*)$")


def is_template(unit: str) -> bool:
    """Whether this is a template, such as `a@.service`: systemd starts only its instances."""
    return bool(_TEMPLATE.search(unit))


def template_of(unit: str) -> str:
    """The template of an instance; any other unit unchanged."""
    return re.sub(r"@.*\.", "@.", unit)


def unused_instance(unit: str) -> str:
    """For a template, an instance that nobody uses; any other unit unchanged. systemd shows nothing
    of a template, but of such an instance it shows the settings of the template, because the
    instance has no others.
    """
    return _TEMPLATE.sub(r"\1hostrouting-probe\2", unit)


def instance_pattern(unit: str) -> str:
    """The unit; for a template, the pattern for `systemctl show` of its loaded instances."""
    return _TEMPLATE.sub(r"\1*\2", unit)

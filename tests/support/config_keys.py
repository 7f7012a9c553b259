"""A configuration with every key, and the same with another value."""

import copy
import re
from typing import Any

COMPLETE: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "10.1.0.0/16"}]},
    "routeOverlap": {"intendedRules": [{"rule": "fwmark 0x1", "reason": "storage"}]},
    "probeRewrite": {},
    "azureVnetCleanup": {"managed": ["10.240.0.0/16"]},
    "guard": {},
    "gate": {"units": ["kubelet.service"]},
}


def with_value(key: str, value: object, base: dict[str, Any] = COMPLETE) -> dict[str, Any]:
    """The configuration with another value of this key; `[]` or `[0]` in the key stands for the first item of a list."""
    document = copy.deepcopy(base)
    *way, last = re.sub(r"\[0?\]", ".0", key).split(".")
    place: Any = document
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return document

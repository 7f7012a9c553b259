"""What a check and a running guard have written on a host, read again: the names of their documents, and a reader.

Not here: writing them (`tasks`), and what is in them (`wording`, `guard.state`).
"""

from __future__ import annotations

from contextlib import suppress

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    from typing import Any

__all__ = ["CHECK_SCHEMA", "CHECK_SCHEMA_BY_FAMILY", "GUARD_SCHEMA", "document_in"]

CHECK_SCHEMA = "hostrouting/check/1"
"""The result of a check whose expected CIDRs are all IPv4."""
CHECK_SCHEMA_BY_FAMILY = "hostrouting/check/2"
"""The result of a check with IPv6 CIDRs: the devices and the verdict of each family have a key of their own."""
GUARD_SCHEMA = "hostrouting/guard/1"
"""What a guard knows after a look."""


def document_in(text: str | None, *schemas: str) -> dict[str, Any]:
    """The JSON document in this text; empty if there is none, or if it has none of these schemas."""
    import json  # noqa: PLC0415  most commands read none of them

    with suppress(ValueError, RecursionError):
        found = json.loads(text or "{}")
        if isinstance(found, dict) and found.get("schema") in schemas:
            return found
    return {}

"""From what the snapshot script printed on a node to facts about its routing: the snapshot, and a check of it.

The node needs neither hostrouting nor Python: the script needs a shell and iproute2, and the check is made here, as
`hostrouting check --snapshot` makes it.

Here: one node. Not here: reaching the node, and the script (`render`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.backends.ip_document import read_ip_document
from hostrouting.correction import find_correction
from hostrouting.errors import SnapshotError
from hostrouting.examination import examine_snapshot
from hostrouting.fleet.outcome import WHERE, verdict_sentence
from hostrouting.wording import check_document, repair_sentence

if TYPE_CHECKING:
    from hostrouting.config import HostRoutingConfig
    from hostrouting.fleet.ran import Ran

__all__ = ["NodeFacts", "routing_facts"]


@attrs.frozen
class NodeFacts:
    """The facts about one node, or why there are none."""

    message: str
    failed: bool = False
    snapshot: dict[str, Any] | None = None
    """The snapshot as JSON values; `hostrouting check --snapshot` reads them again."""
    check: dict[str, Any] | None = None
    """The check as the JSON value `hostrouting/check/1`; None if no CIDR is expected."""

    @property
    def verdict(self) -> str | None:
        """The verdict of the check; None if there is none."""
        return None if self.check is None else str(self.check["verdict"])


def routing_facts(ran: Ran, config: HostRoutingConfig) -> NodeFacts:
    """The facts in what the script printed on a node, checked by this configuration."""
    if ran.code or not ran.output.strip():
        return NodeFacts(f"the snapshot script did not print a snapshot; it {ran.ending}", failed=True)
    try:
        snapshot = read_ip_document(ran.output.encode(errors="replace"))
    except SnapshotError as error:
        return NodeFacts(str(error), failed=True)
    found = json.loads(snapshot.to_json())
    if not config.route_overlap.expected_cidrs:
        return NodeFacts("the snapshot was taken; no CIDR is expected, so nothing was checked", snapshot=found)
    examined = examine_snapshot(snapshot, config)
    check = check_document(examined, mode=config.route_overlap.mode)
    correction = find_correction(examined, config) if config.static_routes.routes and examined.routes else None
    action = repair_sentence(examined, where=WHERE, correction=correction)
    return NodeFacts(verdict_sentence(check, action=action), snapshot=found, check=json.loads(json.dumps(check)))

"""What the JSON documents of several commands have in common: every key, with what it means.

Each command's own keys stand in its record, in `commands`; a test holds the documents to them. A key is added without a
new version; one that goes, or means something else, makes the number higher. `[]` is each item of a list; `null`
stands where a thing has no such value. An error, `hostrouting/error/1`, takes the place of any other document.
"""

__all__ = ["CHECK", "ERROR", "FAILURES", "FORESEEN", "GATE", "OPERATIONS", "ROUTE", "STANDINGS", "STEPS"]

_FINDING = {
    "cidr": "the expected CIDR that the range is a part of",
    "first": "the first address of the range",
    "last": "its last address; the ranges of one CIDR are disjoint and sorted",
    "prefixes[]": "the same range in the fewest blocks",
    "kind": "overlap (another device), no-route, unreachable, blackhole or prohibit",
    "via.dev": "the device that it leaves by instead",
    "via.gateway": "the gateway there",
    "via.route": "the prefix of the route that decides",
    "via.table": "the routing table that it is in",
    "via.protocol": "who installed it",
    "via.rule": "the priority of the rule that led there",
}
ROUTE = {
    "destination": "as in the configuration's staticRoutes.routes",
    "gateway": "the same; empty: that of the default route",
    "dev": "the same; empty: that of the default route",
    "metric": "the same",
}
STEPS = {
    "steps[].action": "keep, add, replace, delete or conflict",
    "steps[].route": "the route, in the words of ip route",
    "steps[].reason": "why",
}
OPERATIONS = {
    "operations[].verb": "create, replace, add or delete",
    "operations[].object": "an nftables table, ebtables rule or neighbour, or a route beside the static ones",
    "operations[].reason": "why",
}
STANDINGS = {
    "standings[].subject": "what a task does beside static routes and the check",
    "standings[].on": "whether it is to work on this host now: it is enabled, and its condition holds",
    "standings[].inForce": "whether what is on the host is as it should be",
    "standings[].faults[]": "what is not; each a sentence",
    "standings[].hindrances[]": "what about the host keeps it from working all the same; each a sentence",
    "standings[].notes[]": "what else there is to know; each a sentence",
    "standings[].facts[]": "such as what the rules have counted; each a sentence",
}
FORESEEN = {
    "foreseen[].route": "a route that is had for now, where the kernel's own route to a network belongs",
    "foreseen[].addresses[].address": "an address that brings that one",
    "foreseen[].addresses[].dev": "the device that has it",
    **{f"foreseen[].instead[].{key}": says for key, says in ROUTE.items()},
    "foreseen[].text": "what becomes of it, and what to write in its place: a sentence",
}
ERROR = {
    "error": "the kind of error",
    "message": "what is wrong and what to do about it",
    "faults[].path": "where in the configuration",
    "faults[].value": "what was found there",
    "faults[].rule": "what is wrong with it",
    "faults[].remedy": "what to do about it",
}
FAILURES = {
    "failures[].task": "the task that failed, by the path of names",
    "failures[].error": ERROR["error"],
    "failures[].message": ERROR["message"],
}
GATE = {
    "gate.up": "whether the drop-in is there by which machines ask before they start",
    "gate.openings[]": "what lets a machine start without being judged; each a sentence",
    "gate.bars[]": "what keeps every machine from starting, whatever the routing; each a sentence",
}
CHECK = {
    "verdict": "ok, overlap, undecided or no-default-route",
    "mode": "WARN or STRICT",
    "expectedDevs[]": "the devices that everything should leave by",
    **{f"findings[].{key}": says for key, says in _FINDING.items()},
    **{f"repair[].{key}": says for key, says in ROUTE.items()},
    "unsafe[].first": "the first address of a range that no static route can close",
    "unsafe[].last": "its last address",
    "unsafe[].reason": "earlier-rule, longest-prefix, no-way, too-many, reserved, surprise, refused or still-open",
    "unsafe[].text": "the same in a sentence",
    "notes[]": "what the verdict does not hold for, and what the repair costs; each a sentence",
}

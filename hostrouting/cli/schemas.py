"""The keys that the JSON documents of several commands have in common, with their meanings.

Each command's own keys are in its record, in `commands`; a test compares them with the documents. Adding a key does not
change the version; removing one or changing its meaning increases it. `[]` means each item of a list; a missing value
is `null`. After an error, the document is `hostrouting/error/1` instead of any other.
"""

__all__ = [
    "CHECK",
    "CORRECTION",
    "ERROR",
    "FAILURES",
    "FORESEEN",
    "GATE",
    "MARKS",
    "NODE",
    "OPERATIONS",
    "ROUTE",
    "STANDINGS",
    "STEPS",
]

_FINDING = {
    "cidr": "the expected CIDR that contains the range",
    "first": "the first address of the range",
    "last": "its last address; the ranges of one CIDR are disjoint and sorted",
    "prefixes[]": "the same range in the fewest blocks",
    "kind": "overlap (another device), no-route, unreachable, blackhole or prohibit",
    "via.dev": "the device that it leaves by instead",
    "via.gateway": "the gateway there",
    "via.route": "the prefix of the route that decides",
    "via.table": "the routing table that it is in",
    "via.protocol": "who installed it",
    "via.rule": "the priority of the rule that looked up the table",
}
_PACKETS = {
    "sources[]": "packets of pods from here: a part of podCidrs",
    "devs[]": "the devices that they arrive on; empty for a device that no rule names, if no pod has a device",
    "exist": "whether these devices exist; a rule may name one that the CNI has still to create",
}
ROUTE = {
    "destination": "as in the configuration's staticRoutes.routes",
    "gateway": "the same; empty means that of the default route",
    "dev": "the same; empty means that of the default route",
    "metric": "the same",
}
STEPS = {
    "steps[].action": "keep, add, replace, delete or conflict",
    "steps[].route": "the route, as ip route prints it",
    "steps[].reason": "why",
    "steps[].existing": "for replace and conflict: the existing route with the same destination and metric; else null",
}
OPERATIONS = {
    "operations[].verb": "create, replace, add, delete or start",
    "operations[].object": "an nftables table, ebtables rule, neighbour or unit, or a route that is not a static route",
    "operations[].reason": "why",
}
STANDINGS = {
    "standings[].subject": "what a task does, other than static routes and the check",
    "standings[].on": "whether it should work on this host now: it is enabled, and its condition holds",
    "standings[].inForce": "whether the host has everything that it needs",
    "standings[].faults[]": "what is missing or wrong; each a sentence",
    "standings[].hindrances[]": "what on the host prevents it from working although it is in force; each a sentence",
    "standings[].notes[]": "other remarks; each a sentence",
    "standings[].facts[]": "facts such as the counters of the rules; each a sentence",
}
FORESEEN = {
    "foreseen[].route": "a route that the next boot will lose, because the kernel adds its own to the same destination",
    "foreseen[].addresses[].address": "an address for which the kernel adds that route",
    "foreseen[].addresses[].dev": "the device that has the address",
    **{f"foreseen[].instead[].{key}": says for key, says in ROUTE.items()},
    "foreseen[].text": "why it will be lost, and what to configure instead: a sentence",
}
NODE = {
    "node": "with --snapshots: the name of the node; else the key is absent",
    "snapshot": "with --snapshots: the file with its snapshot; else the key is absent",
}
CORRECTION = {
    "correction.delete[].destination": "with --snapshots: an entry to delete from the configuration first;"
    " `correction` is null if no route repairs the node as it is",
    "correction.delete[].metric": "its metric",
    "correction.delete[].reason": "replaced (by a route to add), or contested (another program's route has its"
    " destination and metric)",
    **{f"correction.add[].{key}": f"like `repair[].{key}`" for key in ROUTE},
    "correction.add[].destination": "a route to add to the configuration then",
}
ERROR = {
    "error": "the kind of error",
    "message": "what is wrong and what to do about it",
    "faults[].path": "where in the configuration",
    "faults[].value": "what was found there",
    "faults[].rule": "what is wrong with it",
    "faults[].remedy": "what to do about it",
    **NODE,
}
FAILURES = {
    "failures[].task": "the task that failed, as a path of names",
    "failures[].error": ERROR["error"],
    "failures[].message": ERROR["message"],
}
GATE = {
    "gate.up": "whether the drop-in exists that makes machines wait for the check before they start",
    "gate.openings[]": "what lets a machine start without a check; each a sentence",
    "gate.bars[]": "what keeps every machine from starting, whatever the routing; each a sentence",
    "gate.edited[]": "installed files that were edited and that no start of a machine reads; each a sentence",
}
MARKS = {
    "marks[].mark": "a mark that the answer depends on, as ip rule prints it; the key is absent if there is none",
    "marks[].rules[]": "the priorities of the rules that select it",
    "marks[].setters[].place": "where a rule is that can set it",
    "marks[].setters[].text": "what this rule does",
    "marks[].setters[].effects[]": "the packets whose route it changes: arriving, own (of this host), own-later (of"
    " this host, if Linux looks up their route again), or none",
    "ipsec[].source": "an IPsec policy for an expected CIDR: the source of its packets",
    "ipsec[].destination": "their destination",
    "ipsec[].only": "what else it selects them by, as ip xfrm policy prints it",
    "ipsec[].action": "pass, drop, transport (encrypts them) or tunnel",
    "ipsec[].end": "the other end of the tunnel; empty if there is none",
    "notLookedAt[]": "what could not be looked at, with the reason",
}
CHECK = {
    "verdict": "ok, overlap, undecided or no-default-route",
    "mode": "WARN or STRICT",
    "expectedDevs[]": "the devices that everything should leave by",
    **{f"findings[].{key}": says for key, says in _FINDING.items()},
    "pods[].verdict": "the verdict on some packets of pods; `pods` is absent if none are checked",
    **{f"pods[].packets[].{key}": says for key, says in _PACKETS.items()},
    **{f"pods[].findings[].{key}": says for key, says in _FINDING.items()},
    "dropped[].kind": "sent (what pods send) or replies; `dropped` is absent if nothing is dropped on arrival",
    "dropped[].family": "4 or 6",
    "dropped[].devs[]": "the devices that these packets arrive on; empty for a device that is created later",
    "dropped[].reason": "forwarding (the device does not forward), or rp_filter: strict, loose or no-address",
    "dropped[].sources[]": "where the packets come from; empty if that does not matter",
    "dropped[].mark": "replies: the mark of the packets that they are for; else 0",
    "dropped[].uid": "replies: the user who sends these packets; else 0",
    "dropped[].boundTo": "replies: the device that the socket of these packets is bound to; else empty",
    "dropped[].ofPods": "whether it is about packets of pods, or replies to them; else about those of the host itself",
    "dropped[].text": "the same in a sentence",
    **{f"repair[].{key}": says for key, says in ROUTE.items()},
    "unsafe[].first": "the first address of a range that no static route can repair",
    "unsafe[].last": "its last address",
    "unsafe[].reason": "earlier-rule, longest-prefix, no-way, too-many, reserved, surprise, refused, clash, still-open",
    "unsafe[].text": "the same in a sentence",
    **{f"unsafe[].packets[].{key}": says for key, says in _PACKETS.items()},
    "notes[]": "which packets the verdict does not hold for, and what the repair costs; each a sentence",
}

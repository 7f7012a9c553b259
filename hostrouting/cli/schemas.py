"""The keys that the JSON documents of several commands have in common, with their meanings.

Each command's own keys are in its record, in `commands`; a test compares them with the documents. Adding a key does not
change the version; removing one or changing its meaning increases it. `[]` means each item of a list; a missing value
is `null`. After an error, the document is `hostrouting/error/2` instead of any other.
"""

__all__ = [
    "CHECK",
    "CORRECTION",
    "ERROR",
    "FAILURES",
    "FINDINGS",
    "MARKS",
    "NODE",
    "OPERATIONS",
    "ROUTE",
    "STANDINGS",
    "WORK",
]

FINDINGS = {
    "findings[].name": "what it is; the page Findings explains each name",
    "findings[].severity": "error, warning or note",
    "findings[].target": "the range, route, file, unit, program or device that it is about; may be empty",
    "findings[].sentence": "the fact, and the reason",
    "findings[].remedy": "what to do about it; may be empty",
    "findings[].facts": "the same for programs, with keys by name as the page Findings lists them",
    "findings[].canRetry": "whether the finding may go away by itself",
}
"""The schema hostrouting/findings/1, in every document that has findings."""
ROUTE = {
    "destination": "as in the configuration's staticRoutes.routes",
    "gateway": "the same; empty means that of the default route",
    "dev": "the same; empty means that of the default route",
    "metric": "the same",
}
OPERATIONS = {
    "operations[].verb": "create, replace, add, delete or start; that of another project's task may be another one",
    "operations[].object": "an nftables table, ebtables rule, neighbour or unit, or a route that is not a static route",
    "operations[].reason": "why",
}
WORK = {
    "steps[].action": "keep, add, replace, delete or conflict",
    "steps[].route": "the route, as ip route prints it",
    "steps[].reason": "why",
    "steps[].existing": "for replace and conflict: the existing route with the same destination and metric; else null",
    **OPERATIONS,
    "files.write[]": "the files that are written",
    "files.remove[]": "the files that are removed",
}
"""What is done, or would be done."""
STANDINGS = {
    "standings[].subject": "what a task does, other than static routes and the check",
    "standings[].on": "whether it should work on this host now: it is enabled, and its condition holds",
    "standings[].inForce": "whether the host has everything that it needs",
    **{f"standings[].{key}": says for key, says in FINDINGS.items()},
    "standings[].facts[]": "facts such as the counters of the rules; each a sentence",
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
    "error": "the class of the error; the page Findings explains each",
    "kind": "what was refused, or why, where the class does not say it; else empty",
    "message": "what is wrong and what to do about it",
    "canRetry": "whether the same command may succeed later without any action",
    **FINDINGS,
    "faults[].path": "where in the configuration",
    "faults[].value": "what was found there",
    "faults[].rule": "what is wrong with it",
    "faults[].remedy": "what to do about it",
    **NODE,
}
FAILURES = {
    "failures[].task": "the task that failed, as a path of names",
    "failures[].error": ERROR["error"],
    "failures[].kind": ERROR["kind"],
    "failures[].message": ERROR["message"],
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
    "verdict": "the worse verdict: ok, overlap, undecided or no-default-route",
    "verdicts.ipv4": "the verdict on the IPv4 CIDRs; the key is absent without any",
    "verdicts.ipv6": "the same for IPv6",
    "mode": "WARN or STRICT",
    "expectedDevs.ipv4[]": "the devices that everything should leave by",
    "expectedDevs.ipv6[]": "the same for IPv6",
    **FINDINGS,
    **{f"repair[].{key}": says for key, says in ROUTE.items()},
}

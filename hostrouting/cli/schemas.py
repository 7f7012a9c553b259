"""What is in the JSON of each command: every key, with what it means. A test holds the documents to this.

A key is added without a new version; one that goes, or means something else, makes the number higher. `[]` is each
item of a list; `null` stands where a thing has no such value.
"""

__all__ = ["SCHEMAS"]

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
_ROUTE = {
    "destination": "as in the configuration's staticRoutes.routes",
    "gateway": "the same; empty: that of the default route",
    "dev": "the same; empty: that of the default route",
    "metric": "the same",
}
_STEPS = {
    "steps[].action": "keep, add, replace, delete or conflict",
    "steps[].route": "the route, in the words of ip route",
    "steps[].reason": "why",
}
_FORESEEN = {
    "foreseen[].route": "a route that is had for now, where the kernel's own route to a network belongs",
    "foreseen[].addresses[].address": "an address that brings that one",
    "foreseen[].addresses[].dev": "the device that has it",
    **{f"foreseen[].instead[].{key}": says for key, says in _ROUTE.items()},
    "foreseen[].text": "what becomes of it, and what to write in its place: a sentence",
}
_ERROR = {
    "error": "the kind of error",
    "message": "what is wrong and what to do about it",
    "faults[].path": "where in the configuration",
    "faults[].value": "what was found there",
    "faults[].rule": "what is wrong with it",
    "faults[].remedy": "what to do about it",
}
_FAILURES = {
    "failures[].task": "the task that failed, by the path of names",
    "failures[].error": _ERROR["error"],
    "failures[].message": _ERROR["message"],
}
_GATE = {
    "gate.up": "whether the drop-in is there by which machines ask before they start",
    "gate.openings[]": "what lets a machine start without being judged; each a sentence",
    "gate.bars[]": "what keeps every machine from starting, whatever the routing; each a sentence",
}
_CHECK = {
    "verdict": "ok, overlap, undecided or no-default-route",
    "mode": "WARN or STRICT",
    "expectedDevs[]": "the devices that everything should leave by",
    **{f"findings[].{key}": says for key, says in _FINDING.items()},
    **{f"repair[].{key}": says for key, says in _ROUTE.items()},
    "unsafe[].first": "the first address of a range that no static route can close",
    "unsafe[].last": "its last address",
    "unsafe[].reason": "earlier-rule, longest-prefix, no-way, too-many, reserved or still-open",
    "unsafe[].text": "the same in a sentence",
    "notes[]": "what the verdict does not hold for, and what the repair costs; each a sentence",
}

SCHEMAS: dict[str, dict[str, str]] = {
    "hostrouting/check/1": _CHECK,
    "hostrouting/explain/1": {
        "address": "the address that was asked for",
        "kind": "unicast, local, broadcast, multicast, anycast, no-route, unreachable, blackhole or prohibit",
        "devs[]": "the devices by which a packet to it may leave",
        "expected": "whether these are the expected devices, or it stays here as it should; null: none are expected",
        "expectedDevs[]": "the devices of the configuration, or else of the default route",
        "rules[].priority": "a rule that was tried, in order",
        "rules[].rule": "the same, in the words of ip rule",
        "rules[].result": "not-selected, no-route, suppressed, thrown, jump, nothing, refused or decides",
        "rules[].route": "the route that was found in its table",
        "rule": "the priority of the rule that decides",
        "table": "the table of the route that decides",
        "route": "the route that decides, in the words of ip route",
        "protocol": "who installed it",
        "legs[].dev": "a way that a packet may take",
        "legs[].gateway": "the gateway there",
        "legs[].weight": "its weight among the others",
        "links[].dev": "a device by which a packet may leave",
        "links[].up": "whether it is up",
        "links[].carrier": "whether it has a carrier",
        "links[].infiniband": "whether it leads into an InfiniBand fabric",
        "links[].rpFilter": "0, 1 (strict) or 2 (loose): what becomes of packets that come in by another way than back",
        "passed[].route": "another route in the same table that covers the address",
        "passed[].devs[]": "its devices",
        "passed[].reason": "why it does not decide: shorter, metric, tie, tos, oif or down",
        "dropsReplies[]": "devices that drop what comes in from the address, for the way back is another",
        "others[].when[][]": "what would have to be true of a packet that goes another way: all of one of the lists",
        "others[].kind": "what becomes of it",
        "others[].devs[]": "by which devices",
        "surprise": "what the kernel itself answers, where that is not what its tables say; else empty",
    },
    "hostrouting/repair/1": {
        "verdict": _CHECK["verdict"],
        **{f"routes[].{key}": says for key, says in _ROUTE.items()},
        "commands[]": "the same routes as commands for a shell",
        "closes": "all, some or none of what escapes",
        "unsafe[]": "what no static route can close; each a sentence",
        "diverted[]": "what the repair costs; each a sentence",
    },
    "hostrouting/plan/1": {
        "answer": "conflict, not-ready, to-do, overlap (nothing to do, and apply would fail) or nothing-to-do",
        "changes": "whether apply would change anything",
        **_STEPS,
        **_FORESEEN,
        "pending[]": "what is waited for; each a sentence",
        "files.write[]": "the files that would be written, if only till it fails; files is null of a snapshot",
        "files.remove[]": "the files that would be removed",
        "verdict": "what check would say afterwards; null where nothing is to be checked, or nobody knows",
        **_GATE,
    },
    "hostrouting/apply/1": {
        "ok": "whether everything that was wanted was done",
        "changed": "whether anything was changed",
        **_STEPS,
        **_FORESEEN,
        "files.wrote[]": "the files that were written",
        "files.removed[]": "the files that were removed",
        "check": "the check that followed, as hostrouting/check/1; null where there was none",
        **_GATE,
        **_FAILURES,
    },
    "hostrouting/remove/1": {
        "ok": "whether everything of ours is gone",
        "routes[]": "the routes that were removed",
        "files[]": "the files that were removed",
        "stays[].route": "a route that the configuration, or else the installed script, has and that is not ours",
        "stays[].command": "what a shell is told to delete it, and no other",
        **_FAILURES,
    },
    "hostrouting/render/1": {
        "ok": "whether everything was written",
        "root": "where the image is mounted",
        "files.wrote[]": "the files that were written",
        "files.removed[]": "the files that were removed",
        **_FAILURES,
    },
    "hostrouting/status/1": {
        "installed": "whether anything of ours is on this host",
        "routes[]": "our routes, in the words of ip route",
        "missing[]": "routes that the configuration, or else the installed script, has and the host has not",
        "contested[]": "those of them that cannot be had, for somebody else has a route there",
        **_GATE,
        "defaultRoute": "the default route",
        "files[]": "our files",
        "units[].unit": "a unit of ours",
        "units[].load": "in systemd's words",
        "units[].active": "in systemd's words",
        "units[].result": "in systemd's words",
        "units[].status": "the exit status of its last run",
        "manager": "whether a systemd runs here",
        "now.by": "config or installed: what the host was judged by now; now is null where it was not judged",
        "now.inForce": "whether machines wait for a check that judges like this",
        "now.expectedCidrs[]": "what it was judged for",
        **{f"now.{key}": says for key, says in _CHECK.items()},
        "lastCheck.verdict": "what the last check said; lastCheck is null where none is on record since boot",
        "lastCheck.findings": "how many findings it had",
        "lastCheck.at": "when it was",
        "lastCheck.outOfDate": "whether now has another answer; null where it cannot be compared",
        "troubles[]": "what could not be found out; each a sentence",
    },
    "hostrouting/error/1": _ERROR,
}
"""By schema, each key below the root but `schema`. (`hostrouting/snapshot/1` has the fields of `hostrouting.Snapshot`.)
An error takes the place of any other document."""

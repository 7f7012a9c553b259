"""The keys of the JSON documents that the commands print, with their meanings.

The page of commands and the list of what is public are written from them, and a test compares them with the documents.
Adding a key does not change the version; removing one or changing its meaning increases it. `[]` means each item of a
list; a missing value is `null`. After an error, the document is `hostrouting/error/2` instead of any other.
"""

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


def _entries(name: str, what: str) -> dict[str, str]:
    return {
        f"{name}[].kind": f"{what}: rule, neighbour, route, or pod (in azure-vnet's state file)",
        f"{name}[].spec": "the rule as ebtables-save prints it, or the neighbour or route as ip prints it",
        f"{name}[].fate": "delete (it is stale); or it is kept: conflict (it belongs to a running pod whose address"
        " another CNI manages), inert (a rule that matches no frame), or keep",
        f"{name}[].reason": "why",
    }


KEYS: dict[str, dict[str, str]] = {
    "apply": {
        "ok": "whether everything was done",
        "changed": "whether anything was changed",
        **WORK,
        **FINDINGS,
        **STANDINGS,
        "check": "the check that followed, as hostrouting/check/3; null if there was none",
        **FAILURES,
    },
    "check": {**CHECK, **MARKS, **STANDINGS, **NODE, **CORRECTION},
    "clean": {
        "action": "plan, apply or undo",
        "ok": "whether everything was done",
        "host": "the name of the host; empty if nothing was planned",
        "boot": "the kernel's boot ID; --approved accepts only a plan with the present one",
        **_entries("entries", "what is of azure-vnet, or looks like it"),
        **FINDINGS,
        **_entries("unapproved", "with --apply: stale entries that are not in the plan, and so are kept"),
        **OPERATIONS,
        "undoFile": "the file with the commands that restore what was deleted; null if nothing was deleted",
        **FAILURES,
    },
    "discover": {
        "expectedCidrs[]": "the proposed CIDRs: each once, without those that another one contains",
        "networks[].cidr": "a network that a file names",
        "networks[].what": "pods of this node, pods of the cluster, services, API server, or expected by the agent",
        "networks[].file": "the file that names it",
        "networks[].key": "the key in the file",
        "networks[].isWhole": "whether the network is complete; if not, the cluster has more addresses",
        "missing[].what": "what no file names whole",
        "missing[].command": "the command that asks the cluster",
        "lost[].address": "a name server or gateway in one of the networks that escapes; lost is null if not known",
        "lost[].role": "what it is, and the file or device that names it",
        "lost[].cidr": "the network that it is in",
        "lost[].way": "the device that it leaves by instead, or no-route, unreachable, blackhole or prohibit",
        "remarks[].file": "a file or folder that was not used",
        "remarks[].text": "why",
    },
    "explain": {
        "address": "the address that was asked for",
        "kind": "unicast, local, broadcast, multicast, anycast, no-route, unreachable, blackhole or prohibit",
        "devs[]": "the devices that a packet to it may leave by",
        "expected": "whether these are the expected devices, or it correctly stays here; null: no device is expected",
        "expectedDevs[]": "the devices of the configuration, or else of the default route",
        "rules[].priority": "a rule that was tried, in order",
        "rules[].rule": "the same, as ip rule prints it",
        "rules[].result": "not-selected, no-route, suppressed, thrown, jump, nothing, refused or decides",
        "rules[].route": "the route that was found in its table",
        "rule": "the priority of the rule that decides",
        "table": "the table of the route that decides",
        "route": "the route that decides, as ip route prints it",
        "protocol": "who installed it",
        "legs[].dev": "the device of a next hop that a packet may use",
        "legs[].gateway": "its gateway",
        "legs[].weight": "its weight among the next hops",
        "links[].dev": "a device that a packet may leave by",
        "links[].up": "whether it is up",
        "links[].carrier": "whether it has a carrier",
        "links[].infiniband": "whether it is an InfiniBand device",
        "links[].rpFilter": "0, 1 (strict) or 2 (loose): whether a packet is dropped if the route back is different",
        "passed[].route": "another route in the same table that matches the address",
        "passed[].devs[]": "its devices",
        "passed[].reason": "why it does not decide: shorter, metric, tie, tos, oif or down",
        "dropped.reason": "why it is dropped as it arrives: bad-source, loopback, forwarding, own-source, or rp_filter:"
        " strict, loose or no-address; `dropped` is null if it is not",
        "dropped.text": "the same in a clause",
        "dropsReplies[]": "devices that drop packets from the address to this host, because of rp_filter",
        "others[].when[][]": "the conditions for a different result: all conditions of one of the lists",
        "others[].kind": "the kind for those packets",
        "others[].devs[]": "their devices",
        "source": "how a link-local source is rewritten before routing, or that the packet arrives on another device:"
        " a sentence; else empty",
        "surprise": "what the kernel itself answers, if that is not what its tables say; else empty",
        **MARKS,
    },
    "gate": {
        "openings[].unit": "the unit that may start unchecked, or all",
        "openings[].until": "until when",
        "openings[].who": "who decided that",
        "openings[].why": "why",
    },
    "guard": {
        "since": "when it began",
        "looks": "how often it has looked at the host",
        "lastLook": "when it last did, and could read everything",
        "unknown[]": "a task that could not read the host since then, as while its tables change all the time",
        "verdict": "the verdict of the check: ok, overlap, undecided or no-default-route; null without a check",
        "verdictSince": "since when the verdict is the same, as far as the guard has seen it",
        "repairs": "how often it has repaired something",
        "lastRepair": "when it last did; null if never",
        "failure": "why the last look or repair failed, or what the guard itself cannot do; null if all is well",
        "fights[].key": "the destination, or the table of nftables, that changes again after each repair",
        "fights[].ours": "what belongs there",
        "fights[].found": "what was there instead the last time",
        "fights[].rounds": "how often it was repaired",
        **FINDINGS,
    },
    "plan": {
        **NODE,
        "answer": "refused, conflict, not-ready, to-do, overlap (nothing to do, and apply would fail) or nothing-to-do",
        "changes": "whether apply would change anything",
        **WORK,
        "files.rewrite[]": "the files to write that already exist, and are different; files is null for a snapshot",
        **FINDINGS,
        "verdict": "the verdict of check afterwards; null if there is nothing to check, or it is not known",
        "check": "that check, as hostrouting/check/3; null if there is none",
    },
    "preflight": {**FINDINGS},
    "remove": {
        "ok": "whether everything that hostrouting installed is gone",
        "dryRun": "whether the following was not removed, because of --dry-run",
        **WORK,
        **FINDINGS,
        **FAILURES,
    },
    "render": {
        "ok": "whether everything was written",
        "root": "where the image is mounted",
        **{key: says for key, says in WORK.items() if key.startswith("files.")},
        **FAILURES,
    },
    "repair": {
        "verdict": CHECK["verdict"],
        **{f"routes[].{key}": says for key, says in ROUTE.items()},
        "commands[]": "the same routes as commands for a shell",
        "closes": "which escapes the routes repair: all, some or none",
        **FINDINGS,
    },
    "status": {
        "installed": "whether hostrouting has anything installed on this host",
        "differs[]": "the parts of --config that are not installed as they are there, such as routeOverlap",
        "routes[]": "hostrouting's routes, as ip route prints them",
        "missing[]": "routes in the configuration, or else in the installed script, that the host lacks, or that wait",
        "defaultRoute": "the IPv4 default route",
        "ipv6DefaultRoute": "the IPv6 default route",
        "files[]": "hostrouting's files",
        "units[].unit": "one of hostrouting's units",
        "units[].load": "its LoadState in systemd",
        "units[].active": "its ActiveState in systemd",
        "units[].result": "its Result in systemd",
        "units[].status": "the exit status of its last run",
        "gated[].unit": "a unit that the gate holds back",
        "gated[].load": "its LoadState in systemd; empty if systemd does not run here",
        "gated[].active[]": "the unit, or those instances of a template, that run now",
        "gated[].checked": "whether each start is checked",
        "manager": "whether systemd is running here",
        "now.by": "config or installed: the configuration that the check used; now is null if there was no check",
        "now.inForce": "whether gated units wait for a check with these settings",
        "now.expectedCidrs[]": "the CIDRs that were checked",
        **{f"now.{key}": says for key, says in CHECK.items()},
        "lastCheck.verdict": "the verdict of the last check; lastCheck is null if there was none since boot",
        "lastCheck.at": "its time",
        **STANDINGS,
        **FINDINGS,
    },
}
"""By command, the keys of its document; those of `snapshot` are the fields of `hostrouting.Snapshot`."""

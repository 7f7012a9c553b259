"""A task of your own: each secondary NIC answers from its own address, by a rule and a default route of its own.

`from ADDRESS lookup TABLE`, and in it `default via GATEWAY dev DEV`: now, at every boot, and before a machine starts.
An agent names the class in `Configure(config, tasks=(*TASKS, RailRules))`. Its configuration has a section for it:

    {"extensions": {"rail-rules": [{"address": "10.1.0.4", "gateway": "10.1.0.1", "dev": "eth1", "table": 1001}]}}

The command `hostrouting` and the guard's service find it by an entry point of its package, in the group
`hostrouting.tasks`: rail-rules = "rail_rules:RailRules".
"""

from ipaddress import IPv4Address
from typing import Any, ClassVar

import attrs

import phases
from hostrouting import Change, ConfigError, Effects, Fault, HostTask, Operation, Part, Prefix, Route, Rule
from hostrouting.kernel import RouteRequest

OURS, PRIORITY = 214, 1000  # hostrouting deletes routes with its own number, 213, that it does not know
REMEDY = 'write {"address": "10.1.0.4", "gateway": "10.1.0.1", "dev": "eth1", "table": 1001}'


@attrs.frozen(kw_only=True)
class Rail:
    """A secondary NIC."""

    address: IPv4Address = attrs.field(converter=IPv4Address)
    gateway: IPv4Address = attrs.field(converter=IPv4Address)
    dev: str = attrs.field(validator=attrs.validators.matches_re(r"[A-Za-z0-9_.-]{1,15}"))
    table: int = attrs.field(validator=[attrs.validators.instance_of(int), attrs.validators.in_(range(256, 2**31))])

    @property
    def things(self) -> tuple[Route, Rule]:
        """The route comes first: a rule without it would lead nowhere."""
        route = Route.to("0.0.0.0/0", gateway=self.gateway, dev=self.dev, table=self.table, protocol=OURS)
        src = Prefix.parse(f"{self.address}/32")
        return route, Rule(family=4, priority=PRIORITY, src=src, table=self.table, protocol=OURS)

    @property
    def script(self) -> str:
        """The same in the words of `ip`."""
        route = f"default via {self.gateway} dev {self.dev} table {self.table} proto {OURS}"
        rule = f"from {self.address} table {self.table} priority {PRIORITY} protocol {OURS}"
        return f"ip route replace {route}\nip rule delete {rule} 2>/dev/null || true\nip rule add {rule}\n"


class RailRules(HostTask[Effects]):
    """A rule and a default route for each rail of the configuration."""

    name: ClassVar[str] = "rail-rules"
    extension: ClassVar[str] = "rail-rules"

    @property
    def rails(self) -> tuple[Rail, ...]:
        """The checked settings; ConfigError with all faults."""
        given, found, faults = self.settings or [], [], []
        for place, one in enumerate(given if isinstance(given, list) else [given]):
            try:
                found.append(Rail(**one))
            except (TypeError, ValueError) as error:
                faults.append(Fault(f"{self.section_path}[{place}]", str(one), f"is not a rail: {error}", REMEDY))
        if faults:
            raise ConfigError(faults)
        return tuple(found)

    @property
    def is_wanted(self) -> bool:  # noqa: D102  as in HostTask, and so below
        return bool(self.rails)

    @property
    def part(self) -> Part:  # noqa: D102  as above
        script = "".join(["#!/bin/bash\nset -e\n", *(rail.script for rail in self.rails), "exit 0\n"])
        return Part.of(self.host.layout, self.name, script, rank=45, does="Rules of the rails")

    def change(self, *, up: bool) -> Change:  # noqa: D102  as above
        with self.kernel() as kernel:
            now = kernel.snapshot()
        wanted = {_words(thing): thing for rail in self.rails for thing in rail.things} if up else {}
        there = {_words(thing): thing for thing in (*now.rules, *now.routes) if thing.protocol == OURS}
        add = [Operation("add", words, "it is missing", thing) for words, thing in wanted.items() if words not in there]
        gone = [Operation("delete", words, "it is not wanted", there[words]) for words in there if words not in wanted]
        return Change(operations=(*add, *gone))

    def carry_out(self, ctx: phases.Context, change: Change, *, up: bool) -> Effects:  # noqa: ARG002, D102  the change says it
        return Effects.of_each(change.operations, self._set)

    def _set(self, operation: Operation) -> None:
        verb: Any = operation.verb
        with self.kernel() as kernel:
            if isinstance(operation.thing, Rule):
                kernel.change_rule(verb, operation.thing)
            elif error := kernel.change([RouteRequest(verb, operation.thing)])[0].error:
                raise error


def _words(thing: Any) -> str:
    return " ".join(word for word in str(thing).split() if word not in {"linkdown", "dead"})

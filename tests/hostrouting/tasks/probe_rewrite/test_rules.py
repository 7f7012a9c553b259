"""The rules and the route of a probe rewrite, the plan that installs them, and the record of both."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.config import ProbeRewriteConfig
from hostrouting.kernel.nftables import Chain, Match, Rule, Table, Unknown, Verdict
from hostrouting.model import Prefix, Route, Snapshot
from hostrouting.tasks.probe_rewrite.rules import (
    NotedRoute,
    Record,
    differences,
    is_ours,
    is_rewritten,
    plan_rewrite,
    wanted_route,
    wanted_table,
)
from hostrouting.testing.config_strategies import probe_rewrites

CONFIG = ProbeRewriteConfig(True, ("eth0",))
TABLE = wanted_table(CONFIG)
KNOWN = CONFIG.global_address
ROUTE = Route.to(Prefix.of(IPv6Network(KNOWN)), dev="eth0", metric=1024, protocol=213)
ADDED = Rule((Match("ip6 saddr", ("2001:db8::1",)), Verdict("return")))


def changed(chain: int, *rules: Rule, table: Table = TABLE) -> Table:
    """The wanted table, with other rules in one chain."""
    chains = [attrs.evolve(it, rules=rules) if at == chain else it for at, it in enumerate(table.chains)]
    return attrs.evolve(table, chains=tuple(chains))


def actions(*routes: Route, wanted: Route | None = ROUTE, ours: tuple[int, ...] = (213,)) -> list[str]:
    """The plan for these routes to the global address."""
    plan = plan_rewrite(TABLE, wanted, {TABLE.name: TABLE}, Snapshot(routes=routes), ours=ours, former=(ROUTE.prefix,))
    return [step.action for step in plan.routes.steps]


class TestTheTable:
    """The rules that are wanted."""

    def test_as_nft_would_list_it(self) -> None:
        """Every rule has a comment with its purpose."""
        assert str(TABLE) == (
            "table ip6 hostrouting_slb {\n"
            "\tchain prerouting {\n"
            "\t\ttype filter hook prerouting priority -300; policy accept;\n"
            '\t\tip6 saddr != fe80::1234:5678:9abc return comment "hostrouting: not a probe"\n'
            '\t\tiifname != "eth0" return comment "hostrouting: did not come in by an uplink"\n'
            '\t\tip6 daddr { fe80::/10, ff00::/8 } return comment "hostrouting: stays on the link"\n'
            "\t\ticmpv6 type { 130, 131, 132, 133, 134, 135, 136, 137, 143 } return"
            ' comment "hostrouting: neighbour discovery and MLD"\n'
            "\t\tcounter ip6 saddr set 2603:1062:0:1:fe80:1234:5678:9abc"
            ' comment "hostrouting: from an address that may be forwarded"\n'
            "\t}\n\n"
            "\tchain postrouting {\n"
            "\t\ttype filter hook postrouting priority -300; policy accept;\n"
            '\t\tip6 daddr 2603:1062:0:1:fe80:1234:5678:9abc oifname "eth0" counter'
            ' ip6 daddr set fe80::1234:5678:9abc comment "hostrouting: back to the address of the probe"\n'
            "\t}\n"
            "}"
        )

    @given(probe_rewrites().filter(lambda it: it.enabled))
    def test_what_the_configuration_says_is_in_it(self, config: ProbeRewriteConfig) -> None:
        """Name, priority, uplinks and addresses are those of the configuration, and the table is recognised as ours."""
        table = wanted_table(config)
        assert table.name == config.table
        assert {chain.priority for chain in table.chains} == {config.priority}
        text = str(table)
        assert all(f'"{dev}"' in text for dev in config.interfaces)
        assert str(config.link_local) in text
        assert str(config.global_address) in text
        assert is_ours(table)

    @pytest.mark.parametrize(
        ("source", "destination", "iif", "rewritten"),
        [
            ("fe80::1234:5678:9abc", "2001:db8::1", "eth0", True),
            ("fe80::1234:5678:9abc", "2001:db8::1", "eth1", False),
            ("fe80::1234:5678:9abc", "2001:db8::1", None, False),
            ("fe80::1", "2001:db8::1", "eth0", False),
            ("fe80::1234:5678:9abc", "fe80::1", "eth0", False),
            ("fe80::1234:5678:9abc", "ff02::1", "eth0", False),
        ],
    )
    def test_is_rewritten(self, source: str, destination: str, iif: str | None, rewritten: bool) -> None:  # noqa: FBT001
        """Only a probe that arrives on an uplink and does not stay on the link is rewritten."""
        told = is_rewritten(CONFIG, source=IPv6Address(source), destination=IPv6Address(destination), iif=iif)
        assert told is rewritten


class TestDifferences:
    """The differences of a table, in words."""

    def test_none(self) -> None:
        """A table that is equal to the wanted one has no differences."""
        assert differences(TABLE, TABLE) == ()

    @pytest.mark.parametrize(
        ("found", "words"),
        [
            (None, "it is missing"),
            (Table(TABLE.name, (), flags=("dormant",), is_readable=False), "it is dormant, so its rules do nothing"),
            (Table(TABLE.name, (), is_readable=False), "nft lists it incompletely"),
            (attrs.evolve(TABLE, chains=TABLE.chains[:1]), "chain postrouting is missing"),
            (attrs.evolve(TABLE, chains=(*TABLE.chains, Chain("other", ()))), "chain other was added"),
            (attrs.evolve(TABLE, flags=("persist",)), "it has the flag persist"),
            (attrs.evolve(TABLE, others=(Unknown('{"set": {}}'),)), 'something was added to it: {"set": {}}'),
            (
                attrs.evolve(TABLE, chains=(attrs.evolve(TABLE.chains[0], priority=-150), TABLE.chains[1])),
                "chain prerouting has priority -150, not -300",
            ),
            (
                changed(1),
                f"1 of 1 rules of chain postrouting are missing or changed, the first is: {TABLE.chains[1].rules[0]}",
            ),
            (changed(0, *TABLE.chains[0].rules, ADDED), f"a rule was added to chain prerouting: {ADDED}"),
            (
                changed(0, *TABLE.chains[0].rules[::-1]),
                f"rule 1 of chain prerouting is out of place: {TABLE.chains[0].rules[-1]}",
            ),
            (
                changed(0, *TABLE.chains[0].rules, TABLE.chains[0].rules[0]),
                f"rule 6 of chain prerouting is out of place: {TABLE.chains[0].rules[0]}",
            ),
        ],
    )
    def test_each(self, found: Table | None, words: str) -> None:
        """Each kind of difference has its own text."""
        assert differences(TABLE, found) == (words,)

    @given(st.data())
    def test_any_change_is_seen(self, data: st.DataObject) -> None:
        """For any rules in the chains, a difference is reported exactly if they are not the wanted ones."""
        pool = st.sampled_from((*TABLE.chains[0].rules, *TABLE.chains[1].rules, ADDED))
        found = changed(0, *data.draw(st.lists(pool, max_size=7)))
        assert bool(differences(TABLE, found)) is (found != TABLE)


class TestPlanTheTables:
    """The changes to tables."""

    def test_nothing_to_do(self) -> None:
        """If the table and the route are as wanted, the plan is empty."""
        there = Snapshot(routes=(ROUTE,))
        assert plan_rewrite(TABLE, ROUTE, {TABLE.name: TABLE}, there, ours=(213,)).is_empty

    def test_create(self) -> None:
        """A missing table is created, and a former one is deleted in the same transaction."""
        former = attrs.evolve(TABLE, name="former")
        plan = plan_rewrite(TABLE, None, {TABLE.name: None, "former": former}, Snapshot(), ours=(213,))
        assert (plan.load, plan.delete) == (TABLE, ("former",))
        assert [str(it) for it in plan.operations] == [
            "create nftables table ip6 hostrouting_slb    # it is missing",
            "delete nftables table ip6 former    # it is no longer wanted",
        ]

    def test_delete(self) -> None:
        """Our table and route are deleted if they are no longer wanted; another program's table is kept."""
        foreign = Table("foreign", (Chain("input", (ADDED,)),))
        tables = {TABLE.name: TABLE, "foreign": foreign, "gone": None}
        routes = (ROUTE, Route.to(ROUTE.prefix, dev="eth1", metric=5, protocol=4))
        plan = plan_rewrite(None, None, tables, Snapshot(routes=routes), ours=(213,), former=(ROUTE.prefix,))
        assert plan.delete == (TABLE.name,)
        assert [str(it.object) for it in plan.operations] == [
            "nftables table ip6 hostrouting_slb",
            f"route {ROUTE}",
        ]

    def test_a_foreign_table_of_that_name(self) -> None:
        """A table without our comments is not replaced; the message names the remedy."""
        foreign = Table(TABLE.name, (Chain("prerouting", (ADDED,)),))
        plan = plan_rewrite(TABLE, ROUTE, {TABLE.name: foreign}, Snapshot(), ours=(213,))
        assert "set probeRewrite.table to another name" in plan.conflict

    def test_a_table_that_another_process_owns(self) -> None:
        """For a table with an owner, the message says which process can change it."""
        owned = attrs.evolve(changed(1), flags=("owner",))
        assert (
            "owned by another process" in plan_rewrite(TABLE, None, {TABLE.name: owned}, Snapshot(), ours=()).conflict
        )

    def test_an_emptied_table_is_ours(self) -> None:
        """An empty table, as after `nft flush table`, counts as ours."""
        assert is_ours(changed(0, table=changed(1)))


class TestPlanTheRoute:
    """The changes to the route to the global address."""

    def test_each_case(self) -> None:
        """Our route is kept, added, replaced or deleted; another program's equal route is kept; a different one is a conflict."""
        elsewhere = Route.to(ROUTE.prefix, dev="eth1", metric=ROUTE.metric, protocol=213)
        theirs = attrs.evolve(ROUTE, protocol=4)
        assert actions() == ["add"]
        assert actions(ROUTE) == ["keep"]
        assert actions(theirs) == ["keep"]
        assert actions(elsewhere) == ["replace"]
        assert actions(attrs.evolve(elsewhere, protocol=4)) == ["conflict"]
        assert actions(attrs.evolve(ROUTE, metric=5)) == ["add", "delete"]
        assert actions(attrs.evolve(ROUTE, protocol=99), ours=(213, 99)) == ["replace"]
        assert actions(ROUTE, theirs, wanted=None) == ["delete"]
        assert actions(theirs, wanted=None) == []

    def test_other_destinations_are_left_alone(self) -> None:
        """Our routes to other destinations are not changed."""
        other = Route.to(Prefix.parse("2001:db8::/64"), dev="eth0", metric=1024, protocol=213)
        assert actions(other) == ["add"]

    def test_only_with_an_uplink(self) -> None:
        """If no uplink is named, or ensureRoute is false, no route is wanted."""
        assert wanted_route(CONFIG, protocol=213) == ROUTE
        assert wanted_route(ProbeRewriteConfig(), protocol=213) is None
        assert wanted_route(ProbeRewriteConfig(True, ("eth0",), ensure_route=False), protocol=213) is None


# The record of the rewrite's tables and routes that may be in the kernel


ROUTES = st.builds(
    NotedRoute,
    st.integers(0, 2**128 - 1).map(IPv6Address),
    st.sampled_from(["eth0", "a.b-c_d"]),
    st.integers(5, 255),
)
RECORDS = st.builds(
    Record,
    st.lists(st.from_regex("[a-z][a-z0-9_]{0,9}", fullmatch=True), unique=True).map(tuple),
    st.lists(ROUTES, unique=True).map(tuple),
)


@given(RECORDS)
def test_what_is_written_is_read(record: Record) -> None:
    """A record that is written as text is read back the same."""
    assert Record.parse(str(record)) == record


@given(RECORDS, RECORDS)
def test_both(one: Record, other: Record) -> None:
    """A sum contains everything of both records once; adding the same record again changes nothing."""
    both = one + other
    assert set(both.tables) == {*one.tables, *other.tables}
    assert both + other == both


def test_what_is_not_understood_is_left_out() -> None:
    """A truncated or unknown line is skipped, and the others are read."""
    text = "table one\nroute 2001:db8::1 dev\nroute nonsense dev eth0 protocol 213\n\nelse\ntable two\n"
    assert Record.parse(text) == Record(("one", "two"))

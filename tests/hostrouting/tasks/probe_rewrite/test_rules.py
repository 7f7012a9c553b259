"""The plan of a probe rewrite, the record of what was added to the kernel, and the findings about a host."""

from ipaddress import IPv6Address, IPv6Network
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.boot.probe import TABLE, render_probe_table
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.model.prefix import Prefix, as_ip
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Address, Link, Snapshot
from hostrouting.tasks.probe_rewrite.rules import (
    Record,
    RewritePlan,
    Surroundings,
    find_hindrances,
    is_rewritten,
    plan_rewrite,
)

CONFIG = ProbeRewriteConfig(True, ("eth0",))
KNOWN, TEXT = CONFIG.global_address, render_probe_table(CONFIG)
LISTING = 'table ip6 hostrouting_slb {\n\tcomment "hostrouting: probes"\n\tchain a {\n\t\tone\n\t\ttwo\n\t}\n}\n'
RECORD = Record((KNOWN,), TEXT + LISTING)
ROUTE = Route.to(Prefix.of(IPv6Network(KNOWN)), dev="eth0", metric=1024, protocol=213)
ETH0 = Link(name="eth0", index=2)


def plan(
    *routes: Route,
    listing: str | None = LISTING,
    record: Record = RECORD,
    config: ProbeRewriteConfig = CONFIG,
    link: Link | None = ETH0,
    up: bool = True,
) -> RewritePlan:
    """The plan for a host with this listing and these routes."""
    snapshot = Snapshot(links=() if link is None else (link,), routes=routes)
    return plan_rewrite(config, record, listing, snapshot, up=up)


def actions(*routes: Route, **changed: Any) -> list[str]:
    """What the plan does to these routes to the global address."""
    return [step.action for step in plan(*routes, **changed).routes.steps]


@pytest.mark.parametrize(
    ("source", "destination", "iif", "rewritten"),
    [
        ("fe80::1234:5678:9abc", "2001:db8::1", "eth0", True),
        ("fe80::1234:5678:9abc", "2001:db8::1", "eth1", False),
        ("fe80::1", "2001:db8::1", "eth0", False),
        ("fe80::1234:5678:9abc", "fe80::1", "eth0", False),
        ("fe80::1234:5678:9abc", "ff02::1", "eth0", False),
    ],
)
def test_is_rewritten(source: str, destination: str, iif: str, rewritten: bool) -> None:  # noqa: FBT001
    """Only a probe that arrives on an uplink and does not stay on the link is rewritten."""
    told = is_rewritten(CONFIG, source=IPv6Address(source), destination=IPv6Address(destination), iif=iif)
    assert told is rewritten


class TestTable:
    """The changes to the table."""

    def test_nothing_to_do(self) -> None:
        """The table is in force if the record has the wanted text, and nft lists it as it did after the load."""
        assert plan(ROUTE) == RewritePlan(wanted=CONFIG, wanted_text=TEXT, routes=plan(ROUTE).routes)
        assert plan(ROUTE).operations == ()

    @pytest.mark.parametrize(
        ("listing", "loaded", "why"),
        [
            (None, TEXT + LISTING, "it is missing"),
            (LISTING, "", "it is not known how it was loaded"),
            (LISTING, "other" + LISTING, "it was loaded by another configuration"),
            (LISTING.replace("\t\ttwo\n", ""), TEXT + LISTING, "a line of it is missing: two"),
            (LISTING.replace("two", "three"), TEXT + LISTING, "a line was added to it: three"),
            (LISTING.replace("one", "two"), TEXT + LISTING, "a line of it is missing: one"),
            (LISTING.replace("one\n\t\ttwo", "two\n\t\tone"), TEXT + LISTING, "its lines are in another order"),
        ],
    )
    def test_not_in_force(self, listing: str | None, loaded: str, why: str) -> None:
        """Each difference has its own words, and then the text is loaded."""
        found = plan(ROUTE, listing=listing, record=attrs.evolve(RECORD, loaded=loaded))
        assert found.text == TEXT
        assert [(operation.verb, operation.reason) for operation in found.operations] == [
            ("create" if listing is None else "replace", why)
        ]

    @pytest.mark.parametrize("content", ["", "\tflags dormant\n", "\tchain input {\n\t}\n"])
    def test_a_foreign_table(self, content: str) -> None:
        """A table without our comment is not changed, even if nothing is wanted; the message names the remedy."""
        listing = f"table ip6 {TABLE} {{\n{content}}}\n"
        found = plan(ROUTE, listing=listing)
        assert (found.text, found.operations) == ("", ())
        assert "delete it, and stop the program that creates it" in found.foreign
        assert plan(listing=listing, up=False).operations == ()


class TestRoute:
    """The changes to the route to the global address."""

    def test_each_case(self) -> None:
        """Our route is kept, added, replaced or deleted; another program's equal route is kept; a different one is a conflict."""
        elsewhere = Route.to(ROUTE.prefix, dev="eth1", metric=ROUTE.metric, protocol=213)
        theirs = attrs.evolve(ROUTE, protocol=4)
        assert actions() == ["add"]
        assert actions(ROUTE) == actions(theirs) == ["keep"]
        assert actions(elsewhere) == ["replace"]
        assert actions(attrs.evolve(elsewhere, protocol=4)) == ["conflict"]
        assert actions(attrs.evolve(ROUTE, metric=5)) == ["add", "delete"]
        assert actions(ROUTE, theirs, up=False) == ["delete"]
        assert actions(theirs, up=False) == []
        assert actions(ROUTE, config=attrs.evolve(CONFIG, ensure_route=False)) == ["delete"]

    @pytest.mark.parametrize(
        ("link", "severity"),
        [
            (None, "warning"),
            (attrs.evolve(ETH0, up=False), "warning"),
            (attrs.evolve(ETH0, ipv6_disabled=True), "note"),
        ],
    )
    def test_waits(self, link: Link | None, severity: str) -> None:
        """A route waits for its device and hinders nothing else."""
        found = plan(link=link)
        assert (found.operations, found.conflicts) == ((), ())
        assert [finding.severity for finding in found.findings] == [severity]

    def test_the_hosts_own_address(self) -> None:
        """The global address must not be one of the host."""
        snapshot = Snapshot(links=(ETH0,), addresses=(Address(ip=KNOWN, length=128, dev="lo"),))
        found = plan_rewrite(CONFIG, RECORD, LISTING, snapshot, up=True)
        assert "is an address of this host, on lo" in found.conflicts[0]
        assert plan_rewrite(CONFIG, RECORD, LISTING, snapshot, up=False).conflicts == ()


class TestRecord:
    """What may be in the kernel."""

    records = st.builds(
        Record,
        st.lists(st.integers(0, 2**128 - 1).map(IPv6Address), unique=True).map(tuple),
        st.sampled_from(["", TEXT + LISTING]),
    )

    @given(records)
    def test_what_is_written_is_read(self, record: Record) -> None:
        """A record that is written as text is read back the same."""
        assert Record.parse(str(record)) == record

    def test_what_is_not_understood_is_left_out(self) -> None:
        """A truncated or unknown line is skipped, and the others are read; a sum has everything once."""
        text = "nonsense\nroute nonsense\nroute 2001:db8\nroute 2001:db8::5\n\nloaded"
        other = IPv6Address("2001:db8::5")
        assert Record.parse(text) == Record((other,), "loaded")
        assert Record((KNOWN,)) + Record((other, KNOWN)) == Record((KNOWN, other))


ADDRESS = Address(ip=as_ip("2001:db8::5"), length=64, dev="eth0")
WELL: dict[str, Any] = {
    "snapshot": Snapshot(links=(ETH0,), addresses=(ADDRESS,)),
    "settings": {"all.forwarding": 1, "eth0.accept_ra": 2},
    "way_back": ("eth0",),
}


class TestHindrances:
    """What keeps probes from the pods although rules and route are there."""

    def test_none(self) -> None:
        """A host without faults has no hindrances; a fact that is not known is not a hindrance."""
        assert find_hindrances(CONFIG, Surroundings(**WELL)) == ()
        assert find_hindrances(CONFIG, Surroundings(snapshot=WELL["snapshot"])) == ()

    @pytest.mark.parametrize(
        ("changed", "kind", "severity", "words"),
        [
            ({"settings": {"all.forwarding": 0}}, "forwarding-off", "warning", "net.ipv6.conf.all.forwarding is 0"),
            ({"settings": {"all.forwarding": 1, "eth0.accept_ra": 1}}, "accept-ra", "note", "set it to 2"),
            ({"way_back": ()}, "no-way-back", "warning", "has no route"),
            ({"way_back": ("eth1",)}, "no-way-back", "warning", "leaves by eth1"),
            ({"tables": (("ip6", "azureSLBProbe"),)}, "other-table", "note", "table ip6 azureSLBProbe"),
            ({"snapshot": Snapshot(links=(ETH0,)), "way_back": ()}, "no-way-back", "note", "has no route"),
        ],
    )
    def test_each(self, changed: dict[str, Any], kind: str, severity: str, words: str) -> None:
        """Each has a kind and a text; without an IPv6 address no probe is sent here, and it is only a note."""
        [found] = find_hindrances(CONFIG, Surroundings(**{**WELL, **changed}))
        assert (found.facts["kind"], found.severity) == (kind, severity)
        assert words in found.sentence

    def test_one_of_several_links(self) -> None:
        """If none of our routes exists, each device that lacks something is named; the others are examined."""
        config = ProbeRewriteConfig(True, ("eth0", "eth1"), ensure_route=False)
        around = Surroundings(**{**WELL, "way_back": ()})
        found = find_hindrances(config, around)
        assert [(it.facts["kind"], it.target) for it in found] == [("waits", "eth1"), ("no-way-back", str(KNOWN))]
        assert plan(config=config).waits == ""

    @pytest.mark.parametrize(("kind", "expected"), [("vrf", 0), ("bridge", 1), ("bond", 1), ("", 1)])
    def test_what_the_link_is_a_port_of(self, kind: str, expected: int) -> None:
        """For a port of a bridge or bond, packets arrive on the bridge or bond; for a port of a VRF, on the port."""
        links = (attrs.evolve(ETH0, master="top"), Link(name="top", index=3, kind=kind))
        around = Surroundings(**{**WELL, "snapshot": attrs.evolve(WELL["snapshot"], links=links)})
        assert len(find_hindrances(CONFIG, around)) == expected

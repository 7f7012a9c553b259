"""hostrouting.model: the values of a host's routing."""

import json
from collections.abc import Callable
from ipaddress import IPv4Address, ip_network, summarize_address_range
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import assert_type

from hostrouting.errors import HostRoutingError, InputError
from hostrouting.model.prefix import IP, Prefix, as_ip, ip_at, prefixes_between, width_of
from hostrouting.model.route import NextHop, Route
from hostrouting.model.rule import Rule, default_rules
from hostrouting.model.snapshot import Address, Link, Snapshot
from tests.support.examples import scaled
from tests.support.strategies import blocks, prefixes, snapshots
from tests.support.topologies import h200

FAMILIES = st.sampled_from([4, 6])
SMALL = FAMILIES.flatmap(blocks)
LISTS = ("links", "addresses", "rules", "routes")
ANYWHERE = FAMILIES.flatmap(lambda family: prefixes(Prefix(family, 0, 0)))


class TestPrefixesAreArithmetic:
    """A prefix is a family, a first address and a length; `ipaddress` is its oracle."""

    @given(ANYWHERE)
    def test_text_and_back(self, prefix: Prefix) -> None:
        """A prefix can be parsed from its own text and made from `ipaddress`, with the same bounds."""
        network = ip_network(str(prefix))
        assert Prefix.parse(str(prefix)) == Prefix.of(network) == prefix
        assert prefix.to_network() == network
        assert (prefix.first, prefix.last) == (int(network[0]), int(network[-1]))
        assert prefix.ip == network[0] == ip_at(prefix.family, prefix.first)

    @given(SMALL.flatmap(lambda block: st.tuples(prefixes(block, wider=True), prefixes(block, wider=True))))
    def test_containment(self, pair: tuple[Prefix, Prefix]) -> None:
        """One prefix is in another exactly if its first and last addresses are."""
        outer, inner = pair
        ends = [ip_at(inner.family, inner.first), ip_at(inner.family, inner.last)]
        assert (inner in outer) == all(end in outer.to_network() for end in ends)

    @given(ANYWHERE)
    def test_halves(self, prefix: Prefix) -> None:
        """The halves are the `ipaddress` subnets; a single address raises ValueError."""
        if prefix.length == width_of(prefix.family):
            with pytest.raises(ValueError, match="single address"):
                prefix.halves()
        else:
            assert [half.to_network() for half in prefix.halves()] == list(prefix.to_network().subnets())

    @given(FAMILIES, st.integers(0, 300), st.integers(0, 300))
    def test_fewest_blocks(self, family: int, one: int, other: int) -> None:
        """The blocks of a range are exactly its addresses, in order, and as few as `ipaddress` finds."""
        first, last = sorted([one, other])
        found = list(prefixes_between(family, first, last))
        assert [number for block in found for number in range(block.first, block.last + 1)] == list(
            range(first, last + 1)
        )
        assert len(found) == len(list(summarize_address_range(IPv4Address(first), IPv4Address(last))))

    @given(st.lists(ANYWHERE))
    def test_order(self, many: list[Prefix]) -> None:
        """Sorted, a block comes before everything that it contains."""
        ordered = sorted(many)
        for position, prefix in enumerate(ordered):
            assert not any(prefix in later and prefix != later for later in ordered[position:])

    @pytest.mark.parametrize(
        ("family", "network", "length", "words"),
        [
            (5, 0, 0, "not an address family"),
            (4, 0, 33, r"not in 0\.\.32"),
            (4, 0, -1, r"not in 0\.\.32"),
            (6, 0, 129, r"not in 0\.\.128"),
            (4, 1, 31, "not the first address"),
            (4, 2**32, 32, "not the first address"),
            (4, -1, 32, "not the first address"),
        ],
    )
    def test_no_other_prefix_exists(self, family: int, network: int, length: int, words: str) -> None:
        """An invalid prefix cannot be created."""
        with pytest.raises(ValueError, match=words):
            Prefix(family, network, length)

    @pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "ten", ""])
    def test_no_other_text_is_read(self, text: str) -> None:
        """Text with host bits, or that is not a prefix, is refused."""
        with pytest.raises(ValueError, match=r"host bits|does not appear"):
            Prefix.parse(text)


class TestRoutesSpeakLikeIp:
    """Routes and rules print like in `ip`."""

    @pytest.mark.parametrize(
        ("route", "text"),
        [
            (
                Route.to("0.0.0.0/0", dev="eth0", gateway="10.0.0.1", metric=100, protocol=16),
                "default via 10.0.0.1 dev eth0 proto dhcp metric 100",
            ),
            (Route.to("172.16.0.0/16", dev="ib0", protocol=2), "172.16.0.0/16 dev ib0 proto kernel scope link"),
            (Route.to("10.9.0.0/16", type="blackhole", table=100), "blackhole 10.9.0.0/16 table 100 proto unspec"),
            (
                Route.to("10.9.0.0/16", dev="eth0", gateway="fe80::1", protocol=213),
                "10.9.0.0/16 via inet6 fe80::1 dev eth0 proto hostrouting",
            ),
            (
                Route(
                    Prefix.parse("fd00::/8"),
                    (NextHop("a", gateway=as_ip("fe80::1")), NextHop("b", weight=3, dead=True, linkdown=True)),
                    tos=16,
                    protocol=77,
                    mtu=1400,
                    advmss=1300,
                    nexthop_id=9,
                    table=255,
                    scope=7,
                    prefsrc=as_ip("fd00::2"),
                ),
                (
                    "fd00::/8 tos 0x10 table local proto 77 scope 7 src fd00::2 mtu 1400 advmss 1300 nhid 9 "
                    "nexthop via fe80::1 dev a weight 1 nexthop dev b dead linkdown weight 3"
                ),
            ),
        ],
    )
    def test_route(self, route: Route, text: str) -> None:
        """A route prints as in `ip route`."""
        assert str(route) == text

    @pytest.mark.parametrize(
        ("rule", "text"),
        [
            (default_rules(4)[0], "0: from all lookup local"),
            (
                Rule(family=4, priority=9, fwmark=0x200, fwmask=0xF00, table=2004, suppress_prefixlength=0),
                "9: from all fwmark 0x200/0xf00 lookup 2004 suppress_prefixlength 0",
            ),
            (
                Rule(
                    family=4,
                    priority=5,
                    invert=True,
                    src=Prefix.parse("10.0.0.0/8"),
                    dst=Prefix.parse("10.1.0.0/16"),
                    iif="eth0",
                    oif="ib0",
                    tos=16,
                    uids=(1, 2),
                    ipproto=6,
                    sports=(1, 9),
                    dports=(53, 53),
                    action="goto",
                    target=100,
                ),
                (
                    "5: not from 10.0.0.0/8 to 10.1.0.0/16 tos 0x10 iif eth0 oif ib0 uidrange 1-2 ipproto 6 "
                    "sport 1-9 dport 53-53 goto 100"
                ),
            ),
            (
                Rule(family=4, priority=1, action="prohibit", suppress_ifgroup=3),
                "1: from all prohibit suppress_ifgroup 3",
            ),
            (Rule(family=4, priority=1000, l3mdev=True), "1000: from all lookup [l3mdev-table]"),
        ],
    )
    def test_rule(self, rule: Rule, text: str) -> None:
        """A rule prints as in `ip rule`."""
        assert str(rule) == text


class TestSnapshotIsAValue:
    """A snapshot survives JSON unchanged; a change returns a new one."""

    @given(SMALL.flatmap(snapshots))
    def test_json_there_and_back(self, snapshot: Snapshot) -> None:
        """from_json(to_json(x)) == x."""
        assert Snapshot.from_json(snapshot.to_json()) == snapshot
        assert json.loads(snapshot.to_json())["schema"] == "hostrouting/snapshot/1"

    @pytest.mark.parametrize("cls", [Link, Address, Rule, NextHop, Route])
    def test_no_field_is_forgotten(self, cls: type) -> None:
        """Every field of every value survives JSON, and takes part in equality."""
        samples: dict[object, object] = {
            int: 7,
            str: "x",
            bool: True,
            Prefix: Prefix.parse("10.0.0.0/8"),
            IP: as_ip("10.0.0.1"),
            int | None: 8,
            str | None: "y",
            bool | None: True,
            Prefix | None: Prefix.parse("fd00::/8"),
            IP | None: as_ip("fe80::1"),
            tuple[int, int] | None: (3, 4),
            tuple[tuple[str, str], ...]: (("tun_id", "5"),),
            tuple[NextHop, ...]: (NextHop("z", weight=2),),
            tuple[str, ...]: ("expires",),
        }
        fields = attrs.fields(cls)
        full: dict[str, Any] = {field.name: samples.get(field.type) for field in fields}
        full |= (
            {"action": "goto", "family": 6, "src": Prefix.parse("fd00::/8")}
            if cls is Rule
            else {"type": "throw", "preference": "high"}
            if cls is Route
            else {}
        )
        bare = cls(**{field.name: full[field.name] for field in fields if field.default is attrs.NOTHING})
        home = {Link: "links", Address: "addresses", Rule: "rules", Route: "routes"}.get(cls)
        for field in fields:
            if field.default is attrs.NOTHING:
                continue
            value = not field.default if field.type is bool else full[field.name]
            aim = {"target": 8} if value == "goto" else {}
            other = attrs.evolve(bare, **{field.name: value}, **aim)
            assert other != bare, field.name
            held: dict[str, Any] = {home or "routes": (other if home else Route(Prefix(4, 0, 0), (other,)),)}
            whole = Snapshot(**held)
            assert Snapshot.from_json(whole.to_json(indent=1)) == whole, field.name

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "this is not JSON"),
            ("[" * 100_000, "nested too deep"),
            ("[]", "schema: must be 'hostrouting/snapshot/1'"),
            ('{"schema": "hostrouting/snapshot/2"}', "schema: must be"),
            ('{"links": 5}', "links: must be a list of any number of items"),
            ('{"links": [5]}', r"links\[0\]: must be an object"),
            ('{"links": [{"name": "a"}]}', r"links\[0\]\.index: missing"),
            ('{"links": [{"name": "a", "index": true}]}', r"links\[0\]\.index: True is not allowed here"),
            ('{"addresses": null}', "addresses: must be a list"),
            ('{"routes": [{"prefix": "10.0.0.1/8"}]}', r"routes\[0\]\.prefix: 10\.0\.0\.1/8 has host bits"),
            ('{"routes": [{"prefix": 10}]}', r"routes\[0\]\.prefix: 10 is not a string"),
            ('{"routes": [{"prefix": "::/0", "type": []}]}', r"routes\[0\]\.type: \[\] is not allowed here"),
            ('{"routes": [{"prefix": "::/0", "type": "odd"}]}', r"routes\[0\]\.type: 'odd' is not allowed here"),
            ('{"routes": [{"prefix": "::/0", "prefsrc": "x"}]}', r"routes\[0\]\.prefsrc: 'x' does not"),
            ('{"rules": [{"family": 4, "priority": 1, "uids": [1]}]}', r"rules\[0\]\.uids: must be a list of 2"),
            (
                '{"rules": [{"family": 7, "priority": 1}]}',
                r"rules\[0\]\.family: 7 is not an address family: use 4 or 6",
            ),
            (
                '{"rules": [{"family": 4, "priority": 1, "dst": "fd00::/8"}]}',
                r"rules\[0\]\.dst: fd00::/8 in a rule of IPv4",
            ),
            ('{"family": 7}', "family: 7 is not an address family: use 4 or 6"),
            ('{"rules": [{"family": 4, "priority": 1, "uids": [9, 3]}]}', r"rules\[0\]\.uids: 9-3 is not a range"),
            ('{"rules": [{"family": 4, "priority": 1, "action": "goto"}]}', r"rules\[0\]\.target: missing"),
            ('{"rules": [{"family": 4, "priority": 1, "tos": 999}]}', r"rules\[0\]\.tos: 999 is not in 0\.\.255"),
            (
                '{"routes": [{"prefix": "::/0", "legs": [{"dev": "a", "weight": 257}]}]}',
                r"routes\[0\]\.legs\[0\]\.weight: 257 is not in 0\.\.256",
            ),
            (
                '{"routes": [{"prefix": "::/0", "legs": [{"dev": "a", "gateway": "fe80::1%\\u001b]0;x"}]}]}',
                r"routes\[0\]\.legs\[0\]\.gateway: 'fe80::1%\\x1b\]0;x' has a zone",
            ),
            (
                '{"routes": [{"prefix": "::/0", "prefsrc": "fe80::1%x"}]}',
                r"routes\[0\]\.prefsrc: 'fe80::1%x' has a zone",
            ),
            ('{"routes": [{"prefix": "::/0", "metric": -1}]}', r"routes\[0\]\.metric: -1 is not in 0\.\.4294967295"),
            ('{"routes": [{"prefix": "::/0", "table": 4294967296}]}', r"routes\[0\]\.table: 4294967296 is not in"),
            (f'{{"links": [{{"name": "{"a" * 129}", "index": 1}}]}}', r"links\[0\]\.name: 'aaa.*… has more than 128"),
            ('{"routes": [{"prefix": "\\u001b[2J"}]}', r"routes\[0\]\.prefix: '\\x1b\[2J' does not appear to be"),
            (
                '{"links": [{"name": "ib\\ud800", "index": 1}]}',
                r"links\[0\]\.name: 'ib\\ud800' has half of a surrogate pair",
            ),
            (
                '{"links": [{"name": "ib0", "index": 1, "kind": "\\udfff"}]}',
                r"links\[0\]\.kind: '\\udfff' has half of a surrogate pair",
            ),
        ],
    )
    def test_faults_have_a_place(self, text: str, words: str) -> None:
        """JSON that is not a snapshot is refused, with the path and the reason."""
        if text.startswith('{"') and "schema" not in text:
            given = json.loads(text)
            text = json.dumps({**{key: [] for key in LISTS}, **given, "schema": "hostrouting/snapshot/1"})
        with pytest.raises(InputError, match=words) as caught:
            Snapshot.from_json(text)
        assert isinstance(caught.value, HostRoutingError)

    @pytest.mark.parametrize("name", LISTS)
    def test_each_list_is_required(self, name: str) -> None:
        """A document without one of the four lists is refused, because a host without rules is another host.

        Kills: writing an empty list as an absent key, and reading an absent key as an empty list.
        """
        document = json.loads(Snapshot().to_json())
        assert document.pop(name) == []
        with pytest.raises(InputError, match=f"{name}: missing"):
            Snapshot.from_json(json.dumps(document))

    def test_a_newer_version_may_have_added_keys(self) -> None:
        """Unknown keys are skipped at every depth, each is named once, and the names survive a round trip.

        Kills: skipping without a trace, and forgetting it when the snapshot is saved again.
        """
        document = json.loads(h200().to_json())
        document["colour"] = 1
        for route in document["routes"]:
            route["ticks"] = 1400
            for leg in route.get("legs", ()):
                leg["\x1b[31m"] = {}
        document["links"][0]["new"] = None
        read = Snapshot.from_json(json.dumps(document))
        skipped = ("'\\x1b[31m' in a NextHop", "colour in a Snapshot", "new in a Link", "ticks in a Route")
        assert read.skipped == skipped
        assert attrs.evolve(read, skipped=()) == h200()
        assert Snapshot.from_json(read.to_json()) == read

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(
                    st.sampled_from(["links", "routes", "prefix", "name", "index", "legs", "family", "x"]), inner
                )
            ),
        )
    )
    def test_any_json_at_all(self, value: object) -> None:
        """Any JSON gives a snapshot or an InputError, never another exception."""
        document = {**json.loads(Snapshot().to_json()), **value} if isinstance(value, dict) else value
        problem = "none"
        try:
            assert_type(Snapshot.from_json(json.dumps(document)), Snapshot)
        except InputError as error:
            problem = error.problem
        assert problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"schema": "hostrouting/snapshot/1", "\\u001b[31m": 1, "\\u001b[31m": 1}',
            "snapshot: '\\x1b[31m': this key is given",
        ),
        ('{"schema": "hostrouting/snapshot/1", "links": [], "links": []}', "snapshot: links: this key is given"),
        (None, "snapshot: must be a string"),
    ],
)
def test_hostile_text(text: str, words: str) -> None:
    """A key given twice is refused, and shown with control characters escaped; so is what is not text."""
    with pytest.raises(InputError) as caught:
        Snapshot.from_json(text)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("make", [as_ip, Prefix.parse, lambda text: Prefix.of(as_ip(text))])
def test_no_address_has_a_zone(make: Callable[[str], object]) -> None:
    """A zone names a device, for which routes have a separate field; it is refused, not silently dropped."""
    with pytest.raises(ValueError, match=r"'fe80::1%eth0' has a zone"):
        make("fe80::1%eth0")


class TestReprs:
    """repr() looks like the output of `ip`, and different values look different."""

    def test_in_the_words_of_ip(self) -> None:
        """An integer is not a network."""
        leg = NextHop("eth0", gateway=as_ip("10.0.0.1"), weight=3)
        route = Route(Prefix.parse("172.16.0.0/16"), (leg,), protocol=213)
        assert repr(route) == "<Route 172.16.0.0/16 via 10.0.0.1 dev eth0 proto hostrouting weight 3>"
        assert repr([route.prefix, leg]) == "[<Prefix 172.16.0.0/16>, <NextHop via 10.0.0.1 dev eth0 weight 3>]"
        assert [repr(rule) for rule in (*default_rules(4), *default_rules(6))][::3] == [
            "<Rule 0: from all lookup local proto kernel>",
            "<Rule of IPv6, 0: from all lookup local proto kernel>",
        ]
        assert repr(Route.to("::/0", dev="eth0")) == "<Route ::/0 dev eth0 proto unspec>"

    @given(snapshots(Prefix.parse("172.16.0.0/16")))
    @settings(max_examples=scaled(50))
    def test_what_differs_looks_different(self, snapshot: Snapshot) -> None:
        """Two values that are not equal have different texts, and none is longer than two lines."""
        for values in (
            set(snapshot.routes),
            set(snapshot.rules),
            {leg for route in snapshot.routes for leg in route.legs},
        ):
            texts = {repr(value) for value in values}
            assert len(texts) == len(values)
            assert max(map(len, texts), default=0) < 240

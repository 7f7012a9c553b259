"""What NetlinkBackend reads and requests by hand, against pyroute2 on the same bytes."""

import struct
import sys
from functools import partial

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.kernel._fib.packet import Flow
from hostrouting.kernel._rule import FullRule
from hostrouting.kernel.netlink import numbers as n
from hostrouting.kernel.netlink.channel import attributes_of, numbered
from hostrouting.kernel.netlink.lookup import encode_lookup
from hostrouting.kernel.netlink.read import (
    Settings,
    _ask_list,
    _read_device,
    decode_selectors,
    read_addresses,
    read_links,
    read_rules,
    read_settings,
)
from hostrouting.model.prefix import ip_at
from hostrouting.model.rule import Rule
from hostrouting.testing.strategies import DEVICES
from tests.support.namespace import Namespace
from tests.support.pyroute2messages import Shape, address_of, encode, link_of, rule_of, setting_of

RTM_NEWLINK, RTM_NEWADDR, RTM_NEWRULE, RTM_NEWNETCONF = 16, 20, 32, 80
WORDS = st.sampled_from([0, 1, 7, 255, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF])
NAMES = st.sampled_from([*DEVICES, "lo", "a-name.of_15-by"])


def attributes(**said: st.SearchStrategy[object]) -> st.SearchStrategy[list[tuple[str, object]]]:
    """Any of these attributes, in any order."""
    return st.fixed_dictionaries({}, optional=said).flatmap(lambda chosen: st.permutations(list(chosen.items())))


def addresses_of(family: int) -> st.SearchStrategy[str]:
    """Addresses, as text."""
    return st.integers(1, 2**32 - 1).map(lambda number: str(ip_at(family, number)))


class TestReading:
    """Both read the same from a message."""

    @given(
        said=attributes(
            IFLA_MASTER=st.sampled_from([2, 3, 99]),
            IFLA_GROUP=WORDS,
            IFLA_CARRIER=st.integers(0, 1),
            IFLA_MTU=WORDS,
            IFLA_LINKINFO=st.sampled_from(["veth", "bridge", "vrf"]).map(
                lambda kind: {"attrs": [("IFLA_INFO_KIND", kind)]}
            ),
        ),
        fields=st.fixed_dictionaries({"ifi_type": st.sampled_from([1, 32, 772, 65534]), "flags": WORDS}),
        name=NAMES,
    )
    def test_of_a_device(self, said: list[tuple[str, object]], fields: dict[str, int], name: str) -> None:
        """For any attributes, in any order."""
        messages = [
            encode("link", RTM_NEWLINK, fields={"index": 3}, attributes=[("IFLA_IFNAME", "master")]),
            encode("link", RTM_NEWLINK, fields={"index": 2, **fields}, attributes=[*said, ("IFLA_IFNAME", name)]),
        ]
        names = {2: name, 3: "master"}
        assert read_links(messages, Settings()) == tuple(link_of(data, names) for data in messages)
        assert [_read_device(data) for data in messages] == [(3, "master"), (2, name)]

    @given(family=st.sampled_from([4, 6]), data=st.data())
    def test_of_an_address(self, family: int, data: st.DataObject) -> None:
        """With and without a peer, a broadcast address, a label, flags and a metric."""
        text = addresses_of(family)
        said = data.draw(
            attributes(
                IFA_LOCAL=text, IFA_BROADCAST=text, IFA_LABEL=NAMES, IFA_FLAGS=WORDS, IFA_RT_PRIORITY=WORDS
            ).flatmap(lambda said: text.map(lambda address: [*said, ("IFA_ADDRESS", address)]))
        )
        fields = {"family": n.AF_OF[family], "prefixlen": data.draw(st.integers(0, 32)), "index": 2, "scope": 253}
        message = encode("address", RTM_NEWADDR, fields=fields, attributes=said)
        assert read_addresses([message], {2: "eth0"}) == (address_of(message, {2: "eth0"}),)

    @given(family=st.sampled_from([4, 6]), data=st.data())
    def test_of_a_rule(self, family: int, data: st.DataObject) -> None:
        """A rule with any action and selector that pyroute2 knows."""
        text, bits = addresses_of(family), st.integers(0, 32)
        said = data.draw(
            attributes(
                FRA_DST=text, FRA_SRC=text, FRA_IIFNAME=NAMES, FRA_OIFNAME=NAMES, FRA_GOTO=WORDS, FRA_PRIORITY=WORDS,
                FRA_FWMARK=WORDS, FRA_FWMASK=WORDS, FRA_TABLE=WORDS, FRA_L3MDEV=st.integers(0, 1),
                FRA_SUPPRESS_IFGROUP=WORDS, FRA_SUPPRESS_PREFIXLEN=WORDS, FRA_UID_RANGE=st.just("0:4294967295"),
                FRA_IP_PROTO=st.integers(0, 255), FRA_SPORT_RANGE=st.just("1:65535"), FRA_FLOW=WORDS,
                FRA_DPORT_RANGE=st.just("53:53"), FRA_PROTOCOL=st.integers(0, 255),
            )
        )  # fmt: skip
        fields = {
            "family": n.AF_OF[family], "dst_len": data.draw(bits), "src_len": data.draw(bits), "tos": 0x10,
            "table": data.draw(st.integers(0, 255)), "action": data.draw(st.integers(0, 9)),
            "flags": data.draw(st.integers(0, 3)),
        }  # fmt: skip
        message = encode("rule", RTM_NEWRULE, fields=fields, attributes=said)
        assert read_rules([message]) == (rule_of(message),)
        header = {"family": family, "src": fields["src_len"], "dst": fields["dst_len"], "tos": fields["tos"]}
        selectors = decode_selectors(attributes_of(message, 28), header)
        assert attrs.evolve(FullRule.of(rule_of(message)), **selectors).rule == rule_of(message)

    def test_of_rules_of_newer_kernels(self) -> None:
        """A rule with a full DSCP selects on all six bits."""
        said = [("FRA_PRIORITY", 5), ("FRA_TABLE", 100), ("FRA_DSCP", 10)]
        dscp = encode("rule", RTM_NEWRULE, fields={"family": 2, "action": 1}, attributes=said)
        assert read_rules([dscp]) == (Rule(family=4, priority=5, table=100, others=(("dscp", "0xa"),)),)

    def test_of_rules_of_the_future(self) -> None:
        """A rule with an unknown selector does not match all packets: it names the attribute."""
        known = encode("rule", RTM_NEWRULE, fields={"family": 2, "action": 1}, attributes=[("FRA_TABLE", 100)])
        future = struct.pack("=HHI", 8, 77, 5) + struct.pack("=HH", 4, 78 | 0x8000)
        data = struct.pack("=I", len(known) + len(future)) + known[4:] + future
        others = (("attribute-77", future[4:8].hex()), ("attribute-78", "set"))
        assert read_rules([data]) == (Rule(family=4, priority=0, table=100, others=others),)
        assert "attribute-78 set" in str(read_rules([data])[0])

    @given(
        said=attributes(NETCONFA_IGNORE_ROUTES_WITH_LINKDOWN=st.integers(0, 1), NETCONFA_FORWARDING=st.integers(0, 1))
    )
    def test_of_settings(self, said: list[tuple[str, object]]) -> None:
        """The settings of "all"."""
        whose = ("NETCONFA_IFINDEX", -1)
        message = encode("netconf", RTM_NEWNETCONF, fields={"family": 2}, attributes=[whose, *said])
        assert read_settings(message) == setting_of(message)

    @given(data=st.binary(max_size=40))
    def test_nothing_is_read_for_ever(self, data: bytes) -> None:
        """Bytes that are not attributes do not cause an endless loop."""
        attributes_of(data, 0)


class TestAsking:
    """A request equals pyroute2's."""

    @given(family=st.sampled_from([4, 6]), data=st.data())
    def test_what_becomes_of_a_packet(self, family: int, data: st.DataObject) -> None:
        """For any flow."""
        number, dev = st.sampled_from([None, 0, 1, 255]), st.sampled_from([None, "", *DEVICES])
        flow = data.draw(
            st.builds(Flow, mark=number, tos=number, uid=number, ipproto=number, sport=number, dport=number, oif=dev)
        )
        source = data.draw(st.none() | st.integers(0, 2**32 - 1).map(partial(ip_at, family)))
        flow = attrs.evolve(flow, source=source, iif=data.draw(dev | st.just("lo")))
        destination, entry = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(0, 1))
        bits = 32 if family == 4 else 128
        fields = {
            "family": n.AF_OF[family],
            "dst_len": bits,
            "src_len": bits if source is not None and int(source) else 0,
            "tos": flow.tos or 0,
            "flags": 0x2000 * entry | (0x1000 if family == 4 else 0),
        }
        said = {
            "DST": str(ip_at(family, destination)),
            "SRC": str(source) if source is not None and int(source) else None,
            "IIF": flow.iif and flow.iif != "lo" and 300 + DEVICES.index(flow.iif),
            "OIF": flow.oif and 300 + DEVICES.index(flow.oif),
            "MARK": flow.mark or None,
            "IP_PROTO": 17 if flow.ipproto is None else flow.ipproto or None,
            "SPORT": flow.sport or None,
            "DPORT": flow.dport or None,
        }
        words = [(f"RTA_{name}", value) for name, value in said.items() if value]
        if flow.uid is not None or flow.iif in {None, "lo"}:
            place = [name for name, _ in words if name in {"RTA_DST", "RTA_SRC", "RTA_IIF", "RTA_OIF", "RTA_MARK"}]
            words.insert(len(place), ("RTA_UID", flow.uid or 0))
        asked = encode_lookup(family, flow, lambda name: 300 + DEVICES.index(name), entry=entry, dst=destination)
        assert asked == encode("route", n.RTM_GETROUTE, n.NLM_F_REQUEST, fields=fields, attributes=words)

    @pytest.mark.parametrize("shape", ["link", "rule", "route"])
    def test_for_a_list(self, shape: Shape) -> None:
        """All that there is of a kind."""
        kind = {"link": n.RTM_GETLINK, "rule": n.RTM_GETRULE, "route": n.RTM_GETROUTE}[shape]
        said = [("IFLA_EXT_MASK", 8)] if shape == "link" else []  # without statistics
        asked = encode(shape, kind, n.NLM_F_REQUEST | n.NLM_F_DUMP, fields={"family": 10}, attributes=said)
        assert _ask_list(kind, 10) == asked
        assert numbered(asked, 0x01020304)[8:12] == struct.pack("=I", 0x01020304)

    @given(table=st.integers(1, 2**32 - 1), protocol=st.integers(0, 255))
    def test_for_some_routes(self, table: int, protocol: int) -> None:
        """The routes of a table and a protocol."""
        fields, said = {"family": 2, "proto": protocol}, [("RTA_TABLE", table)]
        flags = n.NLM_F_REQUEST | n.NLM_F_DUMP
        assert _ask_list(n.RTM_GETROUTE, 2, table, protocol) == encode(
            "route", n.RTM_GETROUTE, flags, fields=fields, attributes=said
        )


@pytest.mark.linux
@pytest.mark.needs("root")
class TestOfAKernel:
    """Both read the same from what a kernel lists."""

    def test_reading_loads_no_pyroute2(self, namespace: Namespace) -> None:
        """Programs that only read and look up never load pyroute2."""
        code = (
            "import sys, hostrouting.kernel.netlink as it\n"
            "from hostrouting.model.prefix import as_ip\n"
            "with it.NetlinkBackend() as backend:\n"
            "    assert len(backend.snapshot().links) > 4 and backend.lookup([as_ip('10.0.0.9')])[0].route\n"
            "assert not [name for name in sys.modules if name.split('.')[0] in {'pyroute2', 'asyncio'}]\n"
        )
        done = namespace.run(sys.executable, "-W", "error", "-c", code)
        assert (done.returncode, done.stderr) == (0, "")

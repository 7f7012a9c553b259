"""The section `probeRewrite`: the allowed values, rules about several values, and the message for each fault."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.config import HostRoutingConfig, ImdsConfig, OnUnknown, ProbeCondition, ProbeRewriteConfig
from hostrouting.errors import ConfigError

ENABLED: dict[str, Any] = {"enabled": True, "interfaces": ["eth0"]}
TABLE = 'write a name such as "hostrouting_slb"'
TABLE_RULE = "is not a table name: use 2 to 64 lower-case letters, digits and '_', a letter first and at least one '_'"
PRIORITY = "write an integer from -399 to -201: after defragmentation, before connection tracking"
ADDRESS = 'write an IPv6 address such as "fe80::1234:5678:9abc", without a prefix length'
LINK_LOCAL = (
    "is not a link-local address: it must be in fe80::/10; write the source address of the load balancer's probes"
)
GLOBAL = (
    "is not a global unicast address: it must be in 2000::/3; "
    'write an address that no host has, such as "2603:1062:0:1:fe80:1234:5678:9abc"'
)
TIMEOUT = "write the seconds as a number above 0 and at most 60"
URL = (
    'is not a URL for metadata; write a URL such as "http://169.254.169.254/metadata/instance/network'
    '?api-version=2021-02-01": http, an IP address, and no user name'
)


def faults(**section: object) -> list[str]:
    """Every fault of a configuration with this section."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping({"probeRewrite": section})
    return [str(fault) for fault in caught.value.faults]


def test_the_defaults() -> None:
    """Without the section nothing is rewritten, and the defaults are those of Azure's load balancer."""
    section = HostRoutingConfig.from_json("{}").probe_rewrite
    assert section == ProbeRewriteConfig()
    assert attrs.asdict(section, recurse=False) == {
        "enabled": False,
        "interfaces": (),
        "link_local": IPv6Address("fe80::1234:5678:9abc"),
        "global_address": IPv6Address("2603:1062:0:1:fe80:1234:5678:9abc"),
        "table": "hostrouting_slb",
        "priority": -300,
        "ensure_route": True,
        "condition": ProbeCondition.LOCAL_IPV6,
        "imds": ImdsConfig(),
    }
    assert ImdsConfig() == ImdsConfig(
        "http://169.254.169.254/metadata/instance/network?api-version=2021-02-01", 2.0, 5, "fail"
    )


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("enabled", 1, ": 1 is not true or false; write true or false, without quotes"),
        ("interfaces", "eth0", ': "eth0" is not a list; write [...], even around a single item'),
        (
            "interfaces",
            ["eth*"],
            (
                "[0]: \"eth*\" is not a device name: use only letters, digits, '_', '.' and '-'; "
                "write the name as `ip link` shows it, without '@' and what follows"
            ),
        ),
        ("interfaces", ["lo"], '[0]: "lo" is the loopback device, where no probe arrives; name the uplink'),
        ("linkLocal", "fec0::1", f': "fec0::1" {LINK_LOCAL}'),
        ("linkLocal", "169.254.0.1", f': "169.254.0.1" is not an IPv6 address; {ADDRESS}'),
        ("linkLocal", "fe80::1/64", f': "fe80::1/64" has a prefix length, but must be a single address; {ADDRESS}'),
        ("linkLocal", 1, f": 1 is not a string; {ADDRESS}"),
        (
            "linkLocal",
            "fe80::1%eth0",
            ': "fe80::1%eth0" has a zone, but the device is a separate setting; write "fe80::1"',
        ),
        *[
            ("globalAddress", value, f': "{value}" {GLOBAL}')
            for value in ("fe80::1", "ff02::1", "fd00::1", "::1", "::", "::ffff:10.0.0.1")
        ],
        *[("table", value, f': "{value}" {TABLE_RULE}; {TABLE}') for value in ("", "1a", "Probes", "a-b")],
        ("table", "a" * 65, f': "{"a" * 60}"... (65 characters) {TABLE_RULE}; {TABLE}'),
        (
            "table",
            "my_azureslbprobe2",
            (
                ': "my_azureslbprobe2" contains azureslbprobe, and another agent on Azure deletes every table with '
                f"that in its name; {TABLE}"
            ),
        ),
        *[("priority", value, f": {value} is out of range; {PRIORITY}") for value in (-400, -200, 0)],
        ("priority", -300.0, f": -300.0 is not an integer; {PRIORITY}"),
        ("ensureRoute", "no", ': "no" is not true or false; write true or false, without quotes'),
        ("condition", "Always", ': "Always" is not a condition; write "always", "local-ipv6" or "imds"'),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_value_refused(key: str, value: object, said: str) -> None:
    """Each value that breaks its rule is one fault, with the rule and the remedy."""
    assert faults(**(ENABLED | {key: value})) == [f"probeRewrite.{key}{said}"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        *[
            ("url", value, f'"{value}" {URL}')
            for value in (
                "https://169.254.169.254/",
                "http://user@169.254.169.254/",
                "http://metadata/",
                "http://169.254.169.256/",
                "http://169.254.169.254:0/",
                "http://169.254.169.254:65536/",
                "http://fd00::1/",
                "http://[fd00::g]/",
                "http://[10.0.0.1]/",
                "http://10.0.0.1/a b",
                "http://10.0.0.1/#a",
                "file:///etc/passwd",
                "",
            )
        ],
        ("url", "http://10.0.0.1/\n", f'"http://10.0.0.1/\\n" {URL}'),
        ("timeout", 0, f"0 is out of range; {TIMEOUT}"),
        ("timeout", 60.5, f"60.5 is out of range; {TIMEOUT}"),
        ("timeout", float("nan"), f"NaN is out of range; {TIMEOUT}"),
        ("timeout", True, f"true is not a number; {TIMEOUT}"),
        ("timeout", "2s", f'"2s" is not a number; {TIMEOUT}'),
        ("retries", -1, "-1 is out of range; write an integer from 0 to 100"),
        ("onUnknown", "ignore", '"ignore" is not an allowed value; write "fail", "apply" or "skip"'),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_imds_refused(key: str, value: object, said: str) -> None:
    """The metadata service is asked over http, at an address, within bounds."""
    assert faults(imds={key: value}) == [f"probeRewrite.imds.{key}: {said}"]


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254", "http://127.0.0.1:8080/a?b=c&d", "http://[fd00::1]:80/%20", "http://[::1]?x"]
)
def test_imds_url_accepted(url: str) -> None:
    """Any other address may be asked, at any port and path."""
    assert ImdsConfig(url).url == url


def test_words_become_members() -> None:
    """The words in the JSON become enum values."""
    section = ProbeRewriteConfig(condition="imds", imds={"onUnknown": "apply"})
    assert section.condition is ProbeCondition.IMDS
    assert section.imds.on_unknown is OnUnknown.APPLY


@given(st.text(max_size=17) | st.text("ab0_A-", max_size=70))
def test_table_is_what_the_pattern_says(text: str) -> None:
    """A table name is accepted exactly if the pattern of the specification matches it."""
    try:
        assert ProbeRewriteConfig(table=text).table == text
    except ConfigError:
        assert not re.fullmatch(r"(?=.*_)[a-z][a-z0-9_]{0,63}", text)
    else:
        assert re.fullmatch(r"(?=.*_)[a-z][a-z0-9_]{0,63}", text)


def test_enabled_needs_an_interface() -> None:
    """An enabled rewrite without an uplink is a fault."""
    remedy = 'name the uplink that probes arrive on, such as ["eth0"]'
    said = [f"probeRewrite.interfaces: no interface is given but enabled=true; {remedy}"]
    assert faults(enabled=True) == faults(enabled=True, interfaces=[]) == said


@pytest.mark.parametrize("switch", [{"enabled": False}, {}])
def test_interfaces_need_the_switch(switch: dict[str, object]) -> None:
    """Interfaces without enabled=true are a fault; other settings without it are accepted."""
    said = "interfaces were provided but enabled=false; set enabled=true to rewrite the source of probes"
    assert faults(interfaces=["eth0"], **switch) == [f"probeRewrite.enabled: {said}"]
    waiting = ProbeRewriteConfig(table="my_probes", ensure_route=False, condition="always", imds={"retries": 1})
    assert (waiting.enabled, waiting.table, waiting.imds.retries) == (False, "my_probes", 1)


def test_an_interface_given_twice() -> None:
    """An interface given twice is a fault that names the first one."""
    assert faults(enabled=True, interfaces=["eth0", "eth1", "eth0"], ensureRoute=False) == [
        'probeRewrite.interfaces[2]: "eth0" is already given in probeRewrite.interfaces[0]; remove one of the two'
    ]


def test_a_route_needs_exactly_one_interface() -> None:
    """With several uplinks the device for the route is unknown, so this is a fault unless ensureRoute is false."""
    remedy = "name the one that probes arrive on, or set ensureRoute=false and add the route yourself"
    said = [f"probeRewrite.ensureRoute: true requires exactly one interface, but 2 are given; {remedy}"]
    both: dict[str, object] = {"enabled": True, "interfaces": ["eth0", "eth1"]}
    assert faults(**both) == faults(**both, ensureRoute=True) == said
    assert ProbeRewriteConfig(enabled=True, interfaces=("eth0", "eth1"), ensure_route=False).interfaces == (
        "eth0",
        "eth1",
    )


def test_a_faulty_value_is_its_only_fault() -> None:
    """A value with a fault causes no further faults."""
    assert len(faults(enabled="true", interfaces=["eth0"])) == 1
    assert len(faults(enabled=True, interfaces=["eth;"])) == 1
    assert len(faults(**ENABLED, ensureRoute=2)) == 1


def test_all_faults_at_once() -> None:
    """One reading finds every fault of the section, at every depth, and those of other sections."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig(
            probe_rewrite={
                "interfaces": ["lo", "eth0"],
                "linkLocal": "::1",
                "globalAddress": "fe80::1",
                "table": "9",
                "priority": 1,
                "condition": "",
                "imds": {"url": "x", "timeout": -1, "retries": None, "onUnknown": "", "onUnknwon": ""},
            },
            protocol=2,
        )
    assert [fault.path.removeprefix("probeRewrite.") for fault in caught.value.faults] == [
        "protocol",
        "interfaces[0]",
        "linkLocal",
        "globalAddress",
        "table",
        "priority",
        "condition",
        "imds.url",
        "imds.timeout",
        "imds.retries",
        "imds.onUnknown",
        "imds.onUnknwon",
        "enabled",
    ]

"""The configuration: documents, keys and paths, single values, and rules about several."""

import copy
import json
import math
import pickle
import re
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from hostrouting.config import (
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoute,
    settings,
)
from hostrouting.config.settings import StaticRoutesConfig, gated_units
from hostrouting.errors import ConfigError
from hostrouting.host.layout import HostLayout
from tests.support.ip_text import text_rows
from tests.support.sections import expect, static

ROUTES = {"staticRoutes": {"enabled": True, "routes": [{"destination": "10.0.0.0/8"}]}}


def faults(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    return [str(fault) for fault in caught.value.faults]


def test_the_json_of_the_original() -> None:
    """The original's configuration is read, key by key, into typed values."""
    config = HostRoutingConfig.from_json("""{
        "staticRoutes": {"enabled": true, "routes": [
            {"destination": "172.16.0.0/17", "gateway": "10.0.0.1", "dev": "eth0", "metric": 50},
            {"destination": "172.16.128.0/17", "gateway": "", "dev": "", "metric": 0}
        ]},
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "strict"}
    }""")
    routes = (
        StaticRoute(IPv4Network("172.16.0.0/17"), IPv4Address("10.0.0.1"), "eth0", 50),
        StaticRoute(IPv4Network("172.16.128.0/17")),
    )
    assert str(routes[0]) == "172.16.0.0/17 via 10.0.0.1 dev eth0 metric 50"
    overlap = RouteOverlapConfig((IPv4Network("172.16.0.0/16"),), "STRICT")
    assert config == HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes), overlap)


def test_keys_that_are_given_twice() -> None:
    """Each is a fault with its path, beside all other faults."""
    text = """{"routeOverlap": {"mode": "WARN", "mode": "STRICT"}, "guards": {},
        "guard": {}, "guard": {}, "unknown": 1, "unknown": 2}"""
    assert [fault.partition(";")[0] for fault in faults(text)] == [
        "routeOverlap.mode: given more than once",
        "guards: unknown key",
        "guard: given more than once",
        "unknown: given more than once",
        "unknown: unknown key",
    ]
    assert "is not JSON: " in faults("[" * 100_000)[0], "too deep"
    agents = '{"agent": {"x": 1, "x": 1}, "agent": 1, "hostRouting": {}%s}'
    assert HostRoutingConfig.from_json(agents % "") == HostRoutingConfig()
    assert faults(agents % ', "hostRouting": {}') == ["hostRouting: given more than once"]


def test_an_agents_file() -> None:
    """It has our key, or it would silently configure nothing; no section is beside the key."""
    _, _, last = faults('{"agent": {"listen": ":80"}, "static": {}}')
    assert last == "hostRouting: missing; an agent's own file has the configuration under this key"
    known = faults('{"agent": {"listen": ":80"}, "guard": {}}')
    assert [fault.partition(":")[0] for fault in known] == ["agent"]
    text = """{"hostRouting": {}, "staticRoutes": {}, "manageForeign": 1,
        "gate": {"units": ["kubelet.service"]}, "guard": {"enabled": true, "own": 1}}"""
    rule = "is beside hostRouting, where it would be ignored; move it into hostRouting"
    assert faults(text) == [f"staticRoutes {rule}", f"manageForeign {rule}"]


@pytest.mark.parametrize("key", ["route_overlap", "ROUTEOVERLAP", "staticRoute"])
def test_a_misspelt_key_alone(key: str) -> None:
    """The document is meant to be ours, so `hostRouting` is not missing."""
    [only] = faults(json.dumps({key: {}}))
    assert only.startswith(f"{key}: unknown key; did you mean ")
    [_, agents] = faults(json.dumps({"agent": {}, key: {}}))
    assert agents.startswith(f"{key}: unknown key; did you mean ")


@text_rows("""
{"guard": {}, "\\u001b[2J": 1} | ["\\u001b[2J"]: unknown key; the known keys are staticRoutes,
{"guard": {}, "static_route": null} | static_route: unknown key; did you mean staticRoutes?
{"routeOverlap": {"modes": ""}} | routeOverlap.modes: unknown key; did you mean mode?
{"guard": {"\\u0435nabled": true}} | guard["\\u0435nabled"]: unknown key; did you mean enabled?
{"staticRoutes": {"enabled": "yes", "routes": [{"destination": "10.0.0.0/8"}]}} \
| staticRoutes.enabled: "yes" is not true or false
{"hostRouting": []} | hostRouting: [] is not an object; write {...} with any of the keys static
[] | [] is not an object; write
{"staticRoutes": {"enabled": true, "routes": [null]}} \
| staticRoutes.routes[0]: null is not an object; write
{"azureVnetCleanup": {"managed": null}} | azureVnetCleanup.managed: missing
{"gate": ""} | gate: "" is not an object; write
{"staticRoutes": {"enabled": true, "routes": [{"destination": "10.0.0.0/8"}]}, \
"guard": {"enabled": true}, "routeOverlap": {"mode": 1}} \
| routeOverlap.mode: 1 is not one of WARN, STRICT
{"guard": {"enabled": true}, "gate": {"units": ["a.service"]}} \
| guard: there is nothing to guard: no routes, no expected CIDRs and no probe rewrite; add
{"staticRoutes": {"routes": [{"destination": "10.0.0.0/8"}]}} \
| staticRoutes.enabled: there are routes; set "enabled": true
{"staticRoutes": {"enabled": true, "routes": [{"destination": "fd00::/8", "metric": 1024}, \
{"destination": "fd00::/9", "gateway": "fe80::1", "dev": "a"}, {"destination": "fd00::/8"}]}} \
| staticRoutes.routes[2]: "fd00::/8" has the destination and the metric of routes[0]; remove one of
{"staticRoutes": {"enabled": true, "routes": [{"destination": "fd00::/8", "gateway": "fe80::1"}]}} \
| staticRoutes.routes[0].gateway: "fe80::1" is link-local, and every link can have this address; \
add dev
{"routeOverlap": {"expectedCidrs": [""]}} \
| routeOverlap.expectedCidrs[0]: "" is not a network; write an address, a slash and a length
{"routeOverlap": {"mode": "STRICT"}} \
| routeOverlap.mode: STRICT, but no CIDRs are given, so nothing is checked; add expectedCidrs or s
{"routeOverlap": {"expectedCidrs": ["10.0.0.0/8"], "undecided": "refuse"}} \
| routeOverlap.undecided: "refuse", but the mode is WARN, in which nothing is refused; set "mode"
{"probeRewrite": {"enabled": true}} \
| probeRewrite.interfaces: no interface is given but enabled=true; name the
{"probeRewrite": {"enabled": true, "interfaces": ["eth0", "eth1"]}} \
| probeRewrite.ensureRoute: true requires exactly one interface, but 2 are given; set it to false \
and add the route yourself
{"probeRewrite": {"interfaces": ["eth0", "eth1"]}} \
| probeRewrite.enabled: there are interfaces; set "enabled": true
""")
def test_faults_of_documents(row: list[str]) -> None:
    """The one fault has its path, the value, the rule, and a remedy if there is one."""
    document, begin = row
    [only] = faults(document)
    assert only.startswith(begin)


@text_rows("""
StaticRoute | gateway=None dev=None metric=0
StaticRoutesConfig | enabled=False routes=()
RouteOverlapConfig | expected_cidrs=() mode=WARN undecided=warn expected_devs=() \
allowed_devs=() service_cidrs=() intended_rules=()
ProbeRewriteConfig | enabled=False interfaces=() link_local=fe80::1234:5678:9abc \
global_address=2603:1062:0:1:fe80:1234:5678:9abc ensure_route=True
AzureVnetCleanupConfig | protect=() uplinks=() dry_run=True
GuardConfig | enabled=False
HostRoutingConfig | azure_vnet_cleanup=None gate=None manage_foreign=leave
""")
def test_what_is_left_out(row: list[str]) -> None:
    """A setting that is left out has the same value in every release, and is not written."""
    name, values = row
    usual = getattr(settings, name)._field_defaults.items()
    shown = [f"{key}={value}" for key, value in usual if not hasattr(value, "_fields")]
    assert shown == values.split()
    config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=(static("10.0.0.0/8"),)))
    assert config.to_mapping() == ROUTES


def test_what_is_done() -> None:
    """Replies to probes need a route, foreign routes a file; machines wait for a check."""
    probes = {"enabled": True, "interfaces": ["eth0"]}
    config = HostRoutingConfig.from_mapping({"probeRewrite": probes})
    assert config.parts == ("static_routes", "probe_rewrite")
    alone = HostRoutingConfig.from_mapping({"probeRewrite": {**probes, "ensureRoute": False}})
    assert alone.parts == ("probe_rewrite",)
    asked = [alone, HostRoutingConfig(), HostRoutingConfig(manage_foreign="keep")]
    assert [each.asks_for_nothing for each in asked] == [False, True, False]
    guarded = HostRoutingConfig(
        guard=GuardConfig(enabled=True), route_overlap=expect(service_cidrs=["10.0.0.0/8"])
    )
    assert gated_units(guarded) == ("systemd-nspawn@.service",)
    assert gated_units(HostRoutingConfig(StaticRoutesConfig(enabled=True))) == ()
    named = HostRoutingConfig(gate=GateConfig(("b.service", "a.service", "b.service")))
    assert gated_units(named) == ("a.service", "b.service")


def test_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read like its text; `-` is the standard input."""
    path = tmp_path / "right.json"
    path.write_text("\ufeff" + json.dumps({"hostRouting": ROUTES}))
    expected = HostRoutingConfig.from_mapping(ROUTES)
    assert HostRoutingConfig.load(path) == expected
    with pytest.raises(ConfigError, match="'' cannot be read: No such file"):
        HostRoutingConfig.load("")
    assert HostRoutingConfig.load(str(path)) == expected
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert HostRoutingConfig.load("-") == expected
        with pytest.raises(ConfigError, match="standard input is empty"):
            HostRoutingConfig.load("-")


CONSTRUCT: Any = HostRoutingConfig
"""The constructor, for arguments that its types do not allow."""


def test_constructors_take_what_json_has() -> None:
    """A section may be a JSON object; what JSON cannot have is a fault with its path."""
    config = CONSTRUCT({"enabled": True, "routes": [{"destination": "10.0.0.0/8"}]}, gate=None)
    assert config.static_routes.routes == (static("10.0.0.0/8"),)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301  our own bytes
    with pytest.raises(ConfigError, match=r"^staticRoutes\.routes\[0\]\.destination: missing"):
        CONSTRUCT({"enabled": True, "routes": [{}]})
    no_list = r"^staticRoutes\.routes: a Python StaticRoute is not a list; write \[...\]"
    with pytest.raises(ConfigError, match=no_list):
        CONSTRUCT({"enabled": True, "routes": static("10.0.0.0/8")})
    with pytest.raises(ConfigError, match=r"^manageForeign: true is not one of leave, keep"):
        CONSTRUCT()._replace(manage_foreign=True)
    no_json: dict[Any, object] = {1: 2, "manageForeign": {3}}
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping(no_json)
    assert [fault.path for fault in caught.value.faults] == ["[1]", "manageForeign"]


# Single values.

RIGHT: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "10.1.0.0/16"}]},
    "routeOverlap": {
        "expectedCidrs": ["10.0.0.0/8"],
        "serviceCidrs": ["10.0.0.0/8"],
        "expectedDevs": ["eth0"],
        "allowedDevs": ["*wg*"],
        "intendedRules": ["not fwmark 0x1 attribute-12 0f"],
    },
    "probeRewrite": {"enabled": True, "interfaces": ["lo0"]},
    "azureVnetCleanup": {
        "managed": ["10.0.0.0/8", "fd00::/32"],
        "protect": ["10.0.0.1"],
        "uplinks": ["eth0"],
    },
    "guard": {},
    "gate": {"units": ["kubelet.service"]},
}
EARLY = """\
static-routes systemd-networkd netplan-wpa-eth0 udev dbus dbus-broker messagebus NetworkManager
NetworkManager-wait-online NetworkManager-dispatcher NetworkManager-initrd nm-cloud-setup networking
network netplan-ovs-cleanup ifup@eth0 ifupdown-pre ifupdown-wait-online dhcpcd dhcpcd@eth0 dhclient
dhclient@eth0 dhclient6@eth0 wpa_supplicant wpa_supplicant@eth0 wpa_supplicant-wired@eth0
wpa_supplicant-nl80211@eth0 iwd connman connman-wait-online wicked wickedd wickedd-nanny
wickedd-auto4 wickedd-dhcp4 wickedd-dhcp6 frr bird bird6 openvswitch openvswitch-switch
openvswitch-nonetwork ovs-vswitchd ovsdb-server ovs-configuration ovs-delete-transient-ports
cloud-init cloud-init-local cloud-init-main cloud-init-network cloud-init-hotplugd openibd rdma
rdma-ndd rdma-load-modules@eth0 nftables nftables-flush iptables ip6tables firewalld ufw
netfilter-persistent"""
EARLY_UNITS = [f"{name}.service" for name in EARLY.split()]
OUR_UNITS = [name for setting, name in vars(HostLayout).items() if setting.endswith("_unit")]
# Where a value is put; how its fault begins after the path and the value; and the values.
VALUES: dict[str, dict[str, list[Any]]] = {
    "staticRoutes.routes[0].dev": {
        "is not a device name: 1 to 15 letters, digits, '_', '.' and '-'": [
            *("$(reboot)", "eth 0", "a\n", "\u001b[2J", "\u0435th0", "a/b", ".", "..", "e" * 16)
        ],
        "is not a string of whole characters": ["\ud800", 7],
    },
    "staticRoutes.routes[0].metric": {
        "is not an integer from 0 to 4294967295": [-1, 4294967296, True, 1.0, math.nan, "1", {1}],
    },
    "staticRoutes.routes[0].destination": {
        "is not a network; write an address, a slash and a length": [
            *("10/8", "010.0.0.0/8", "10.0.0.0/08", "10.0.0.0/255.0.0.0", " 10.0.0.0/8", "fd00::/"),
            *("10.0.0.0/\u0668", "fe80::1%eth0/64", "10.0.0.0/33", "fd00::/129"),
        ],
        'has no prefix length; write "10.0.0.1/32" for that one address': ["10.0.0.1"],
        'has host bits set; write "172.16.0.0/16", or "172.16.5.4/32" for that one address': [
            "172.16.5.4/16"
        ],
        "is the default route; list the networks": ["0.0.0.0/0", "::/0"],
        "lies in a reserved range": ["0.1.0.0/16", "127.0.0.0/8", "224.0.0.0/3", "fe80::/64"],
        "is not a string": [5, b"10.0.0.0/8"],
        # Linux routes no IPv4 packet by it.
        'is IPv4, written as IPv6; write "10.0.0.0/8"': ["::ffff:10.0.0.0/104"],
    },
    "staticRoutes.routes[0].gateway": {
        "is not an address": ["10.0.0.256", "10.0.0.1/24", IPv4Interface("10.0.0.1/25")],
        "lies in a reserved range, which has no routers": ["::1", "ff02::1", "127.0.0.1"],
        "is IPv6, and the destination is not": ["fd00::1"],
        'is IPv4, written as IPv6; write "10.0.0.1"': ["::ffff:10.0.0.1"],
    },
    "routeOverlap.expectedCidrs": {"is not a list; write [...]": ["10.0.0.0/8", {}, b"x"]},
    "routeOverlap.expectedCidrs[0]": {
        "has no prefix length": ["10.0.0.0"],
        "is the loopback network, which never leaves a host": ["127.0.0.0/8", "::1/128"],
        'is IPv4, written as IPv6; write "0.0.0.0/0"': ["::ffff:0:0/96"],
    },
    "routeOverlap.expectedDevs[0]": {"is not a device name: 1 to 15 letters": ["eth 0", ""]},
    "routeOverlap.allowedDevs[0]": {
        "allows every device": ["*", "??*"],
        "is not a device pattern; write one such as": ["", "a" * 16, "eth[0-9]", "wg* wireguard"],
    },
    "routeOverlap.mode": {"is not one of WARN, STRICT": [True, " WARN", "\u017ftrict", ""]},
    "routeOverlap.undecided": {"is not one of warn, refuse": [""]},
    "routeOverlap.intendedRules[0]": {
        "is not a list of selectors; write it": ["iif", "a b", "iif $x", "iif  a", "not from all"],
    },
    "manageForeign": {"is not one of leave, keep": ["no", ""]},
    "gate.units": {"is empty: no unit would wait": [[]]},
    "gate.units[0]": {
        "is not the name of a service; write one": [
            *("a.socket", "a/b.service", "@.service", "%n.service")
        ],
        "is longer than 253 characters": ["a" * 246 + ".service"],
        "is needed for the network, or by the gate": [*EARLY_UNITS, *OUR_UNITS],
        "starts the containers of the whole host; name the unit that must wait, such as "
        "kubelet.service": [
            *("containerd.service", "crio.service", "snap.microk8s.daemon-containerd.service")
        ],
    },
    "guard.enabled": {"is not true or false": [1, "yes", ""]},
    "probeRewrite.interfaces[0]": {"is the loopback device": ["lo"]},
    "probeRewrite.linkLocal": {
        "is not an address": [""],
        "is not in fe80::/10": ["fec0::1", "169.254.0.1"],
    },
    "probeRewrite.globalAddress": {"is not in 2000::/3": ["fe80::1", "::ffff:10.0.0.1"]},
    "azureVnetCleanup.managed": {"is empty, so nothing would be deleted": [[]]},
    "azureVnetCleanup.managed[0]": {
        "has host bits set": ["172.16.5.4/16"],
        "is too wide for a network of pods": ["10.0.0.0/7", "fd00::/31"],
    },
    "azureVnetCleanup.protect[0]": {
        'is IPv4, written as IPv6; write "10.1.0.9/32"': ["::FFFF:10.1.0.9"],
    },
}


@pytest.mark.parametrize("name", ["frr-exporter", "netplan-check", "a@b@c", "a" * 245])
def test_an_ordinary_unit_can_be_gated(name: str) -> None:
    """A name that only begins as that of a unit which the network needs is another one."""
    document = with_value("gate.units[0]", f"{name}.service")
    gate = HostRoutingConfig.from_mapping(document).gate
    assert gate is not None
    assert gate.units == (f"{name}.service",)


def with_value(key: str, value: object) -> dict[str, Any]:
    """The right configuration with another value of a key such as `gate.units[0]`."""
    document = copy.deepcopy(RIGHT)
    *parents, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", key)]
    place: Any = document
    for step in parents:
        place = place[step]
    place[last] = value
    return document


@pytest.mark.parametrize(
    ("key", "rule"), [(key, rule) for key, rules in VALUES.items() for rule in rules]
)
def test_refused(key: str, rule: str) -> None:
    """It is the only fault, with its path, the value, the rule and perhaps a remedy."""
    for value in VALUES[key][rule]:
        with pytest.raises(ConfigError) as caught:
            HostRoutingConfig.from_mapping(with_value(key, value))
        [fault] = caught.value.faults
        assert str(fault).startswith(f"{key}: {fault.value} {rule}")
        assert str(fault).isascii()
        assert str(fault).isprintable()


def test_networks_that_are_masked() -> None:
    """Host bits go; a network of IPv6 that contains the addresses of IPv4 is one of IPv6."""
    config = expect("10.1.2.3/8", "::/0", "::/64", "::fffe:0:0/95")
    assert [*map(str, config.cidrs)] == ["10.0.0.0/8", "::/0", "::/64", "::fffe:0:0/95"]


def test_what_strict_refuses() -> None:
    """Every verdict but OK, and UNDECIDED only if asked; services alone are enough to check."""
    assert not expect("10.0.0.0/8").refuses("overlap"), "that is for STRICT"
    strict = expect(mode="STRICT", service_cidrs=["10.0.0.0/8"])
    verdicts = ("ok", "undecided", "no-default-route", "overlap")
    assert [strict.refuses(verdict) for verdict in verdicts] == [False, False, True, True]
    wary = strict._replace(undecided="refuse", expected_cidrs=strict.service_cidrs)
    assert [wary.refuses(verdict) for verdict in verdicts] == [False, True, True, True]
    assert len(wary.cidrs) == 1, "it is judged once"
    assert wary.effect == f"{strict.effect} or may escape"


def test_a_guard_that_has_nothing_left_to_guard() -> None:
    """If the last section with a step is replaced by an empty one, the guard is turned off."""
    guarded = HostRoutingConfig.from_mapping({**ROUTES, "guard": {"enabled": True}})
    nothing = HostRoutingConfig()
    assert guarded.replaced(["static_routes"], nothing) == nothing
    with_check = guarded._replace(route_overlap=expect("10.0.0.0/8"))
    assert with_check.replaced(["static_routes"], nothing).guard.enabled

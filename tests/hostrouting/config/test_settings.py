"""The whole configuration: documents, keys, paths, and rules about several values."""

import json
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path

import pytest

from hostrouting.config.settings import (
    GuardConfig,
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoute,
    StaticRoutesConfig,
    gated_units,
)
from hostrouting.config.values import Mode
from hostrouting.errors import ConfigError

KEYS = "staticRoutes, routeOverlap, probeRewrite, azureVnetCleanup, guard, gate, manageForeign"
ROUTES = {"staticRoutes": {"enabled": True, "routes": [{"destination": "10.0.0.0/8"}]}}
TWICE = "this key is given more than once; keep one of them"


def faults(document: object) -> list[str]:
    """Every fault of a document, given as text or as parsed JSON."""
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    return [str(fault) for fault in caught.value.faults]


def test_the_json_of_the_original() -> None:
    """The original's configuration is read, key by key, into typed values."""
    config = HostRoutingConfig.from_json("""{
        "staticRoutes": {
            "enabled": true,
            "routes": [{"destination": "172.16.0.0/17", "gateway": "10.0.0.1", "dev": "eth0", "metric": 50},
                       {"destination": "172.16.128.0/17", "gateway": "", "dev": "", "metric": 0}]
        },
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "strict"}
    }""")
    routes = (
        StaticRoute(IPv4Network("172.16.0.0/17"), IPv4Address("10.0.0.1"), "eth0", 50),
        StaticRoute(IPv4Network("172.16.128.0/17")),
    )
    overlap = RouteOverlapConfig((IPv4Network("172.16.0.0/16"),), Mode.STRICT)
    assert config == HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes), overlap)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"hostRouting": {}},
        {"hostRouting": None, "gate": None, "kubelet": 1},
        {"hostRouting": {"gate": None, "staticRoutes": None, "routeOverlap": {"mode": None, "expectedDevs": None}}},
        {"kubelet": {"a": 1}, "nodeName": "a", "name": "b"},
        {"hostRouting": {}, "hostrouting": 5, "staticRoutes": 5},
    ],
)
def test_documents_that_ask_for_nothing(document: dict[str, object]) -> None:
    """Null is as absent everywhere, an agent's file without our key is ignored, and so is what stands beside it."""
    assert HostRoutingConfig.from_mapping(document) == HostRoutingConfig()


def test_an_agents_file_where_ours_is_required() -> None:
    """Whoever needs our settings refuses a file that has none, by its name; an empty object is the empty configuration."""
    with pytest.raises(ConfigError, match=f"^agent.json: has none of the keys {KEYS}; in an agent's larger file, put"):
        HostRoutingConfig.from_json('{"kubelet": {}}', source="agent.json", is_ours=True)
    assert HostRoutingConfig.from_json("{}", is_ours=True) == HostRoutingConfig()


# A document, and how its only fault begins.
TABLE = r"""
{"agent": 1, "static_route": {}} | static_route: unknown key; did you mean staticRoutes?
{"agent": 1, "routeoverlaps": {}} | routeoverlaps: unknown key; did you mean routeOverlap?
{"agent": 1, "gates": {}} | gates: unknown key; did you mean gate?
{"agent": 1, "GAET": {}} | GAET: unknown key; did you mean gate?
{"staticRoute": 1} | staticRoute: unknown key; did you mean staticRoutes?
{"hostrouting": {}} | hostrouting: unknown key; did you mean hostRouting?
{"guard": {}, "azure": 1} | azure: unknown key; the known keys are staticRoutes,
{"guard": {}, "a.b": 1} | ["a.b"]: unknown key; the known keys are staticRoutes,
{"guard": {}, "\u001b[2J": 1} | ["\u001b[2J"]: unknown key; the known keys are staticRoutes,
{"guard": {}, "\ud800": 1} | ["\ud800"]: unknown key; the known keys are staticRoutes,
{"hostRouting": {"routeOverlap": {"Mode": 1}}} | hostRouting.routeOverlap.Mode: unknown key; did you mean mode?
{"hostRouting": {"hostRouting": {}}} | hostRouting.hostRouting: unknown key; the known keys are staticRoutes,
{"guard": {}, "odd": ""} | odd: unknown key; the known keys are staticRoutes,
{"manageForeign": ""} | manageForeign: "" is not one of leave, keep
{"guard": ""} | guard: "" is not an object; write {...} with any of the keys enabled
{"hostRouting": []} | hostRouting: a list is not an object; write {...} with any of the keys staticRoutes,
[] | a list is not an object; write
{"staticRoutes": {"enabled": true, "routes": [null]}} | staticRoutes.routes[0]: null is not an object; write
{"azureVnetCleanup": {"managed": null}} | azureVnetCleanup.managed: missing
{"staticRoutes": {"enabled": true, "routes": [{"destination": "10.0.0.0/8"}]}, "guard": {"enabled": true}, "routeOverlap": {"mode": 1}} | routeOverlap.mode: 1 is not a text
{"guard": {"enabled": true}} | guard: there is nothing to guard: no routes, no expected CIDRs and no probe rewrite; add
{"staticRoutes": {"routes": [{"destination": "10.0.0.0/8"}]}} | staticRoutes.enabled: routes were provided but enabled=false; set enabled=true
{"staticRoutes": {"enabled": true, "routes": [{"destination": "10.0.0.0/8", "dev": "a"}, {"destination": "10.0.0.0/8"}]}} | staticRoutes.routes[1]: "10.0.0.0/8" has the destination and the metric of routes[0]; remove one of the two, or
{"staticRoutes": {"enabled": true, "routes": [{"destination": "10.0.0.0/8", "dev": "a"}, {"destination": "10.0.0.0/8", "metric": 0}]}} | staticRoutes.routes[1]: "10.0.0.0/8" has the destination and the metric of routes[0]; remove one of the two, or
{"probeRewrite": {"enabled": true}} | probeRewrite.interfaces: no interface is given but enabled=true; name the
{"probeRewrite": {"interfaces": ["eth0"]}} | probeRewrite.enabled: interfaces were provided but enabled=false; set
{"probeRewrite": {"enabled": true, "interfaces": ["eth0", "eth1"]}} | probeRewrite.ensureRoute: true requires exactly one interface, but 2 are given; set it to false and add the
{"probeRewrite": {"enabled": true, "interfaces": ["eth;"]}} | probeRewrite.interfaces[0]: "eth;" is not a device
"""
REFUSED = [row.split(" | ") for row in TABLE.strip().splitlines()]


@pytest.mark.parametrize(("document", "fault"), REFUSED, ids=range(len(REFUSED)))
def test_faults_of_documents(document: str, fault: str) -> None:
    """The one fault has its path in the operator's file, the value, the rule, and a remedy if there is one."""
    (only,) = faults(document)
    assert only.startswith(fault)


def test_rules_about_several_values_beside_other_faults() -> None:
    """A faulty value does not hide what is wrong with the others together."""
    routes: list[object] = [{"destination": "fd00::/8", "gateway": "x"}, {"destination": "fd01::/16"}]
    document = {"staticRoutes": {"routes": [*routes, {"destination": "fd01::/16", "metric": 1024}]}, "gaurd": 1}
    assert [fault.split(": ")[0] for fault in faults(document)] == [
        *("staticRoutes.routes[0].gateway", "staticRoutes.routes[2]", "staticRoutes.enabled", "gaurd")
    ]


def test_what_is_written() -> None:
    """What has its default value is left out."""
    config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=[StaticRoute("10.0.0.0/8")]))
    assert config.to_mapping() == ROUTES


def test_defaults_do_not_change() -> None:
    """config.json leaves them out: with another default, what is installed on hosts would ask for something else."""
    config = HostRoutingConfig(gate={}, azure_vnet_cleanup={"managed": ["10.240.0.0/16"]}, static_routes={"routes": []})
    route = StaticRoute("10.0.0.0/8")
    assert (route.gateway, route.dev, route.metric) == (None, None, 0)
    assert config.gate is not None
    assert config.azure_vnet_cleanup is not None
    sections = (config.static_routes, config.route_overlap, config.probe_rewrite, config.azure_vnet_cleanup)
    settings = [value for section in (*sections, config.guard, config.gate) for value in vars(section).values()]
    source, rewritten = map(IPv6Address, ("fe80::1234:5678:9abc", "2603:1062:0:1:fe80:1234:5678:9abc"))
    assert settings == [
        *(False, ()),
        *((), Mode.WARN, (), (), (), (), ()),
        *(False, (), source, rewritten, True),
        *((IPv4Network("10.240.0.0/16"),), (), (), True),
        *(False, ("systemd-nspawn@.service",)),
    ]
    assert config.manage_foreign == "leave"
    assert HostRoutingConfig().gate is None
    assert HostRoutingConfig().azure_vnet_cleanup is None


def test_units_that_wait() -> None:
    """Those of the section, sorted; else machines, if a step or a check of service networks is there to wait for."""
    units = {"units": ["kubelet.service", "a.service", "kubelet.service"]}
    assert gated_units(HostRoutingConfig(gate=units)) == ("a.service", "kubelet.service")
    assert gated_units(HostRoutingConfig(guard={"enabled": True}, route_overlap={"serviceCidrs": ["10.0.0.0/8"]})) == (
        "systemd-nspawn@.service",
    )
    assert gated_units(HostRoutingConfig()) == ()


def test_repeated_keys() -> None:
    """A key given twice is a fault at any depth of our section, whichever of the two is right."""
    text = """{"agent": 1, "agent": 2, "hostRouting": {
        "staticRoutes": {"enabled": true, "routes": [{"destination": "10.0.0.0/8", "destination": "11.0.0.0/8"}]},
        "manageForeign": "x", "manageForeign": "keep"
    }}"""
    expected = ["hostRouting.staticRoutes.routes[0].destination", "hostRouting.manageForeign"]
    assert faults(text) == [f"{path}: {TWICE}" for path in expected]
    assert faults('{"hostRouting": {}, "hostRouting": {}}') == [f"hostRouting: {TWICE}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; write a JSON object, {} for no settings"),
        (b" \n", "is empty; write a JSON object"),
        (
            '{"secret": "hunter2" "b"}',
            "is not JSON: Expecting ',' delimiter: line 1 column 22 (char 21); write a JSON object",
        ),
        (b'{"\xe9": 1}', "is not JSON: 'utf-8' codec can't decode byte 0xe9 in position 2"),
        ("[" * 200_000, "is not JSON: maximum recursion depth"),
        ('{"a": 1' + "0" * 5000 + "}", "is not JSON: "),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_text_that_is_not_json(text: str | bytes, said: str) -> None:
    """What is not JSON is refused with its place, and never quoted: an agent's file contains secrets."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    assert str(caught.value).startswith(f"the configuration: {said}")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent.json", "cannot be read: No such file or directory"),
        (".", "cannot be read: Is a directory"),
        ("broken.json", "is not JSON: "),
        ("faulty.json", "manageForeign: 2 is not one of leave, keep"),
    ],
)
def test_load(tmp_path: Path, name: str, said: str) -> None:
    """A file is read like its text; its errors name it once, without control characters."""
    (tmp_path / "right.json").write_text("\ufeff" + json.dumps({"hostRouting": ROUTES}))
    (tmp_path / "broken.json").write_text("{]")
    (tmp_path / "faulty.json").write_text('{"manageForeign": 2}')
    right = tmp_path / "right.json"
    assert HostRoutingConfig.load(right) == HostRoutingConfig.load(str(right)) == HostRoutingConfig.from_mapping(ROUTES)
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.load(str(tmp_path / name))
    assert str(caught.value).startswith(f"{tmp_path / name}: {said}")
    with pytest.raises(ConfigError, match=r'^"a\\u0000b": is not a path'):
        HostRoutingConfig.load("a\0b")


def test_constructors_take_what_json_has() -> None:
    """A section may be given as its JSON object, and the paths of its faults start there."""
    config = HostRoutingConfig({"enabled": True, "routes": [{"destination": "10.0.0.0/8"}]}, gate=None)
    assert config.static_routes.routes == (StaticRoute("10.0.0.0/8"),)
    with pytest.raises(ConfigError, match=r"^static_route: unknown key; did you mean staticRoutes\?"):
        HostRoutingConfig(static_route={})
    with pytest.raises(TypeError, match="GuardConfig takes enabled, each of them once"):
        GuardConfig(True, False)
    with pytest.raises(TypeError, match="each of them once"):
        GuardConfig(True, enabled=False)
    with pytest.raises(AttributeError, match="enabled cannot be set"):
        config.guard.enabled = True
    with pytest.raises(ConfigError, match=r"^staticRoutes\.routes\[0\]\.destination: missing"):
        HostRoutingConfig({"enabled": True, "routes": [{}]})
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping({1: 2, "manageForeign": {3}})  # type: ignore[dict-item] # the mistake under test
    assert [fault.path for fault in caught.value.faults] == ["[1]", "manageForeign"]

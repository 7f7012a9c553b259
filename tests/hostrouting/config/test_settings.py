"""The whole configuration: keys, paths, rules about several values, and writing JSON."""

import json
import sys
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import attrs
import pytest
from typing_extensions import assert_type

from hostrouting.config.cni import DEFAULT_ALLOWED_DEVS
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.config.settings import HostRoutingConfig, RouteOverlapConfig, StaticRoute, StaticRoutesConfig
from hostrouting.config.values import Mode
from hostrouting.errors import ConfigError
from tests.support.programs import completed

KEYS = "staticRoutes, routeOverlap, probeRewrite, azureVnetCleanup, guard, gate, manageForeign"
WHOLE = HostRoutingConfig(
    StaticRoutesConfig(enabled=True, routes=[StaticRoute("172.16.0.0/17", "10.0.0.1", "eth0", 5)]),
    RouteOverlapConfig(["172.16.0.0/16"], "STRICT"),
    probe_rewrite=ProbeRewriteConfig(enabled=True, interfaces=["eth0"]),
)


SPLIT = "remove one of the two, or give them different metrics"


def faults(document: object) -> list[str]:
    """Every fault of a document, given as text or as parsed JSON."""
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    return [str(fault) for fault in caught.value.faults]


def one_route(**fields: object) -> dict[str, object]:
    """The document with one route with these fields."""
    return {"staticRoutes": {"enabled": True, "routes": [fields]}}


def test_the_json_of_the_original() -> None:
    """The original's configuration is read, key by key, into typed values."""
    config = HostRoutingConfig.from_json("""{
        "staticRoutes": {
            "enabled": true,
            "routes": [{"destination": "172.16.0.0/17", "gateway": "10.0.0.1", "dev": "eth0", "metric": 50}]
        },
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "strict"}
    }""")
    assert config == HostRoutingConfig(
        StaticRoutesConfig(
            enabled=True, routes=(StaticRoute(IPv4Network("172.16.0.0/17"), IPv4Address("10.0.0.1"), "eth0", 50),)
        ),
        RouteOverlapConfig((IPv4Network("172.16.0.0/16"),), Mode.STRICT),
    )


def test_larger_file_of_an_agent() -> None:
    """In an agent's file only our key is read, and other keys are ignored."""
    text = '{"hostRouting": {"manageForeign": "keep"}, "kubelet": {"a": 1, "a": 2}, "kubelet": null, "staticRoutes": 5}'
    assert HostRoutingConfig.from_json(text) == HostRoutingConfig(manage_foreign="keep")


def test_paths_begin_at_our_key_when_the_file_has_it() -> None:
    """The path of a fault is the path in the operator's file."""
    route = one_route(destination="10.0.0.0/8", gateway="x")
    said = "staticRoutes.routes[0].gateway: "
    assert faults(route)[0].startswith(said)
    assert faults({"hostRouting": route})[0].startswith("hostRouting." + said)


def test_all_faults_at_once_in_the_order_of_the_file() -> None:
    """One reading finds every fault, at every depth."""
    document = {
        "hostRouting": {
            "routeOverlap": {"mode": "LOUD", "expectedCidrs": ["10.0.0.0/8", "fd00::/x"]},
            "staticRoutes": {
                "routes": [
                    {"destination": "172.16.5.4/16", "gateway": "10.0.0.256", "dev": "e;", "metric": True},
                    {"destination": "10.0.0.0/8"},
                    {"destination": "10.0.0.0/8", "gateway": "x", "metric": 0},
                    7,
                    7,
                    {},
                ]
            },
            "manageForeign": 2,
            "manageForegn": 3,
        }
    }
    assert [line.split(": ")[0].removeprefix("hostRouting.") for line in faults(document)] == [
        "routeOverlap.mode",
        "routeOverlap.expectedCidrs[1]",
        "staticRoutes.routes[0].destination",
        "staticRoutes.routes[0].gateway",
        "staticRoutes.routes[0].dev",
        "staticRoutes.routes[0].metric",
        "staticRoutes.routes[2].gateway",
        "staticRoutes.routes[2]",
        "staticRoutes.routes[3]",
        "staticRoutes.routes[4]",
        "staticRoutes.routes[5].destination",
        "staticRoutes.enabled",
        "manageForeign",
        "manageForegn",
    ]


@pytest.mark.parametrize("section", [{"enabled": False}, {}])
def test_routes_need_the_switch(section: dict[str, object]) -> None:
    """Routes without enabled=true are a fault, and not silently ignored."""
    document = {"staticRoutes": {"routes": [{"destination": "10.0.0.0/8"}]} | section}
    said = "routes were provided but enabled=false; set enabled=true to apply static routes"
    assert faults(document) == [f"staticRoutes.enabled: {said}"]


@pytest.mark.parametrize("metric", [{}, {"metric": 0}])
def test_two_routes_with_one_key(metric: dict[str, object]) -> None:
    """Two routes must not have the same destination and metric (0 by default); the fault names both."""
    first, second = {"destination": "10.0.0.0/8", "dev": "eth0"}, {"destination": "10.0.0.0/8"} | metric
    document = {"staticRoutes": {"enabled": True, "routes": [first, {"destination": "11.0.0.0/8"}, second]}}
    assert faults(document) == [
        "staticRoutes.routes[2]: 10.0.0.0/8 with metric 0 is already given in staticRoutes.routes[0]; " + SPLIT
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("staticroutes", "staticRoutes"),
        ("static_routes", "staticRoutes"),
        ("StaticRoute", "staticRoutes"),
        ("routeOverlaps", "routeOverlap"),
        ("hostrouting", "hostRouting"),
    ],
)
def test_unknown_key_with_a_neighbour(written: str, meant: str) -> None:
    """For a misspelled key the fault suggests the right key."""
    assert faults({written: {}}) == [f"{written}: unknown key; did you mean {meant}?"]


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("azure", "azure"),
        ("", '[""]'),
        ("a.b", '["a.b"]'),
        ("a\n\x1b[2J", r'["a\n\u001b[2J"]'),
        ("\ud800", r'["\ud800"]'),
        ("k" * 99, f'["{"k" * 60}"... (99 characters)]'),
    ],
    ids=ascii,
)
def test_unknown_key_like_no_other(key: str, path: str) -> None:
    """For any other unknown key the fault shows it escaped and lists the known keys."""
    known = f"{KEYS}, hostRouting"
    assert faults({"manageForeign": "keep", key: 1}) == [f"{path}: unknown key; the known keys are {known}"]


@pytest.mark.parametrize("document", [{"kubelet": {}, "azure": 1}, {"nodeName": "a"}])
def test_an_agents_file_without_our_key(document: dict[str, object]) -> None:
    """A file without our keys has one fault, which says where to put our settings."""
    assert faults(document) == [
        (
            f"configuration: has none of the keys {KEYS}; "
            "in an agent's larger file, put them in an object under the key hostRouting"
        )
    ]
    assert faults({**document, "hostrouting": {}})[-1] == "hostrouting: unknown key; did you mean hostRouting?"


def test_unknown_keys_below() -> None:
    """Keys are checked at every depth, and `hostRouting` inside itself is unknown."""
    assert faults({"hostRouting": {"hostRouting": {}, "routeOverlap": {"Mode": ""}}}) == [
        f"hostRouting.hostRouting: unknown key; the known keys are {KEYS}",
        "hostRouting.routeOverlap.Mode: unknown key; did you mean mode?",
    ]


def test_repeated_keys() -> None:
    """A key given twice is a fault at any depth of our section, whichever of the two is right."""
    text = """{
        "hostRouting": {},
        "hostRouting": {
            "staticRoutes": {"enabled": true, "routes": [{"destination": "10.0.0.0/8", "destination": "x"}]},
            "manageForeign": "x", "manageForeign": "keep", "manageForeign": "leave"
        }
    }"""
    repeated = "this key is given more than once; keep one of them"
    assert [line for line in faults(text) if "more than once" in line] == [
        f"hostRouting: {repeated}",
        f"hostRouting.manageForeign: {repeated}",
        f"hostRouting.staticRoutes.routes[0].destination: {repeated}",
    ]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "configuration: a list is not an object; write {...} with any of the keys staticRoutes, "),
        ("text", 'configuration: "text" is not an object; '),
        ({"hostRouting": []}, "hostRouting: a list is not an object; "),
        ({"hostRouting": None}, "hostRouting: null is not an object; "),
        ({"staticRoutes": []}, "staticRoutes: a list is not an object; write {...} with any of the keys e"),
        ({"staticRoutes": {"routes": {}}}, "staticRoutes.routes: an object is not a list; write [...], "),
        ({"staticRoutes": {"routes": None}}, "staticRoutes.routes: null is not a value; leave out the key"),
        ({"staticRoutes": {"enabled": 1}}, "staticRoutes.enabled: 1 is not true or false; "),
        ({"routeOverlap": None}, "routeOverlap: null is not a value; leave out the key, or give it a value"),
        ({"routeOverlap": {"expectedCidrs": [None]}}, "routeOverlap.expectedCidrs[0]: null is not a string; "),
        (one_route(dev="eth0"), "staticRoutes.routes[0].destination: missing; write the destination network"),
        (one_route(destination=None), "staticRoutes.routes[0].destination: null is not a value; leave"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_values_of_the_wrong_kind(document: object, said: str) -> None:
    """A value of the wrong type is a fault that names the expected type."""
    (line,) = faults(json.dumps(document))
    assert line.startswith(said)


def test_mapping_that_json_could_not_hold() -> None:
    """A mapping may contain any objects, and is checked like JSON."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping({1: 2, "manageForeign": {3}})  # type: ignore[dict-item] # the mistake under test
    assert [fault.path for fault in caught.value.faults] == ["[1]", "manageForeign"]


def test_constructors_take_what_json_has() -> None:
    """A section may be given as its JSON object, and the paths of its faults start there."""
    config = HostRoutingConfig({"enabled": True, "routes": [{"destination": "10.0.0.0/8"}]})
    assert config.static_routes.routes == (StaticRoute("10.0.0.0/8"),)
    with pytest.raises(ConfigError, match=r"^staticRoutes\.routes\[0\]\.destination: missing"):
        HostRoutingConfig({"enabled": True, "routes": [{}]})


def test_types() -> None:
    """The types of the attributes are the types that a type checker sees."""
    (route,) = WHOLE.static_routes.routes
    assert_type(route.destination, IPv4Network | IPv6Network)
    assert_type(route.gateway, IPv4Address | IPv6Address | None)
    assert_type(route.dev, str | None)
    assert_type(route.metric, int)
    assert_type(WHOLE.route_overlap.expected_cidrs, tuple[IPv4Network | IPv6Network, ...])
    assert_type(WHOLE.route_overlap.mode, Mode)
    assert_type(WHOLE.probe_rewrite.interfaces, tuple[str, ...])
    assert_type(WHOLE.probe_rewrite.global_address, IPv6Address)
    assert_type(HostRoutingConfig.from_json("{}"), HostRoutingConfig)
    assert_type(attrs.evolve(route, metric=1), StaticRoute)
    held = attrs.asdict(WHOLE.route_overlap, recurse=False)
    assert {name: type(value) for name, value in held.items()} == {
        "expected_cidrs": tuple,
        "mode": Mode,
        "expected_devs": tuple,
        "allowed_devs": tuple,
        "pod_cidrs": tuple,
        "pod_devs": tuple,
        "intended_rules": tuple,
    }


def test_a_device_besides_the_allowed_ones() -> None:
    """The list that a finding proposes keeps the default patterns; a list without their entry replaces them."""
    assert RouteOverlapConfig(allowed_devs=["...", "wg7"]).allowed_devs == (*DEFAULT_ALLOWED_DEVS, "wg7")
    assert RouteOverlapConfig(allowed_devs=["wg7"]).allowed_devs == ("wg7",)


@pytest.mark.linux
def test_import_is_cheap() -> None:
    """Importing the configuration loads attrs and ipaddress, and of the standard library nothing that takes time."""
    code = (
        "import sys, attrs, ipaddress; before = set(sys.modules); import hostrouting.config.settings;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before - set(sys.builtin_module_names)})"
    )
    loaded = completed([sys.executable, "-c", code], check=True).stdout
    assert set(loaded.split()) - {"array", "bisect", "_bisect", "struct", "_struct"} == {"hostrouting"}

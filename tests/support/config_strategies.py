"""Hypothesis strategies for what is nearly a configuration, and any JSON.

json_values()    any JSON value, some with keys and values of a configuration
near_texts()     text that looks like an address or a network, but often is not valid
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from hostrouting.testing.strategies import networks

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

KEYS = (
    *("hostRouting", "staticRoutes", "routeOverlap", "enabled", "routes"),
    *("destination", "gateway", "dev", "metric", "expectedCidrs", "mode", "expectedDevs", "allowedDevs"),
    *("probeRewrite", "interfaces", "linkLocal", "globalAddress", "ensureRoute"),
    *("azureVnetCleanup", "managed", "protect", "uplinks", "dryRun"),
)
"""Every key of a configuration."""


def near_texts() -> SearchStrategy[str]:
    """Text made from the parts of networks, from valid to nonsense."""
    octet = st.integers(0, 300).map(str) | st.sampled_from(["", "00", "010", "0x1", "1 ", "\u0661"])
    length = st.integers(0, 40).map("/{}".format) | st.sampled_from(["", "/", "/08", "/255.0.0.0", "/-1", "/8\n"])
    dotted = st.lists(octet, min_size=3, max_size=5).map(".".join)
    return (
        st.builds("{}{}".format, dotted, length)
        | networks().map(str)
        | st.sampled_from(["::/0", "fe80::1", "::ffff:10.0.0.1/104", " 10.0.0.0/8", "10.0.0.0:80", "10/8"])
    )


def scalars() -> SearchStrategy[Any]:
    """JSON values that are not lists or objects, including values that occur in configurations."""
    return (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters(), max_size=20)  # includes lone surrogates, which JSON can express
        | st.sampled_from(["", "WARN", "strict", "eth0", "eth0;reboot", "\u017ftrict", "\x1b[2J"])
        | near_texts()
    )


def json_values() -> SearchStrategy[Any]:
    """Any JSON value; many are nearly a valid configuration."""
    key = st.sampled_from(KEYS) | st.text(max_size=5)
    anything = st.recursive(
        scalars(), lambda parts: st.lists(parts, max_size=4) | st.dictionaries(key, parts, max_size=5), max_leaves=12
    )
    return anything | near_configs(anything)


def near_routes(anything: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """The JSON of a route, in which each value may be replaced by any other."""
    return st.fixed_dictionaries(
        {"destination": near_texts() | anything},
        optional={
            "gateway": st.sampled_from(["", "10.0.0.1"]) | near_texts() | anything,
            "dev": st.sampled_from(["", "eth0"]) | anything,
            "metric": st.integers(-1, 2) | anything,
        },
    )


def near_configs(anything: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    """The JSON of a configuration, in which each value may be replaced by any other."""
    static_routes = st.fixed_dictionaries(
        {}, optional={"enabled": st.booleans() | anything, "routes": st.lists(near_routes(anything), max_size=3)}
    )
    route_overlap = st.fixed_dictionaries(
        {},
        optional={
            "expectedCidrs": st.lists(near_texts(), max_size=3) | anything,
            "mode": scalars() | anything,
            "expectedDevs": st.lists(scalars(), max_size=2) | anything,
            "allowedDevs": st.lists(scalars(), max_size=2) | anything,
        },
    )
    probe_rewrite = st.fixed_dictionaries(
        {},
        optional={
            "enabled": st.booleans() | anything,
            "interfaces": st.lists(st.sampled_from(["eth0", "eth1", "lo"]) | scalars(), max_size=3) | anything,
            "linkLocal": st.sampled_from(["fe80::1", "fe80::1%eth0", "fec0::1"]) | anything,
            "globalAddress": st.sampled_from(["2001:db8::1", "fd00::1", "ff02::1"]) | anything,
            "ensureRoute": st.booleans() | anything,
        },
    )
    cleanup = st.fixed_dictionaries(
        {
            "managed": st.lists(near_texts() | st.sampled_from(["fd00::/48", "fd00::1/48", "::/0"]), max_size=3)
            | anything
        },
        optional={
            "protect": st.lists(near_texts(), max_size=2) | anything,
            "uplinks": st.lists(scalars(), max_size=2) | anything,
            "dryRun": st.booleans() | anything,
        },
    )
    config = st.fixed_dictionaries(
        {},
        optional={
            "staticRoutes": static_routes | anything,
            "routeOverlap": route_overlap | anything,
            "probeRewrite": probe_rewrite | anything,
            "azureVnetCleanup": cleanup | anything,
        },
    )
    return config | config.map(lambda part: {"hostRouting": part, "agent": {"name": "node-1"}})

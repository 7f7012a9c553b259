"""The section `probeRewrite`: the allowed values, rules about several values, and the message for each fault."""

from typing import Any

import pytest

from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError

ENABLED: dict[str, Any] = {"enabled": True, "interfaces": ["eth0"]}


def faults(**section: object) -> list[str]:
    """Every fault of a configuration with this section."""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping({"probeRewrite": section})
    return [str(fault) for fault in caught.value.faults]


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
    assert not ProbeRewriteConfig(ensure_route=False).enabled


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

"""Incidents: a fake node that gates kubelet, and what is done to it."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from functools import cache
from typing import Any

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.tasks.configure import Configure
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm
from tests.support.tasks import LAYOUT, document, manager_of, run

KUBELET = "kubelet.service"
GUARDED: dict[str, object] = {"enabled": True}


def config(*destinations: str, mode: str = "STRICT", **sections: object) -> dict[str, Any]:
    """The document of a configuration with these routes, which gates kubelet."""
    return document(*destinations, mode=mode, gate={"units": [KUBELET]}) | sections


def node(settings: dict[str, Any], kernel: Callable[[], FakeKernel] = h200) -> FakeHost:
    """A node on which kubelet runs, and on which the library has applied this configuration."""
    host = deepcopy(_applied(json.dumps(settings), kernel))
    object.__setattr__(host, "backend", lambda: nullcontext(host.faults))
    return host


@cache
def _applied(settings: str, kernel: Callable[[], FakeKernel]) -> FakeHost:
    """It is copied, because to apply takes ten times as long."""
    host = FakeHost(kernel=kernel())
    manager = manager_of(host)
    manager.states[KUBELET] = "active"
    manager.properties[KUBELET] = {"LoadState": "loaded", "UnitFileState": "enabled"}
    run(Configure(HostRoutingConfig.from_mapping(json.loads(settings)), host=host, wait=0))
    return host


def escaping_node() -> FakeHost:
    """A node without routes, from which addresses escape since it was applied."""
    host = node(config(), plain_vm)
    host.kernel.add_link(Link(name="ib0", index=0))
    host.kernel.add_address("ib0", "172.16.1.10/16")
    return host


def edit_config(host: FakeHost, edit: Callable[[dict[str, Any]], object]) -> None:
    """Somebody edits the installed config.json."""
    document = json.loads(host.files.texts[LAYOUT.config_path])
    edit(document["hostRouting"])
    host.files.texts[LAYOUT.config_path] = json.dumps(document, indent=2) + "\n"


def garble(host: FakeHost) -> None:
    text = host.files.texts[LAYOUT.config_path]
    host.files.texts[LAYOUT.config_path] = text.replace("[", "[,", 1)


def start_vpn(host: FakeHost) -> None:
    """A VPN sets a default route that comes before the node's own."""
    host.kernel.add_link(Link(name="tun0", index=0, kind="tun", type=65534))
    host.kernel.add_address("tun0", "10.8.0.6/24")
    default = Route.to("0.0.0.0/0", dev="tun0", gateway="10.8.0.1", protocol=4, metric=50)
    host.kernel.ip_route("add", default)


def refuse(host: FakeHost, unit: str = KUBELET, *reasons: str) -> None:
    """The gate refuses a start of the unit, for these reasons."""
    manager = manager_of(host)
    manager.states[unit] = "failed"
    manager.properties[unit] = {
        "LoadState": "loaded",
        "ActiveState": "failed",
        "StateChangeTimestamp": "Thu 03:02 UTC",
        "ConditionTimestamp": "Thu 03:02 UTC",
    }
    manager.errors[unit] = reasons or ("OVERLAP: ...",)


def let_pass(host: FakeHost, unit: str = KUBELET) -> None:
    """The gate lets the unit start, which runs."""
    manager_of(host).properties[unit]["ActiveState"] = "active"

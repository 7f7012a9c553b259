"""One host for each thing that `status` says, on which kubelet.service is gated."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from hostrouting.errors import BackendError, HostError
from hostrouting.gate.unit_states import State
from hostrouting.host.files import Entry
from hostrouting.model.route import OURS, PROTOCOL_BOOT, Route
from hostrouting.model.rule import Rule
from hostrouting.model.snapshot import Link
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, h200, plain_vm
from tests.support.incidents import (
    GUARDED,
    KUBELET,
    config,
    edit_config,
    escaping_node,
    garble,
    let_pass,
    node,
    refuse,
    start_vpn,
)
from tests.support.newer import newer_program
from tests.support.tasks import CIDR, LAYOUT, REPAIR, lose_routes, manager_of, type_routes

OVERLAP = "OVERLAP: 172.16.0.0/16 leaves through ib0 [172.16.0.0/16 dev ib0]; expected: eth0"
OVERRIDE = f"{LAYOUT.unit_directory}/{KUBELET}.d/10-kubeadm.conf"
PROBES = {"enabled": True, "interfaces": ["eth0"], "ensureRoute": False}
Change = Callable[[FakeHost], object]

REPAIR_LINE = "hostrouting repair | hostrouting apply --config -"


class SilentManager(FakeManager):
    def show(self, _names: Sequence[str], *_units: str) -> tuple[Mapping[str, str], ...]:
        raise HostError("systemctl did not answer within 30 s", what="systemd", kind="no-answer")


@attrs.define
class PrivateFiles(FakeFiles):
    """Only root may enter the folder of hostrouting."""

    def look(self, path: str) -> Entry | None:
        if path.startswith(f"{LAYOUT.config_directory}/"):
            denied = f"cannot read {path}: Permission denied; run as root"
            raise HostError(denied, what="file", target=path, errno=13)
        return super().look(path)


def silence_systemd(host: FakeHost) -> None:
    object.__setattr__(host, "manager", SilentManager())


def silence_kernel(host: FakeHost) -> None:
    for nth in range(1, 10):
        error = BackendError("no answer to the dump", kind="timeout")
        host.faults.fail("snapshot", error, nth=nth)


def close_files(host: FakeHost) -> None:
    files = PrivateFiles(texts=host.files.texts, programs=host.files.programs)
    object.__setattr__(host, "files", files)


def right() -> FakeHost:
    """A node on which all is as it should be, and kubelet was checked."""
    host = node(config(*REPAIR, guard=GUARDED))
    let_pass(host)
    return host


def after(make: Callable[[], FakeHost], *changes: Change) -> Callable[[], FakeHost]:
    """The node, on which something has happened."""

    def changed() -> FakeHost:
        host = make()
        for change in changes:
            change(host)
        return host

    return changed


def right_but(*changes: Change, **sections: object) -> Callable[[], FakeHost]:
    """A node with these sections of the configuration too, on which something has happened."""
    settings = config(*REPAIR) | {"guard": GUARDED, **sections}
    return after(lambda: node(settings), let_pass, *changes)


def without_routes(*changes: Change) -> Callable[[], FakeHost]:
    """A node that needs no routes, on which something has happened."""
    return after(lambda: node(config(), plain_vm), let_pass, *changes)


def written(path: str, text: str, mode: int = 0o600) -> Change:
    return lambda host: host.files.write(path, text, mode=mode)


def lost(path: str) -> Change:
    return lambda host: host.files.remove(path)


def hold_place(host: FakeHost) -> None:
    """Another program's route takes the place of one of ours."""
    lose_routes(host)
    host.kernel.ip_route("add", Route.to(REPAIR[0], dev="ib3", protocol=4))


def lose_default(host: FakeHost) -> None:
    """The default route is lost, and our routes with it."""
    for route in host.kernel.snapshot().routes:
        if not route.prefix.length or route.protocol == OURS:
            host.kernel.ip_route("delete", route)


def lose_default_alone(host: FakeHost) -> None:
    for route in host.kernel.snapshot().routes:
        if not route.prefix.length:
            host.kernel.ip_route("delete", route)


def end_guard(host: FakeHost) -> None:
    """The guard fails, and nobody starts it again."""
    manager_of(host).properties[LAYOUT.guard_unit] = {
        "LoadState": "loaded",
        "ActiveState": "failed",
        "Result": "exit-code",
        "ExecMainStatus": "1",
        "ExecMainStartTimestamp": "Thu 09:00 UTC",
    }
    manager_of(host).errors[LAYOUT.guard_unit] = ("[Errno 12] Cannot allocate memory",)


def stop_guard(host: FakeHost) -> None:
    manager_of(host).stop(LAYOUT.guard_unit)


def take_kubelet_out(settings: dict[str, Any]) -> None:
    """Somebody takes kubelet, the guard and a route out of the configuration."""
    settings["gate"]["units"] = ["k3s.service"]
    del settings["guard"]
    settings["staticRoutes"]["routes"].pop()


def start_k3s(host: FakeHost) -> None:
    """Another service that runs pods is on this host, and is not gated."""
    manager_of(host).properties["k3s.service"] = {"LoadState": "loaded", "ActiveState": "active"}


def lock(host: FakeHost) -> None:
    host.files.locked.add(LAYOUT.lock_path)


def stop_systemd(host: FakeHost) -> None:
    manager_of(host).running = False


def fill(folder: str, reason: str = "No space left on device") -> Change:
    return lambda host: host.files.broken.update({folder: reason})


def break_python(host: FakeHost) -> None:
    """A package is removed that Python needs."""
    host.files.texts["/usr/bin/python3"] = ""
    host.interpreter.broken = "No module named 'json'"


def write_override(host: FakeHost) -> None:
    """A drop-in of another program takes the gate away, and systemd has not read it."""
    host.files.write(OVERRIDE, "[Service]\nExecCondition=\n")


def load_override(host: FakeHost) -> None:
    """A drop-in of another program takes the gate away, and systemd has loaded it."""
    write_override(host)
    manager_of(host).reload()


def mark_packets(host: FakeHost) -> None:
    """A rule sends packets with a mark elsewhere."""
    host.kernel.add_link("eth1")
    host.kernel.ip_route("add", Route.to("0.0.0.0/0", dev="eth1", table=77))
    host.kernel.add_rule(Rule(family=4, priority=100, fwmark=0xCA6C, fwmask=0xFFFFFFFF, table=77))


def start_router(host: FakeHost, metric: int = 9) -> None:
    """A router begins to answer on another card, which gets a better default route."""
    host.kernel.add_link("eth1")
    host.kernel.add_address("eth1", "10.9.0.4/24")
    default = Route.to("0.0.0.0/0", dev="eth1", gateway="10.9.0.1", protocol=16, metric=metric)
    host.kernel.ip_route("add", default)


def move_default(host: FakeHost) -> None:
    """The default route is lost, and another card has one, which nothing uses by now."""
    lose_default_alone(host)
    start_router(host)


def start_second_card(host: FakeHost) -> None:
    """Another card gets a default route, which is worse."""
    start_router(host, metric=200)


def start_halves(host: FakeHost) -> None:
    """A VPN sets the halves of a default route, as OpenVPN does."""
    host.kernel.add_link(Link(name="tun0", index=0, kind="tun", type=65534))
    for half in ("0.0.0.0/1", "128.0.0.0/1"):
        host.kernel.ip_route("add", Route.to(half, dev="tun0"))


def start_equal_router(host: FakeHost) -> None:
    """Another card gets a default route with the metric of the first."""
    host.kernel.add_link("eth1")
    host.kernel.add_address("eth1", "10.9.0.4/24")
    [default] = (each for each in host.kernel.snapshot().routes if not each.prefix.length)
    by_eth1 = Route.to("0.0.0.0/0", dev="eth1", gateway="10.9.0.1", metric=default.metric)
    host.kernel.ip_route("append", by_eth1)


def kubelet(**properties: str) -> Change:
    def change(host: FakeHost) -> None:
        known = {"LoadState": "loaded", "StateChangeTimestamp": "Thu 03:02"}
        known["ConditionTimestamp"] = known["StateChangeTimestamp"]
        manager_of(host).properties[KUBELET] = {**known, **properties}
        manager_of(host).errors[KUBELET] = (OVERLAP,)

    return change


def ungate(host: FakeHost) -> None:
    edit_config(host, lambda settings: settings["gate"].update(units=["k3s.service"]))
    host.files.remove(LAYOUT.drop_in_path(KUBELET))


UNITS: dict[State, Sequence[Change]] = {
    "stuck": [kubelet(ActiveState="failed")],
    "fails": [kubelet(ActiveState="activating", SubState="auto-restart")],
    "masked": [kubelet(ActiveState="inactive", LoadState="masked", UnitFileState="masked-runtime")],
    "skipped": [kubelet(ActiveState="inactive", ConditionResult="no")],
    "unknown": [kubelet(ActiveState="inactive", LoadState="not-found", StateChangeTimestamp="")],
    "waiting": [lock, kubelet(ActiveState="activating", SubState="condition")],
    "queued": [kubelet(ActiveState="inactive", StateChangeTimestamp="", Job="28")],
    "no answer": [silence_systemd],
    "starting": [kubelet(ActiveState="activating", SubState="start")],
    "stopped": [kubelet(ActiveState="inactive")],
    "runs": [kubelet(ActiveState="active")],
    "not gated": [ungate],
}
"""By the state of kubelet: what has happened on a node."""

INCIDENTS: dict[str, Callable[[], FakeHost]] = {
    "nothing": lambda: FakeHost(kernel=h200()),
    "in force": right,
    "in force: a node of kubeadm in mode WARN": right_but(
        start_k3s, routeOverlap={"expectedCidrs": [CIDR], "mode": "WARN"}
    ),
    "in force: another program has set the routes": right_but(
        lose_routes, lambda host: type_routes(host, *REPAIR, protocol=PROTOCOL_BOOT)
    ),
    "in force: another card has a worse default route": right_but(start_second_card),
    "differs: another card has a better default route than the routes lead by": right_but(
        start_router
    ),
    "differs: another card has a better default route, and addresses escape": right_but(
        start_router, lose_routes
    ),
    "open: a drop-in is deleted, another card is better, and addresses escape": after(
        escaping_node, let_pass, start_router, lost(LAYOUT.drop_in_path(KUBELET))
    ),
    "differs: routes are missing": right_but(lose_routes),
    "differs: routes are missing, and nothing is expected": right_but(lose_routes, routeOverlap={}),
    "differs: the place of a route is taken": right_but(hold_place),
    "differs: the default route is lost, and our routes stay, in mode WARN": right_but(
        lose_default_alone, routeOverlap={"expectedCidrs": [CIDR], "mode": "WARN"}
    ),
    "differs: addresses escape in mode STRICT": escaping_node,
    "differs: config.json was edited": right_but(
        lambda host: edit_config(host, take_kubelet_out), gate={"units": [KUBELET, "k3s.service"]}
    ),
    "differs: a newer release is installed": right_but(
        lambda host: host.files.programs.update({LAYOUT.program_path: newer_program()})
    ),
    "differs: a unit of ours was edited": right_but(
        written(LAYOUT.unit_path(LAYOUT.routes_unit), "[Service]\n")
    ),
    "differs: /etc is read-only": right_but(
        lost(LAYOUT.unit_path(LAYOUT.check_unit)), fill("/etc", "Read-only file system")
    ),
    "differs: addresses escape, and /etc is read-only": after(
        escaping_node, let_pass, fill("/etc", "Read-only file system")
    ),
    "differs: kubelet was refused, and nothing holds it back now": right_but(
        lambda host: refuse(host, KUBELET, OVERLAP)
    ),
    "differs: somebody has stopped the guard": right_but(stop_guard),
    "differs: the guard has failed, and routes are missing": right_but(end_guard, lose_routes),
    "differs: routes of hostrouting are not configured": after(
        escaping_node, let_pass, lambda host: type_routes(host, *REPAIR)
    ),
    "differs: the table for probes is lost": right_but(
        lambda host: host.nftables.tables.clear(), probeRewrite=PROBES
    ),
    "differs: the opening is ignored": right_but(written(LAYOUT.opening_path, "ticket", 0o666)),
    "differs: kubelet is masked, after a fight": right_but(
        *UNITS["masked"], written(LAYOUT.fight_path, "412\nanother program takes away our routes\n")
    ),
    "differs: another program fights with the guard, and kubelet was refused": right_but(
        written(LAYOUT.fight_path, "412\nanother program takes away our routes\n"),
        *UNITS["fails"],
    ),
    "differs: the default route is another card's by now": right_but(move_default),
    "differs: the default route is another card's by now, and nothing is expected": right_but(
        move_default, routeOverlap={}
    ),
    "waiting: kubelet was refused, and starts again": right_but(*UNITS["fails"]),
    "open: by an administrator": right_but(written(LAYOUT.opening_path, "ticket 4711\n")),
    "open: by an administrator, and routes are missing": right_but(
        lose_routes, written(LAYOUT.opening_path, "ticket 4711\n")
    ),
    "open: by a drop-in that systemd has loaded, and routes are missing": right_but(
        load_override, lose_routes
    ),
    "differs: systemd has not read a drop-in that takes the gate away": right_but(write_override),
    "differs: systemd has not read a drop-in that takes the gate away, in mode WARN": right_but(
        write_override, routeOverlap={"expectedCidrs": [CIDR], "mode": "WARN"}
    ),
    "open: the drop-ins of two units are deleted": right_but(
        lost(LAYOUT.drop_in_path(KUBELET)),
        lost(LAYOUT.drop_in_path("k3s.service")),
        gate={"units": [KUBELET, "k3s.service"]},
    ),
    "open: k3s is not gated": right_but(start_k3s),
    "open: no systemd": right_but(stop_systemd),
    "shut: the program is lost": right_but(lost(LAYOUT.program_path)),
    "shut: Python is broken": right_but(break_python),
    "shut: config.json is broken": right_but(garble),
    "shut: the network waits for kubelet, whose gate waits for the network": right_but(
        lambda host: manager_of(host).properties[KUBELET].update(Before="network-online.target")
    ),
    "shut: others can write to config.json, and routes are missing": right_but(
        lose_routes, lambda host: host.files.modes.update({LAYOUT.config_path: 0o666})
    ),
    "waiting: for a default route": right_but(lose_default),
    "differs: for a device to be named": right_but(start_vpn, lose_routes),
    "differs: the verdict is undecided": right_but(start_vpn),
    "undecided: a VPN has the halves of a default route": without_routes(start_halves),
    "undecided: two cards have default routes of one metric": without_routes(start_equal_router),
    "undecided: packets with a mark go elsewhere": without_routes(mark_packets),
    "waiting: systemd does not answer": right_but(silence_systemd),
    "waiting: the kernel does not answer": right_but(silence_kernel),
    "waiting: only root may read the files": right_but(close_files),
}
"""By the state, and what has happened."""


DROP_INS = {
    "ExecCondition=": True,
    "\t ExecCondition\t = \r\n": True,
    "#ExecCondition=\n": False,
    "ExecCondition= \\\n/bin/true\n": False,
}
"""By what is below [Service] in a drop-in: whether systemd forgets the conditions before it."""

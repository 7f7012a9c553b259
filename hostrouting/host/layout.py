"""Every path and every name that hostrouting uses on a host."""

from itertools import product

from hostrouting.config.settings import MACHINES

DROP_IN = "00-host-routing.conf"
"""The file name of the drop-in that runs the gate before a unit starts. It has to sort before all
others.
"""


class HostLayout:
    """Every path and name, as the host itself sees it."""

    config_directory = "/etc/hostrouting"
    gate_directory = "/etc/hostrouting/gate.d"
    state_directory = "/run/aks-flex-node"
    """The results of the last check, where the node agent reads them. The agent can remove the
    folder at any time.
    """
    unit_directory = "/etc/systemd/system"

    routes_unit = "static-routes.service"
    check_unit = "check-route-overlap.service"
    probe_unit = "probe-rewrite.service"
    guard_unit = "hostrouting-guard.service"

    routes_step = "10-static-routes"
    check_step = "20-check-route-overlap"
    probe_step = "30-probe-rewrite"

    config_path = "/etc/hostrouting/config.json"
    gate_path = "/etc/hostrouting/gate.sh"
    guard_path = "/etc/hostrouting/guard.sh"
    networkd_path = "/etc/systemd/networkd.conf.d/50-hostrouting.conf"
    lock_path = "/run/hostrouting/lock"
    """Held by whatever changes the host: a run, a start of a gated unit, a pass of the guard."""
    turn_path = "/run/hostrouting/turn"
    """There after an earlier version, whose starts share the lock. Starts that overlap could keep
    it shared forever, so each first takes this one, and a run holds it while it waits for the lock.
    """
    opening_path = "/run/hostrouting/gate.open"
    """Break glass: while this file exists, belongs to root and contains a reason, gated units start
    unchecked.
    """
    ok_path = "/run/aks-flex-node/route-overlap.ok"
    """The marker for a check without findings."""
    detected_path = "/run/aks-flex-node/route-overlap.detected"
    """The marker with the findings of a check that has some."""
    undecided_path = "/run/aks-flex-node/route-overlap.undecided"
    """The file with the doubts of a check that is undecided. An agent that knows the two markers
    finds neither.
    """
    markers = (ok_path, detected_path, undecided_path)
    """The files that the check writes; at most one of them exists."""

    _unit_folders = (unit_directory, "/run/systemd/system")
    _link_folders = (f"{MACHINES}.requires", f"{MACHINES}.wants", "multi-user.target.requires")
    original_links = tuple(
        map("/".join, product(_unit_folders, _link_folders, (routes_unit, check_unit)))
    )
    """The links with which the Go original (docs/design.md) makes running machines depend on the
    oneshots.
    """

    @classmethod
    def step_path(cls, step: str) -> str:
        """The path of the script of this step of the gate. The name lacks `.sh`; ValueError for an
        invalid name.
        """
        if not step or "/" in step or step.startswith(".") or step.endswith(".sh"):
            raise ValueError(f"{step!r} cannot be the name of a step: write one such as 50-licence")
        return f"{cls.gate_directory}/{step}.sh"

    @classmethod
    def unit_path(cls, unit: str) -> str:
        return f"{cls.unit_directory}/{unit}"

    @classmethod
    def enabled_path(cls, unit: str) -> str:
        """The path of the link that starts this unit at boot."""
        return f"{cls.unit_directory}/multi-user.target.wants/{unit}"

    @classmethod
    def drop_in_path(cls, unit: str) -> str:
        return f"{cls.unit_directory}/{unit}.d/{DROP_IN}"

    @staticmethod
    def undo_path(number: int) -> str:
        """The path of the nth undo file, which survives a reboot: it restores what azure-vnet had
        left behind.
        """
        return f"/var/lib/hostrouting/azure-vnet-{number}.undo"

"""Every path and every name that hostrouting uses on a host.

Here: names. Not here: the contents of the files (`boot`), and writing them (`host.files`).
"""

import attrs

DROP_IN = "00-host-routing.conf"
"""The file name of the drop-in that runs the gate before a unit starts. It has to sort before all others."""


class _Path:
    """A path for this process: the host's own path, below the root."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, layout: "HostLayout", _: object = None) -> str:
        return layout.at(self._path)


@attrs.frozen(kw_only=True)
class HostLayout:
    """Every path and name on one host or, with `root`, on an image mounted there or in a sandbox.

    Names that end in `_path` are the paths to use from this process, below the root. The others are those that the
    host itself will see; units and scripts contain these.
    """

    root: str = attrs.field(default="/")

    config_directory = "/etc/hostrouting"
    gate_directory = "/etc/hostrouting/gate.d"
    gate_script = "/etc/hostrouting/gate.sh"
    guard_script = "/etc/hostrouting/guard.sh"
    runtime_directory = "/run/hostrouting"
    state_directory = "/run/aks-flex-node"
    """The results of the last check, where the node agent reads them. The agent can remove the folder at any time."""
    unit_directory = "/etc/systemd/system"
    lasting_directory = "/var/lib/hostrouting"
    """For files that an operator may need after a reboot."""

    routes_unit = "static-routes.service"
    check_unit = "check-route-overlap.service"
    probe_unit = "probe-rewrite.service"
    guard_unit = "hostrouting-guard.service"
    machine_unit = "systemd-nspawn@.service"
    """The template of the units that the gate holds back unless others are configured."""

    routes_step = "10-static-routes"
    check_step = "20-check-route-overlap"
    probe_step = "30-probe-rewrite"

    config_path = _Path("/etc/hostrouting/config.json")
    gate_path = _Path(gate_script)
    guard_path = _Path(guard_script)
    networkd_path = _Path("/etc/systemd/networkd.conf.d/50-hostrouting.conf")
    lock_path = _Path("/run/hostrouting/lock")
    """Held shared by each start of a gated unit, and exclusively by what changes the host."""
    turn_path = _Path("/run/hostrouting/turn")
    """Held by whoever waits for the lock, so that starts which follow each other cannot starve a change."""
    opening_path = _Path("/run/hostrouting/gate.open")
    """Break glass: while this file of root has a reason in it, gated units start unchecked."""
    detected_path = _Path("/run/aks-flex-node/route-overlap.detected")
    """The marker with the findings of the check, if there are any."""
    ok_path = _Path("/run/aks-flex-node/route-overlap.ok")
    """The marker for a check without findings."""

    @root.validator
    def _is_absolute(self, _attribute: object, value: str) -> None:
        if not value.startswith("/") or "\0" in value:
            raise ValueError(f"root: {value!r} is not an absolute path")

    @property
    def markers(self) -> tuple[str, ...]:
        """The files that the check writes, of which there is one at most."""
        return (self.ok_path, self.detected_path)

    def at(self, path: str) -> str:
        """The path on the host as a path for this process, below the root."""
        return self.root.rstrip("/") + path

    def step_path(self, step: str) -> str:
        """The path of the script of this step of the gate."""
        return self.at(f"{self.gate_directory}/{step}.sh")

    def unit_path(self, unit: str) -> str:
        """The path of the file of this unit."""
        return self.at(f"{self.unit_directory}/{unit}")

    def enabled_path(self, unit: str) -> str:
        """The path of the link that starts this unit at boot."""
        return self.at(f"{self.unit_directory}/multi-user.target.wants/{unit}")

    def drop_in_path(self, unit: str) -> str:
        """The path of the drop-in that runs the gate before this unit starts."""
        return self.at(f"{self.unit_directory}/{unit}.d/{DROP_IN}")

    def undo_file(self, cni: str, number: int) -> str:
        """The path of the nth undo file for this CNI; it restores what a clean-up deleted."""
        return self.at(f"{self.lasting_directory}/{cni}-{number}.undo")

    @property
    def original_links(self) -> tuple[str, ...]:
        """The links by which the Go original's installation makes running machines depend on the oneshots."""
        folders = [f"{self.machine_unit}.requires", f"{self.machine_unit}.wants", "multi-user.target.requires"]
        return tuple(
            self.at(f"{directory}/{folder}/{unit}")
            for directory in (self.unit_directory, "/run/systemd/system")
            for folder in folders
            for unit in (self.routes_unit, self.check_unit)
        )


PLACES = HostLayout()
"""Where everything is on a host of the usual layout."""

"""Every path and every name that hostrouting uses on a host, in one value.

Here: names. Not here: the contents of the files (`boot`), and writing them (`host.files`).
"""

import attrs

DROP_IN = "00-host-routing.conf"
"""The file name of the drop-in that runs the gate before a unit starts."""


def _directory(_: "HostLayout", attribute: "attrs.Attribute[str]", value: str) -> None:
    # Paths are written into units and scripts without quoting, so they must not contain special characters.
    letters = value.replace("/", "").replace("-", "").replace("_", "").replace(".", "").replace("@", "")
    if not (value.startswith("/") and letters.isascii() and letters.isalnum()) or "/." in value or value.endswith("/"):
        rule = "is not an absolute path of only letters, digits, '-', '_', '.' and '@'"
        raise ValueError(f"{attribute.name}: {value!r} {rule}")
    if attribute.name in {"state_directory", "runtime_directory"} and not value.startswith("/run/"):
        raise ValueError(f"{attribute.name}: {value!r} is not under /run, where systemd creates it for our units")


class _Name:
    """A name as the host sees it, built from other names of the layout."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, layout: "HostLayout", _: object = None) -> str:
        return self._text.format(layout)


class _Path(_Name):
    """The same name as a path for this process, below the root."""

    def __get__(self, layout: "HostLayout", _: object = None) -> str:
        return layout.at(super().__get__(layout))


@attrs.frozen(kw_only=True)
class HostLayout:
    """Every path and name on one host or, with `root`, on an image mounted there or in a sandbox.

    Names that end in `_path` are the paths to use from this process, below the root. The others are those that the
    host itself will see; units and scripts contain these.
    """

    root: str = "/"
    config_directory: str = attrs.field(default="/etc/hostrouting", validator=_directory)
    """Only hostrouting writes here: what another program removes on a node does not open or shut the gate."""
    agent_directory: str = attrs.field(default="/etc/aks-flex-node", validator=_directory)
    """The node agent's folder: it has the agent's configuration and, where it exists, links to two of our scripts."""
    state_directory: str = attrs.field(default="/run/aks-flex-node", validator=_directory)
    """The results of the last check, where the agent reads them. The agent can remove the folder at any time."""
    runtime_directory: str = attrs.field(default="/run/hostrouting", validator=_directory)
    """What only hostrouting needs until the next boot: the locks, the guard's state, and what is in the kernel."""
    unit_directory: str = attrs.field(default="/etc/systemd/system", validator=_directory)
    lasting_directory: str = attrs.field(default="/var/lib/hostrouting", validator=_directory)
    """For files that an operator may need after a reboot."""

    # Units.
    routes_unit = "static-routes.service"
    check_unit = "check-route-overlap.service"
    probe_unit = "probe-rewrite.service"
    gate_unit = "host-routing-gate.service"
    guard_unit = "hostrouting-guard.service"
    machine_unit = "systemd-nspawn@.service"
    """The template of the units that the gate holds back unless others are configured."""
    routes_unit_path = _Path("{0.unit_directory}/{0.routes_unit}")
    check_unit_path = _Path("{0.unit_directory}/{0.check_unit}")
    probe_unit_path = _Path("{0.unit_directory}/{0.probe_unit}")
    gate_unit_path = _Path("{0.unit_directory}/{0.gate_unit}")
    guard_unit_path = _Path("{0.unit_directory}/{0.guard_unit}")

    # The links that enable units, and the presets that keep these enabled after `systemctl preset-all`.
    routes_enabled_path = _Path("{0.unit_directory}/multi-user.target.wants/{0.routes_unit}")
    probe_enabled_path = _Path("{0.unit_directory}/multi-user.target.wants/{0.probe_unit}")
    guard_enabled_path = _Path("{0.unit_directory}/multi-user.target.wants/{0.guard_unit}")
    routes_preset_path = _Path("/etc/systemd/system-preset/50-hostrouting-static-routes.preset")
    probe_preset_path = _Path("/etc/systemd/system-preset/50-hostrouting-probe-rewrite.preset")
    guard_preset_path = _Path("/etc/systemd/system-preset/50-hostrouting-guard.preset")

    # The scripts that units run.
    routes_script = _Name("{0.config_directory}/static-routes.sh")
    check_script = _Name("{0.config_directory}/check-route-overlap.sh")
    probe_script = _Name("{0.config_directory}/probe-rewrite.sh")
    routes_script_path = _Path("{0.routes_script}")
    check_script_path = _Path("{0.check_script}")
    probe_script_path = _Path("{0.probe_script}")

    # The names that the scripts have in the agent's folder.
    routes_alias_path = _Path("{0.agent_directory}/static-routes.sh")
    check_alias_path = _Path("{0.agent_directory}/check-route-overlap.sh")

    # The section of the configuration that only a clean-up reads.

    # The gate: its script and its list of steps.
    gate_script = _Name("{0.config_directory}/host-routing-gate.sh")
    gate_steps = _Name("{0.config_directory}/host-routing-gate.conf")
    gate_script_path = _Path("{0.gate_script}")
    gate_steps_path = _Path("{0.gate_steps}")
    opening_path = _Path("{0.config_directory}/gate.open")
    """Until when which unit may start unchecked, by whose decision; an administrator writes it."""

    # For systemd-networkd, which then keeps routes and rules that it does not know.
    networkd_path = _Path("/etc/systemd/networkd.conf.d/50-hostrouting.conf")

    # The lock that serialises runs, and what the runs know.
    lock = _Name("{0.runtime_directory}/host-routing.lock")
    lock_path = _Path("{0.lock}")
    detected_path = _Path("{0.state_directory}/route-overlap.detected")
    """The marker with the findings of the check, if there are any."""
    ok_path = _Path("{0.state_directory}/route-overlap.ok")
    """The marker for a check without findings."""
    report_path = _Path("{0.state_directory}/route-overlap.json")
    unfinished_path = _Path("{0.state_directory}/route-overlap.new")
    """The temporary file for these; if the boot check is killed while writing, the file remains."""
    guard_path = _Path("{0.runtime_directory}/guard.json")
    guard_lock_path = _Path("{0.runtime_directory}/guard.lock")
    """The lock file that a running guard holds."""
    figures_path = _Path("{0.runtime_directory}/hostrouting.prom")
    """The guard's figures for a Prometheus collector."""
    probe_applied_path = _Path("{0.runtime_directory}/probe-rewrite.applied")
    """The record of the table and the route that were added to the kernel for probes."""
    probe_unfinished_path = _Path("{0.runtime_directory}/probe-rewrite.new")
    """The temporary file for that one; if the boot script is killed while writing, it remains."""

    def __attrs_post_init__(self) -> None:
        """Raise ValueError for a relative root, or for scripts in the agent's folder."""
        if not self.root.startswith("/") or "\0" in self.root:
            raise ValueError(f"root: {self.root!r} is not an absolute path")
        if self.config_directory == self.agent_directory:
            raise ValueError(f"config_directory: {self.config_directory!r} is the agent's folder; give one of its own")

    def at(self, path: str) -> str:
        """The path on the host as a path for this process, below the root."""
        return self.root.rstrip("/") + path

    def gate_drop_in(self, unit: str = machine_unit) -> str:
        """The drop-in that runs the gate before this unit starts, as the host sees it.

        Its name sorts before others: systemd then runs their commands after ours, and keeps ours if it drops theirs.
        """
        return f"{self.unit_directory}/{unit}.d/{DROP_IN}"

    def undo_file(self, cni: str, number: int) -> str:
        """The path of the nth undo file for this CNI; it has what a clean-up deletes."""
        return self.at(f"{self.lasting_directory}/{cni}-{number}.undo")

    def obsolete_paths(self, unit: str) -> tuple[str, ...]:
        """The links by which another installer may have made the machines depend on this unit."""
        folders = (f"{self.machine_unit}.requires", f"{self.machine_unit}.wants", "multi-user.target.requires")
        return tuple(
            self.at(f"{directory}/{folder}/{unit}")
            for directory in (self.unit_directory, "/run/systemd/system")
            for folder in folders
        )

    @property
    def own_folders(self) -> tuple[str, ...]:
        """Our folders that no package of systemd owns; empty ones are removed."""
        found = ("/etc/systemd/system-preset", "/etc/systemd/networkd.conf.d", self.config_directory)
        return tuple(map(self.at, found))


PLACES = HostLayout()
"""Where everything is on a host of the usual layout."""

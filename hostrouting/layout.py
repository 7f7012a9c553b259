"""Where everything of ours lives on a host: every path and every name, in one value.

Here: names. Not here: what is in the files (`render`), and who writes them (`system`).
"""

import attrs

__all__ = ["HostLayout"]


def _directory(_: "HostLayout", attribute: "attrs.Attribute[str]", value: str) -> None:
    # What stands in units and scripts is written there as it is, so it must mean nothing but itself.
    letters = value.replace("/", "").replace("-", "").replace("_", "").replace(".", "").replace("@", "")
    if not (value.startswith("/") and letters.isascii() and letters.isalnum()) or "/." in value or value.endswith("/"):
        rule = "is not an absolute path of letters, digits, '-', '_', '.' and '@' alone"
        raise ValueError(f"{attribute.name}: {value!r} {rule}")
    if attribute.name == "state_directory" and not value.startswith("/run/"):
        raise ValueError(f"{attribute.name}: {value!r} is not under /run, where systemd makes it for the check")


@attrs.frozen(kw_only=True)
class HostLayout:
    """Every path and name on one host, or, with `root`, on an image that is mounted there or in a sandbox.

    Properties that end in `_path` are where a file is from here, below the root. The directories are as the host
    itself will see them; that is what stands in units and scripts.
    """

    root: str = "/"
    config_directory: str = attrs.field(default="/etc/aks-flex-node", validator=_directory)
    state_directory: str = attrs.field(default="/run/aks-flex-node", validator=_directory)
    unit_directory: str = attrs.field(default="/etc/systemd/system", validator=_directory)
    lasting_directory: str = attrs.field(default="/var/lib/aks-flex-node", validator=_directory)
    """For what an operator may need after a reboot."""
    protocols_directory: str = attrs.field(default="/etc/iproute2/rt_protos.d", validator=_directory)

    routes_unit = "static-routes.service"
    check_unit = "check-route-overlap.service"
    probe_unit = "probe-rewrite.service"
    gate_unit = "host-routing-gate.service"
    machine_unit = "systemd-nspawn@.service"
    """The template of the machines that are held back."""

    @property
    def machines(self) -> str:
        """What matches the units of all machines."""
        return self.machine_unit.replace("@", "@*")

    def __attrs_post_init__(self) -> None:
        """Refuse a root that leads somewhere else from another directory."""
        if not self.root.startswith("/") or "\0" in self.root:
            raise ValueError(f"root: {self.root!r} is not an absolute path")

    def at(self, path: str) -> str:
        """Where a path of the host is from here."""
        return self.root.rstrip("/") + path

    @property
    def routes_script(self) -> str:
        """The script that installs the static routes at boot, as the host sees it."""
        return f"{self.config_directory}/static-routes.sh"

    @property
    def check_script(self) -> str:
        """The script that checks for overlaps at boot, as the host sees it."""
        return f"{self.config_directory}/check-route-overlap.sh"

    @property
    def probe_script(self) -> str:
        """The script that has the source of probes rewritten at boot, as the host sees it."""
        return f"{self.config_directory}/probe-rewrite.sh"

    @property
    def routes_script_path(self) -> str:
        """Where the script that installs the static routes is."""
        return self.at(self.routes_script)

    @property
    def check_script_path(self) -> str:
        """Where the script that checks for overlaps is."""
        return self.at(self.check_script)

    @property
    def probe_script_path(self) -> str:
        """Where the script that has the source of probes rewritten is."""
        return self.at(self.probe_script)

    @property
    def routes_unit_path(self) -> str:
        """Where the unit that installs the static routes is."""
        return self.at(f"{self.unit_directory}/{self.routes_unit}")

    @property
    def check_unit_path(self) -> str:
        """Where the unit that checks for overlaps is."""
        return self.at(f"{self.unit_directory}/{self.check_unit}")

    @property
    def probe_unit_path(self) -> str:
        """Where the unit that has the source of probes rewritten is."""
        return self.at(f"{self.unit_directory}/{self.probe_unit}")

    @property
    def routes_enabled_path(self) -> str:
        """Where the link is by which the unit that installs the static routes is enabled."""
        return self.at(f"{self.unit_directory}/multi-user.target.wants/{self.routes_unit}")

    @property
    def routes_preset_path(self) -> str:
        """Where the file is by which that unit stays enabled when all units are preset anew."""
        return self.at("/etc/systemd/system-preset/50-hostrouting.preset")

    @property
    def probe_enabled_path(self) -> str:
        """Where the link is by which the unit that has the source of probes rewritten is enabled."""
        return self.at(f"{self.unit_directory}/multi-user.target.wants/{self.probe_unit}")

    @property
    def probe_preset_path(self) -> str:
        """Where the file is by which that unit stays enabled when all units are preset anew."""
        return self.at("/etc/systemd/system-preset/50-hostrouting-probe-rewrite.preset")

    def obsolete_paths(self, unit: str) -> tuple[str, ...]:
        """Where another installer may have tied this unit of ours to the machines so that it could stop them."""
        folders = (f"{self.machine_unit}.requires", f"{self.machine_unit}.wants", "multi-user.target.requires")
        return tuple(
            self.at(f"{directory}/{folder}/{unit}")
            for directory in (self.unit_directory, "/run/systemd/system")
            for folder in folders
        )

    @property
    def gate_drop_in(self) -> str:
        """The drop-in by which machines ask the gate, as the host sees it.

        Its name sorts before those of others: systemd runs their commands after ours, and cannot lose ours with theirs.
        """
        return f"{self.unit_directory}/{self.machine_unit}.d/00-host-routing.conf"

    @property
    def gate_script(self) -> str:
        """The script of the gate, as the host sees it."""
        return f"{self.config_directory}/host-routing-gate.sh"

    @property
    def gate_steps(self) -> str:
        """The list of the gate's steps, as the host sees it."""
        return f"{self.config_directory}/host-routing-gate.conf"

    @property
    def lock(self) -> str:
        """The file whose lock serialises two runs, as the host sees it."""
        return f"{self.state_directory}/host-routing.lock"

    @property
    def gate_drop_in_path(self) -> str:
        """Where the drop-in is by which machines ask the gate."""
        return self.at(self.gate_drop_in)

    @property
    def gate_unit_path(self) -> str:
        """Where the unit is that takes the gate's steps."""
        return self.at(f"{self.unit_directory}/{self.gate_unit}")

    @property
    def gate_script_path(self) -> str:
        """Where the script of the gate is."""
        return self.at(self.gate_script)

    @property
    def gate_steps_path(self) -> str:
        """Where the list of the gate's steps is."""
        return self.at(self.gate_steps)

    @property
    def former_drop_in_paths(self) -> tuple[str, ...]:
        """Where the first installations had a drop-in for each task."""
        names = ("50-static-routes.conf", "60-check-route-overlap.conf")
        return tuple(self.at(f"{self.unit_directory}/{self.machine_unit}.d/{name}") for name in names)

    @property
    def former_note_paths(self) -> tuple[str, ...]:
        """Where the first installations noted what a run had not finished."""
        names = ("static-routes.pending", "check-route-overlap.pending")
        return tuple(self.at(f"{self.state_directory}/{name}") for name in names)

    @property
    def protocol_name_path(self) -> str:
        """Where the file is that gives our route protocol number its name."""
        return self.at(f"{self.protocols_directory}/hostrouting.conf")

    @property
    def detected_path(self) -> str:
        """Where the check leaves what it found, when it found something."""
        return self.at(f"{self.state_directory}/route-overlap.detected")

    @property
    def ok_path(self) -> str:
        """Where the check leaves word that nothing escapes."""
        return self.at(f"{self.state_directory}/route-overlap.ok")

    @property
    def report_path(self) -> str:
        """Where the check leaves its verdict as JSON."""
        return self.at(f"{self.state_directory}/route-overlap.json")

    @property
    def unfinished_path(self) -> str:
        """Where the check at boot writes what will be one of these; when it is killed meanwhile, it is left."""
        return self.at(f"{self.state_directory}/route-overlap.new")

    @property
    def probe_applied_path(self) -> str:
        """Where the table and the route are named that were put into the kernel for probes."""
        return self.at(f"{self.state_directory}/probe-rewrite.applied")

    @property
    def probe_unfinished_path(self) -> str:
        """Where the script at boot writes what will be that file; when it is killed meanwhile, it is left."""
        return self.at(f"{self.state_directory}/probe-rewrite.new")

    def undo_file(self, number: int) -> str:
        """Where the nth clean-up of what azure-vnet left behind writes what it deletes."""
        return self.at(f"{self.lasting_directory}/azure-vnet-{number}.undo")

    @property
    def lock_path(self) -> str:
        """The file whose lock serialises two runs."""
        return self.at(self.lock)

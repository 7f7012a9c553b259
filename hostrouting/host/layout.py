"""Every path and every name that hostrouting uses on a host, in one value.

Here: names. Not here: the contents of the files (`boot`), and writing them (`host.files`).
"""

import attrs

__all__ = ["HostLayout"]


def _directory(_: "HostLayout", attribute: "attrs.Attribute[str]", value: str) -> None:
    # Paths are written into units and scripts without quoting, so they must not contain special characters.
    letters = value.replace("/", "").replace("-", "").replace("_", "").replace(".", "").replace("@", "")
    if not (value.startswith("/") and letters.isascii() and letters.isalnum()) or "/." in value or value.endswith("/"):
        rule = "is not an absolute path of only letters, digits, '-', '_', '.' and '@'"
        raise ValueError(f"{attribute.name}: {value!r} {rule}")
    if attribute.name == "state_directory" and not value.startswith("/run/"):
        raise ValueError(f"{attribute.name}: {value!r} is not under /run, where systemd creates it for the check")


@attrs.frozen(kw_only=True)
class HostLayout:
    """Every path and name on one host or, with `root`, on an image mounted there or in a sandbox.

    Properties that end in `_path` are the paths to use from this process, below the root. The other paths are those
    that the host itself will see; units and scripts contain these.
    """

    root: str = "/"
    config_directory: str = attrs.field(default="/etc/aks-flex-node", validator=_directory)
    state_directory: str = attrs.field(default="/run/aks-flex-node", validator=_directory)
    unit_directory: str = attrs.field(default="/etc/systemd/system", validator=_directory)
    lasting_directory: str = attrs.field(default="/var/lib/aks-flex-node", validator=_directory)
    """For files that an operator may need after a reboot."""
    protocols_directory: str = attrs.field(default="/etc/iproute2/rt_protos.d", validator=_directory)

    routes_unit = "static-routes.service"
    check_unit = "check-route-overlap.service"
    probe_unit = "probe-rewrite.service"
    rules_unit = "kernel-rules.service"
    gate_unit = "host-routing-gate.service"
    guard_unit = "hostrouting-guard.service"
    machine_unit = "systemd-nspawn@.service"
    """The template unit of the machines that the gate controls."""

    @property
    def machines(self) -> str:
        """The pattern that matches the units of all machines."""
        return self.machine_unit.replace("@", "@*")

    def __attrs_post_init__(self) -> None:
        """Raise ValueError for a relative root."""
        if not self.root.startswith("/") or "\0" in self.root:
            raise ValueError(f"root: {self.root!r} is not an absolute path")

    def at(self, path: str) -> str:
        """The path on the host as a path for this process, below the root."""
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
        """The script that installs the probe rewrite at boot, as the host sees it."""
        return f"{self.config_directory}/probe-rewrite.sh"

    @property
    def rules_script(self) -> str:
        """The script that adds Linux's own rules again at boot, as the host sees it."""
        return f"{self.config_directory}/kernel-rules.sh"

    @property
    def rules_script_path(self) -> str:
        """The path of the script that adds Linux's own rules again."""
        return self.at(self.rules_script)

    @property
    def rules_unit_path(self) -> str:
        """The path of the unit that adds Linux's own rules again."""
        return self.at(f"{self.unit_directory}/{self.rules_unit}")

    @property
    def rules_enabled_path(self) -> str:
        """The path of the link that enables the unit that adds Linux's own rules again."""
        return self.at(f"{self.unit_directory}/multi-user.target.wants/{self.rules_unit}")

    @property
    def rules_preset_path(self) -> str:
        """The path of the preset file that keeps that unit enabled after `systemctl preset-all`."""
        return self.at("/etc/systemd/system-preset/50-hostrouting-kernel-rules.preset")

    @property
    def networkd_path(self) -> str:
        """The path of the drop-in that tells systemd-networkd to keep routes and rules that it does not know."""
        return self.at("/etc/systemd/networkd.conf.d/50-hostrouting.conf")

    @property
    def routes_script_path(self) -> str:
        """The path of the script that installs the static routes."""
        return self.at(self.routes_script)

    @property
    def check_script_path(self) -> str:
        """The path of the script that checks for overlaps."""
        return self.at(self.check_script)

    @property
    def probe_script_path(self) -> str:
        """The path of the script that installs the probe rewrite."""
        return self.at(self.probe_script)

    @property
    def routes_unit_path(self) -> str:
        """The path of the unit that installs the static routes."""
        return self.at(f"{self.unit_directory}/{self.routes_unit}")

    @property
    def check_unit_path(self) -> str:
        """The path of the unit that checks for overlaps."""
        return self.at(f"{self.unit_directory}/{self.check_unit}")

    @property
    def probe_unit_path(self) -> str:
        """The path of the unit that installs the probe rewrite."""
        return self.at(f"{self.unit_directory}/{self.probe_unit}")

    @property
    def routes_enabled_path(self) -> str:
        """The path of the link that enables the unit that installs the static routes."""
        return self.at(f"{self.unit_directory}/multi-user.target.wants/{self.routes_unit}")

    @property
    def routes_preset_path(self) -> str:
        """The path of the preset file that keeps that unit enabled after `systemctl preset-all`."""
        return self.at("/etc/systemd/system-preset/50-hostrouting.preset")

    @property
    def probe_enabled_path(self) -> str:
        """The path of the link that enables the unit that installs the probe rewrite."""
        return self.at(f"{self.unit_directory}/multi-user.target.wants/{self.probe_unit}")

    @property
    def probe_preset_path(self) -> str:
        """The path of the preset file that keeps that unit enabled after `systemctl preset-all`."""
        return self.at("/etc/systemd/system-preset/50-hostrouting-probe-rewrite.preset")

    def obsolete_paths(self, unit: str) -> tuple[str, ...]:
        """The paths of links by which another installer may have made the machines depend on this unit."""
        folders = (f"{self.machine_unit}.requires", f"{self.machine_unit}.wants", "multi-user.target.requires")
        return tuple(
            self.at(f"{directory}/{folder}/{unit}")
            for directory in (self.unit_directory, "/run/systemd/system")
            for folder in folders
        )

    @property
    def gate_drop_in(self) -> str:
        """The drop-in that runs the gate before a machine starts, as the host sees it.

        Its name sorts before other drop-ins: systemd then runs their commands after ours, and keeps ours if it drops
        theirs.
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
        """The lock file that serialises runs, as the host sees it."""
        return f"{self.state_directory}/host-routing.lock"

    @property
    def gate_drop_in_path(self) -> str:
        """The path of the drop-in that runs the gate before a machine starts."""
        return self.at(self.gate_drop_in)

    @property
    def gate_unit_path(self) -> str:
        """The path of the unit that runs the steps of the gate."""
        return self.at(f"{self.unit_directory}/{self.gate_unit}")

    @property
    def gate_script_path(self) -> str:
        """The path of the script of the gate."""
        return self.at(self.gate_script)

    @property
    def gate_steps_path(self) -> str:
        """The path of the list of the gate's steps."""
        return self.at(self.gate_steps)

    @property
    def own_folders(self) -> tuple[str, ...]:
        """The paths of the folders that no package of systemd or iproute2 has; they are removed if they are empty."""
        found = (
            f"{self.unit_directory}/{self.machine_unit}.d",
            "/etc/systemd/system-preset",
            "/etc/systemd/networkd.conf.d",
            self.config_directory,
        )
        return tuple(map(self.at, found))

    @property
    def protocol_name_path(self) -> str:
        """The path of the file that names our route protocol number for iproute2."""
        return self.at(f"{self.protocols_directory}/hostrouting.conf")

    @property
    def detected_path(self) -> str:
        """The path of the marker with the findings of the check, if there are any."""
        return self.at(f"{self.state_directory}/route-overlap.detected")

    @property
    def ok_path(self) -> str:
        """The path of the marker for a check without findings."""
        return self.at(f"{self.state_directory}/route-overlap.ok")

    @property
    def report_path(self) -> str:
        """The path of the verdict as JSON."""
        return self.at(f"{self.state_directory}/route-overlap.json")

    @property
    def npd_path(self) -> str:
        """The path of the line that the plugin of node-problem-detector prints."""
        return self.at(f"{self.state_directory}/route-overlap.npd")

    @property
    def guard_path(self) -> str:
        """The path of what the guard knows, as JSON."""
        return self.at(f"{self.state_directory}/guard.json")

    @property
    def guard_lock_path(self) -> str:
        """The path of the lock file that a running guard holds."""
        return self.at(f"{self.state_directory}/guard.lock")

    @property
    def guard_unit_path(self) -> str:
        """The path of the unit that runs the guard."""
        return self.at(f"{self.unit_directory}/{self.guard_unit}")

    @property
    def guard_enabled_path(self) -> str:
        """The path of the link that enables the unit that runs the guard."""
        return self.at(f"{self.unit_directory}/multi-user.target.wants/{self.guard_unit}")

    @property
    def guard_preset_path(self) -> str:
        """The path of the preset file that keeps that unit enabled after `systemctl preset-all`."""
        return self.at("/etc/systemd/system-preset/50-hostrouting-guard.preset")

    @property
    def figures_path(self) -> str:
        """The path of the guard's figures for a Prometheus collector."""
        return self.at(f"{self.state_directory}/hostrouting.prom")

    @property
    def unfinished_path(self) -> str:
        """The path of the temporary file for these; if the boot check is killed while writing, the file remains."""
        return self.at(f"{self.state_directory}/route-overlap.new")

    @property
    def probe_applied_path(self) -> str:
        """The path of the record of the table and the route that were added to the kernel for probes."""
        return self.at(f"{self.state_directory}/probe-rewrite.applied")

    @property
    def probe_unfinished_path(self) -> str:
        """The path of the temporary file for that one; if the boot script is killed while writing, it remains."""
        return self.at(f"{self.state_directory}/probe-rewrite.new")

    def undo_file(self, number: int) -> str:
        """The path of the undo file of the nth azure-vnet cleanup, which lists what it deletes."""
        return self.at(f"{self.lasting_directory}/azure-vnet-{number}.undo")

    @property
    def lock_path(self) -> str:
        """The path of the lock file that serialises runs."""
        return self.at(self.lock)

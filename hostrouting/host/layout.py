"""Every path and every name that hostrouting uses on a host."""

DROP_IN = "00-host-routing.conf"
"""The file name of the drop-in that runs the gate before a unit starts. It has to sort before all
others.
"""


class HostLayout:
    """Every path and name, as the host itself sees it."""

    config_directory = "/etc/hostrouting"
    unit_directory = "/etc/systemd/system"

    routes_unit = "static-routes.service"
    check_unit = "check-route-overlap.service"
    probe_unit = "probe-rewrite.service"
    guard_unit = "hostrouting-guard.service"

    config_path = "/etc/hostrouting/config.json"
    program_path = "/etc/hostrouting/hostrouting.pyz"
    """The library as one file: units of the node run it, and so may an operator (`node_command`).
    """
    python_path = "/etc/hostrouting/python"
    """A link to the interpreter that runs the program."""
    networkd_path = "/etc/systemd/networkd.conf.d/50-hostrouting.conf"
    lock_path = "/run/hostrouting/lock"
    """Held by whatever changes the host: a run, a start of a gated unit, a pass of the guard."""
    fight_path = "/run/hostrouting/fight"
    """Exists while another program takes away what the guard repairs; says how often (`Fight`)."""
    run_directory = "/run/hostrouting"
    opening_path = "/run/hostrouting/gate.open"
    """For an emergency: while this file exists, belongs to root and contains a reason, gated units
    start unchecked.
    """
    of_this_boot = (opening_path, fight_path)
    """The files under /run that an apply keeps, and a removal removes."""
    opening_command = (
        f"(umask 022; install -d -o 0 {run_directory}; rm -f {opening_path}; "
        f"echo REASON >{opening_path})"
    )
    """How root opens the gate. With another umask, others could write to the file, which does not
    open the gate then. After a boot, the folder need not be there yet. `install` makes it, or takes
    it back from other users, with the mode 0755.
    """
    node_command = f"{python_path} {program_path}"
    """How an operator calls the program on the node."""
    call_code = (
        "import sys; sys.path[:0] = sys.argv[2:]; from hostrouting.node import run_{0}; run_{0}()"
    )
    """How a unit calls it: the code for `python -c`, with the name of a function of
    `hostrouting.node` to be filled in. Its second argument is the program.
    """
    ok_path = "/run/aks-flex-node/route-overlap.ok"
    """The marker for a check without findings."""
    detected_path = "/run/aks-flex-node/route-overlap.detected"
    """The marker with the findings of a check that has some."""
    undecided_path = "/run/aks-flex-node/route-overlap.undecided"
    """The file with the doubts of a check that is undecided. It is not one of the two markers of
    the Go original, so an agent that knows only these finds none.
    """
    markers = (ok_path, detected_path, undecided_path)
    """The files that the check writes; at most one of them exists."""

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
        """The path of the undo file with this number: a script that restores what one cleanup of
        azure-vnet's remains has deleted. The file survives a reboot.
        """
        return f"/var/lib/hostrouting/azure-vnet-{number}.undo"

"""The texts of the units, and of the drop-ins for other units and programs.

This module contains constants. `scripts` makes the scripts that the units run, `files` says which
units a configuration needs, and `unit_gates` says whether systemd obeys them.

A gated unit has a drop-in of ours: it starts only if the gate (gate.sh) lets it. No unit here
depends on a gated unit, and no gated unit depends on one of these, so starting or stopping one of
them never touches a running unit. A oneshot does not remain active when it is done, so every start
runs it again.

No unit here is After= static-routes.service: while that one waits, or tries again, a start would
queue behind it for a minute, even if the gate is open. The gate and the guard set the routes
themselves.
"""

from __future__ import annotations

from hostrouting.host.layout import HostLayout

HEADER = "# Written by hostrouting; changes are overwritten.\n"

_RESTORE = f"as root: hostrouting apply --config {HostLayout.config_path}"
_CUT_SHORT = f'echo "<3>hostrouting: $$0 is missing, cut short or edited; {_RESTORE}" >&2; exit 255'
_RUN = f"""/bin/bash -pc 'cut_short() {{ {_CUT_SHORT}; }}; trap cut_short EXIT; . "$$0"'"""
"""Runs the script whose path follows; systemd reads $$ as $. With -p, bash ignores BASH_ENV,
SHELLOPTS and exported functions.

A script that is whole removes the trap before it exits. So one that is missing, cut short or wrong
fails with 255: a condition that exits with 1 to 254 only skips the start.
"""

_FLUSHERS = "nftables-flush.service nftables.service"
"""Units that may delete every nftables table, and start with a gated unit or at boot. The first is
the node agent's. The guard is not After= them: if it has loaded our table before they run, they
delete it, and the gate or the unit for probes, which start after them, loads it again.
"""

# A command "vanishes" (systemd's word) if a unit's text is changed and systemd is reloaded during a
# start: systemd looks for the running command in the new text, by its words, to go on behind it.
DROP_IN_TEXT = f"""\
{HEADER}# This text never changes, and the file sorts first: if a running command vanishes,
# systemd skips the next ones.
[Unit]
Wants=network-online.target
After=network-online.target {_FLUSHERS}
[Service]
# A condition comes before every ExecStartPre=, and `ExecStartPre=` in another drop-in does not
# remove it. With +, it runs as root and outside the unit's sandbox.
ExecCondition=+{_RUN} {HostLayout.gate_path} %n
"""

NETWORKD_TEXT = f"""\
{HEADER}[Network]
ManageForeignRoutes=no
ManageForeignRoutingPolicyRules=no
ManageForeignNextHops=no
"""
"""Tells systemd-networkd to keep what it did not make. Versions that do not know a key ignore it,
with a log line.
"""

# `ip`, `nft` and netlink work in this sandbox.
#
# - CapabilityBoundingSet=: a route lookup requires none.
# - SystemCallFilter=~: even without capabilities, a process of root can kill other processes of
#   root, and change their limits (prlimit64). io_uring (@aio) could open sockets of the families
#   that RestrictAddressFamilies= refuses.
# - InaccessiblePaths=, ProtectHome=: it can also read root's files.
# - {paths}: it can make the kernel kill others first (/proc/PID/oom_score_adj). Each path that a
#   setting hides or makes read-only costs each start a millisecond, so /proc and /sys are read-only
#   as a whole.
# - ProtectHostname= is not set: systemd 247 cannot combine it with a read-only /proc.
# - RuntimeDirectory=: the folder of the locks exists, and is writable.
_SANDBOX = """\
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
RestrictAddressFamilies=AF_NETLINK
IPAddressDeny=any
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources @aio @ipc @keyring userfaultfd kcmp \
kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal prlimit64
SystemCallFilter={calls}
SystemCallErrorNumber=EPERM
ProtectSystem=strict
{paths}
InaccessiblePaths=-/dev/shm -/run/initctl -/etc/shadow -/etc/shadow-
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectProc=invisible
ProcSubset=pid
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RuntimeDirectory=hostrouting
RuntimeDirectoryPreserve=yes
"""

_CALLS = "pipe pipe2"
"""Allowed, although they are in @ipc: bash needs them."""

_READ_ONLY = "ReadOnlyPaths=/run /proc /sys -/dev/mqueue"
# The results are in the directory of an agent, which may remove it and make a new one: a mount of
# that directory would show the old one, so all of /run is mounted. The directory is not set as a
# RuntimeDirectory=, because it would belong to root then; with CAP_DAC_OVERRIDE, a unit can write
# there whoever owns it.
_WRITES_RESULTS = "ReadOnlyPaths=/run/systemd /proc /sys -/dev/mqueue\nReadWritePaths=/run"


def _render(
    description: str,
    command: str,
    *settings: str,
    after: str = "",
    capabilities: str = "CAP_NET_ADMIN",
    calls: str = _CALLS,
    paths: str = _READ_ONLY,
    is_enabled: bool = True,
) -> str:
    """The text of a unit that runs this command, a script of ours with its arguments. The settings
    are more lines of [Service].
    """
    lines = [
        "[Unit]",
        f"Description={description}",
        "Wants=network-online.target",
        f"After=network-online.target {after}".rstrip(),
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"ExecStart={_RUN} {command}",
        *settings,
        "UnsetEnvironment=LD_PRELOAD LD_LIBRARY_PATH",
        "TimeoutStopSec=10",
    ]
    install = ""
    if is_enabled:
        install = "\n[Install]\nWantedBy=multi-user.target\n"
    sandbox = _SANDBOX.format(capabilities=capabilities, calls=calls, paths=paths)
    return HEADER + "\n".join(lines) + "\n" + sandbox + install


def _oneshot(unit: str, step: str) -> tuple[str, ...]:
    """The first arguments of `_render` for a oneshot: the command that runs this step, and the
    settings that every oneshot has.
    """
    # The time-out is longer than the 75 s that the gate allows itself, and the 5 s in which the
    # gate ends a step that hangs. In this sandbox the gate cannot end one, so systemd does.
    return f"{HostLayout.gate_path} {unit} {step}", "Type=oneshot", "TimeoutStartSec=90"


UNITS = {
    HostLayout.guard_unit: _render(
        "Repair the routing of this host when something changes it",
        HostLayout.guard_path,
        "Type=exec",  # a start fails if the sandbox cannot be made, or bash is missing
        "Restart=always",
        "RestartSec=1",
        capabilities="CAP_NET_ADMIN CAP_DAC_OVERRIDE",
        calls=f"{_CALLS} kill",  # for steps that hang
        paths=_WRITES_RESULTS,
    ),
    HostLayout.routes_unit: _render(
        "Set the static routes of this host",
        *_oneshot(HostLayout.routes_unit, HostLayout.routes_step),
        # What failed at boot does not stay failed when the guard, or an operator, has repaired it.
        # A conflict can last: it is logged once a minute.
        "Restart=on-failure",
        "RestartSec=60",
    ),
    HostLayout.check_unit: _render(
        "Check that expected networks leave through the expected device",
        *_oneshot(HostLayout.check_unit, HostLayout.check_step),
        capabilities="CAP_DAC_OVERRIDE",
        paths=_WRITES_RESULTS,
        is_enabled=False,
    ),
    HostLayout.probe_unit: _render(
        "Let IPv6 probes of the load balancer reach the pods",
        *_oneshot(HostLayout.probe_unit, HostLayout.probe_step),
        "Restart=on-failure",
        "RestartSec=10",
        after=_FLUSHERS,
    ),
}
"""The texts, in the order in which the units are stopped. The guard is first, because it runs all
steps again; each oneshot runs one step.

The check is run by hand. Any other oneshot that fails is tried again.
"""

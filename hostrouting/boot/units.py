"""The units, and the drop-ins for units and programs of others: their texts.

Here: pure functions from names and switches to text. Not here: the scripts that they run (`scripts`), which of them a
configuration needs (`files`), and whether systemd obeys them (`health`).

No unit here depends on a unit that it gates, nor the other way round, so starting or stopping one of them never touches
a running unit. A oneshot does not remain active when it is done: every start runs it again.
"""

from __future__ import annotations

from hostrouting.host.layout import HostLayout

HEADER = "# Written by hostrouting; changes are overwritten.\n"

GATE_COMMAND = """/bin/bash -pc '. "$$0"; exit 255' /etc/hostrouting/gate.sh"""
"""-p: no BASH_ENV, SHELLOPTS or exported functions. exit 255: a gate.sh that is missing or cut refuses."""

# Units that may delete every nftables table, and start with a gated unit or at boot. The first is the node agent's.
FLUSHERS = "nftables-flush.service nftables.service"

DROP_IN = f"""\
{HEADER}# This text never changes and sorts first: of a list whose running command vanished, systemd skips the rest.
[Unit]
Wants=network-online.target
After=network-online.target {HostLayout.routes_unit} {FLUSHERS}
[Service]
# ExecCondition= comes before every ExecStartPre=, and `ExecStartPre=` in another drop-in does not remove it. 255 fails
# the start; 1 to 254 would skip it silently. +: as root and without the unit's sandbox.
ExecCondition=+{GATE_COMMAND} %n
"""
"""The drop-in of each gated unit."""

NETWORKD = f"""\
{HEADER}[Network]
ManageForeignRoutes=no
ManageForeignRoutingPolicyRules=no
ManageForeignNextHops=no
"""
"""Tells systemd-networkd to keep what it did not make. A version that does not know a key ignores it and logs that."""

# `ip`, `nft` and netlink work in this sandbox; a route lookup requires no capability. Each path that a setting hides or
# makes read-only costs each start a millisecond, so /proc and /sys are read-only as a whole. Settings that systemd 247
# lacks, or cannot combine with a read-only /proc (ProtectHostname=), are not set.
_SANDBOX = """\
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
RestrictAddressFamilies=AF_NETLINK
IPAddressDeny=any
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources @aio @ipc @keyring userfaultfd kcmp prlimit64
SystemCallFilter=pipe pipe2
SystemCallErrorNumber=EPERM
ProtectSystem=strict
ReadOnlyPaths=/run /proc /sys -/dev/mqueue
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
RuntimeDirectory=hostrouting aks-flex-node
RuntimeDirectoryPreserve=yes
"""


def _unit(
    description: str, *, after: str, service: list[str], capabilities: str = "CAP_NET_ADMIN", is_enabled: bool = True
) -> str:
    lines = ["[Unit]", f"Description={description}", "Wants=network-online.target"]
    lines += [f"After=network-online.target {after}".rstrip(), "StartLimitIntervalSec=0", "", "[Service]", *service]
    lines += ["UnsetEnvironment=LD_PRELOAD LD_LIBRARY_PATH"]
    install = "\n[Install]\nWantedBy=multi-user.target\n" if is_enabled else ""
    return HEADER + "\n".join(lines) + "\n" + _SANDBOX.format(capabilities=capabilities) + install


def _oneshot(unit: str, step: str, *more: str) -> list[str]:
    # 90 s: longer than the gate and its step allow themselves.
    return ["Type=oneshot", f"ExecStart={GATE_COMMAND} {unit} {step}", "TimeoutStartSec=90", *more]


def render_routes_unit() -> str:
    """The oneshot that sets the static routes at every boot, whether or not a gated unit starts."""
    service = _oneshot(HostLayout.routes_unit, HostLayout.routes_step)
    return _unit("Set the static routes of this host", after="", service=service)


def render_check_unit() -> str:
    """The oneshot that runs the check when an operator starts it. It is not enabled."""
    service = _oneshot(HostLayout.check_unit, HostLayout.check_step)
    description = "Check that expected networks leave by the expected device"
    return _unit(description, after=HostLayout.routes_unit, service=service, capabilities="", is_enabled=False)


def render_probe_unit() -> str:
    """The oneshot that loads the table for probes at every boot, whether or not a gated unit starts."""
    service = _oneshot(HostLayout.probe_unit, HostLayout.probe_step, "Restart=on-failure", "RestartSec=10")
    return _unit("Let IPv6 probes of the load balancer reach the pods", after=FLUSHERS, service=service)


def render_guard_unit() -> str:
    """The service that runs the steps again whenever something changes."""
    command = """/bin/bash -pc '. "$$0"; exit 1' /etc/hostrouting/guard.sh"""
    service = [f"ExecStart={command}", "Restart=always", "RestartSec=1"]
    after = f"{HostLayout.routes_unit} {HostLayout.probe_unit} {FLUSHERS}"
    return _unit("Repair the routing of this host when something changes it", after=after, service=service)

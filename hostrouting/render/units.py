"""Units, drop-ins, and the name of our route protocol.

The construction holds a machine back without being able to touch one that runs: the machine's own start begins with
`systemctl start` of our oneshots (ExecStartPre; the names of the drop-ins bring the routes' first), and none of these
units requires or wants another. A oneshot does not stay active when it is done, so that every start does its work
anew; nothing limits how often.
"""

from hostrouting.config import DEFAULT_PROTOCOL, Mode
from hostrouting.layout import HostLayout
from hostrouting.model import OURS, protocol_name
from hostrouting.render.scripts import DEFAULT_WAIT

__all__ = [
    "parse_protocol_name",
    "render_check_drop_in",
    "render_check_unit",
    "render_preset",
    "render_protocol_name",
    "render_routes_drop_in",
    "render_routes_unit",
]

_HEADER = "# Written by hostrouting; changes are overwritten.\n"

# Where every host has it, also one whose /bin is not /usr/bin. With one of these in the manager's environment it would
# succeed without doing anything.
_GATE = """
[Service]
UnsetEnvironment=SYSTEMD_OFFLINE SYSTEMD_IN_CHROOT
ExecStartPre={whatever}/bin/systemctl start {unit}
"""
# So that a script can be run where /etc is mounted noexec.
_SHELL = "/bin/bash"

# What a script does besides waiting, its looks between the naps included, takes less. With the 60 s that it waits at
# most, one that hangs is ended before the machine's own start is, which has 90 s by default, and in WARN goes on.
_GRACE = 20

# `ip` and netlink still work in this; a lookup takes no capability at all.
_SANDBOX = """\
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
AmbientCapabilities=
RestrictAddressFamilies=AF_NETLINK
IPAddressDeny=any
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
PrivateIPC=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
ProcSubset=pid
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
KeyringMode=private
UMask=0022
"""


def render_routes_unit(layout: HostLayout | None = None, *, wait: int = DEFAULT_WAIT) -> str:
    """The oneshot that installs the static routes, at every boot and before every start of a machine."""
    where = layout or HostLayout()
    return (
        f"{_HEADER}"
        "[Unit]\n"
        "Description=Static routes of this host\n"
        "Wants=network-online.target\n"
        "After=network-online.target\n"
        "StartLimitIntervalSec=0\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart={_SHELL} {where.routes_script}\n"
        f"TimeoutStartSec={wait + _GRACE}\n"
        f"{_SANDBOX.format(capabilities='CAP_NET_ADMIN')}"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def render_check_unit(layout: HostLayout | None = None, *, wait: int = DEFAULT_WAIT) -> str:
    """The oneshot that checks for overlaps; machines pull it in, so nothing enables it."""
    where = layout or HostLayout()
    return (
        f"{_HEADER}"
        "[Unit]\n"
        "Description=Check that expected networks leave by the expected device\n"
        "Wants=network-online.target\n"
        f"After=network-online.target {where.routes_unit}\n"
        "StartLimitIntervalSec=0\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        f"ExecStart={_SHELL} {where.check_script}\n"
        f"TimeoutStartSec={wait + _GRACE}\n"
        f"RuntimeDirectory={where.state_directory.removeprefix('/run/')}\n"
        "RuntimeDirectoryPreserve=yes\n"
        f"{_SANDBOX.format(capabilities='')}"
    )


def render_routes_drop_in(layout: HostLayout | None = None) -> str:
    """What makes every machine install the static routes first, and not start when they cannot be had."""
    where = layout or HostLayout()
    return (
        f"{_HEADER}"
        "[Unit]\n"
        "Wants=network-online.target\n"
        f"After=network-online.target {where.routes_unit}\n"
        f"{_gate(where.routes_unit)}"
    )


def render_check_drop_in(mode: Mode, layout: HostLayout | None = None) -> str:
    """What has the check run before every machine: in STRICT the machine starts only if it passes.

    In WARN the machine starts when the check is done, whatever became of it.
    """
    where = layout or HostLayout()
    return (
        f"{_HEADER}"
        "[Unit]\n"
        "Wants=network-online.target\n"
        f"After=network-online.target {where.check_unit}\n"
        f"{_gate(where.check_unit, whatever=mode is Mode.WARN)}"
    )


def _gate(unit: str, *, whatever: bool = False) -> str:
    return _GATE.format(unit=unit, whatever="-" if whatever else "")


def render_preset(layout: HostLayout | None = None) -> str:
    """What keeps the routes' unit enabled through `systemctl preset-all`, as some images do at their first boot."""
    return f"{_HEADER}enable {(layout or HostLayout()).routes_unit}\n"


def render_protocol_name(protocol: int = DEFAULT_PROTOCOL) -> str:
    """What makes `ip route` show the name of our protocol instead of its number."""
    return f"{_HEADER}{protocol} {protocol_name(OURS)}\n"


def parse_protocol_name(text: str) -> int:
    """The protocol number that was rendered; text without one is a ValueError."""
    name = f" {protocol_name(OURS)}"
    found = [line.removesuffix(name) for line in text.splitlines() if line.endswith(name) and not line.startswith("#")]
    if len(found) != 1:
        raise ValueError("there is no protocol's name in this text")
    return int(found[0])

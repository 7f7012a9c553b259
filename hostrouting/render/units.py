"""The units that run one script each, the preset that keeps one enabled, and the name of our route protocol.

None of these units requires or wants another, so that none can touch a machine that runs. A oneshot does not stay
active when it is done, so that every start does its work anew; nothing limits how often.
"""

from hostrouting.layout import HostLayout
from hostrouting.model import OURS, protocol_name
from hostrouting.render.scripts import DEFAULT_WAIT

__all__ = [
    "FLUSHERS",
    "GRACE",
    "HEADER",
    "SHELL",
    "parse_protocol_name",
    "render_check_unit",
    "render_oneshot",
    "render_preset",
    "render_protocol_name",
    "render_routes_unit",
]

HEADER = "# Written by hostrouting; changes are overwritten.\n"
# The script's name follows. bash reads it, so that it can be run where /etc is mounted noexec; and fails when it does
# not say how it ends, like an empty one. -p: without what BASH_ENV and SHELLOPTS say. For systemd, $$ is a $.
SHELL = """/bin/bash -pc '. "$$0"; exit 1'"""

# What a script does apart from waiting, its looks between the naps included, takes less.
GRACE = 20

# They may take every table away, and are started with a machine or at a boot. The first comes with the node agent.
FLUSHERS = "nftables-flush.service nftables.service"

# `ip` and netlink still work in this; a lookup takes no capability at all. ProtectSystem= leaves /run, /proc and what
# is below /dev writable. Without any capability, whoever is root may end other processes of root, take their limits
# away (prlimit64), have the kernel end them first (/proc/PID/oom_score_adj), and read root's files. io_uring opens
# sockets of the families that are refused. Every mount costs the start of a machine a millisecond: /proc and /sys as a
# whole take 10 ms less than the many of ProtectKernelTunables=. ProtectHostname= is left out: systemd 247 cannot set it
# up beside a read-only /proc, and without CAP_SYS_ADMIN nobody changes the name.
_SANDBOX = """\
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
AmbientCapabilities=
RestrictAddressFamilies=AF_NETLINK
IPAddressDeny=any
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources @aio @keyring userfaultfd kcmp
SystemCallFilter=~kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal
SystemCallFilter=~prlimit64 process_vm_readv process_vm_writev
SystemCallErrorNumber=EPERM
ProtectSystem=strict
ReadOnlyPaths=/run /proc /sys
InaccessiblePaths=-/dev/shm -/dev/mqueue -/run/initctl -/etc/shadow -/etc/shadow- -/etc/gshadow -/etc/gshadow-
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
PrivateIPC=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
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


# The exit status of a script that was told to stop, which is not a failure of its unit.
_STOPPED = "SuccessExitStatus=143"


def render_oneshot(
    description: str,
    *,
    after: str = "",
    command: str,
    timeout: int,
    state_directory: str = "",
    capabilities: str = "",
    settings: tuple[str, ...] = (_STOPPED,),
    wanted_by: str = "",
) -> str:
    """A sandboxed oneshot that runs one script of ours."""
    lines = [
        "[Unit]",
        f"Description={description}",
        "Wants=network-online.target",
        f"After=network-online.target {after}".rstrip(),
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={SHELL} {command}",
        f"TimeoutStartSec={timeout}",
        "TimeoutStopSec=5",
        *settings,
        "UnsetEnvironment=BASH_ENV SHELLOPTS BASHOPTS LD_PRELOAD LD_LIBRARY_PATH",
    ]
    if state_directory:
        lines += [f"RuntimeDirectory={state_directory.removeprefix('/run/')}", "RuntimeDirectoryPreserve=yes"]
    text = "\n".join(lines) + "\n" + _SANDBOX.format(capabilities=capabilities)
    return HEADER + text + (f"\n[Install]\nWantedBy={wanted_by}\n" if wanted_by else "")


def render_routes_unit(layout: HostLayout | None = None, *, wait: int = DEFAULT_WAIT) -> str:
    """The oneshot that installs the static routes at every boot, whether or not a machine starts."""
    return render_oneshot(
        "Static routes of this host",
        command=(layout or HostLayout()).routes_script,
        timeout=wait + GRACE,
        capabilities="CAP_NET_ADMIN",
        wanted_by="multi-user.target",
    )


def render_check_unit(layout: HostLayout | None = None, *, wait: int = DEFAULT_WAIT) -> str:
    """The oneshot that makes the check when somebody asks for it; nothing enables it."""
    where = layout or HostLayout()
    return render_oneshot(
        "Check that expected networks leave by the expected device",
        after=where.routes_unit,
        command=where.check_script,
        timeout=wait + GRACE,
        state_directory=where.state_directory,
    )


def render_preset(unit: str) -> str:
    """What keeps a unit enabled through `systemctl preset-all`, as some images do at their first boot."""
    return f"{HEADER}enable {unit}\n"


def render_protocol_name(protocol: int = OURS) -> str:
    """What makes `ip route` show the name of our protocol instead of its number."""
    return f"{HEADER}{protocol} {protocol_name(OURS)}\n"


def parse_protocol_name(text: str) -> int:
    """The protocol number that was rendered; text without one is a ValueError."""
    name = f" {protocol_name(OURS)}"
    found = [line.removesuffix(name) for line in text.splitlines() if line.endswith(name) and not line.startswith("#")]
    if len(found) != 1:
        raise ValueError("there is no protocol's name in this text")
    return int(found[0])

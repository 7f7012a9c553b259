"""The units that run one boot script each, and the unit of the guard.

Here: their texts, the preset that keeps a unit enabled, and what is parsed from them. Not here: the unit of the gate
(`gate_files`) and of the probe rewrite (`probe`), what a guard does and whether units are installed (`tasks`).

The units of the scripts do not depend on other services, so they cannot touch a running unit. A oneshot does not
remain active when it is done, so every start runs it again, without a limit on how often.
"""

from __future__ import annotations

from hostrouting.boot.scripts import DEFAULT_WAIT
from hostrouting.host.layout import PLACES, HostLayout
from hostrouting.release import __version__

HEADER = "# Written by hostrouting; changes are overwritten.\n"
_LOST = "$$0 is missing or incomplete; write it again with: hostrouting apply --config FILE"


def shell(told: str = _LOST) -> str:
    """The beginning of a command that runs a script, whose path follows.

    Bash reads the script, so it also runs if /etc is mounted noexec. A script that ends without an exit, such as a
    missing or an empty one, fails, and its journal says `told`. -p: ignore BASH_ENV and SHELLOPTS. For systemd, $$ is
    a $.
    """
    return f"""/bin/bash -pc '[ -s "$$0" ] && . "$$0"; echo "<3>{told}" >&2; exit 1'"""


SHELL = shell()

# In seconds; a script's work after its wait takes less.
GRACE = 20

# For the check, whose work grows with the route tables: no start of a gated unit waits for its unit, so it need not be
# refused on a busy host. The command that starts the unit allows 90 s.
_LONGEST_CHECK = 80

# Units that may delete every nftables table, and start with a gated unit or at boot. The first is the node agent's.
FLUSHERS = "nftables-flush.service nftables.service"

# `ip` and netlink work in this sandbox; a route lookup requires no capability. ProtectSystem= leaves /run, /proc and
# /dev writable. Even without capabilities, a process of root can kill other processes of root, change their limits
# (prlimit64), make the kernel kill them first (/proc/PID/oom_score_adj), and read root's files. io_uring could open
# sockets of the refused families, and memfd_create could get around MemoryDenyWriteExecute=.
# Each path that a setting hides or makes read-only costs each start a millisecond, even if it does not exist, and five
# on a host with 200 mounts. So /proc and /sys are read-only as a whole: the many paths of ProtectKernelTunables= cost
# 10 ms more. ProtectKernelModules= and ProtectKernelLogs= are not set: without them, the filter and the capabilities
# refuse modules and logs, and PrivateDevices= and ProcSubset= also refuse logs. The filter refuses IPC, too, for which
# systemd 247 has no PrivateIPC=. gshadow is not hidden: hardly any group has a password.
# ProtectHostname= is not set: systemd 247 cannot combine it with a read-only /proc, and without CAP_SYS_ADMIN the
# script cannot change the host name. PrivateDevices= includes DevicePolicy=closed; UMask=0022, KeyringMode=private and
# no ambient capabilities are what systemd gives.
SANDBOX = """\
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
RestrictAddressFamilies=AF_NETLINK
IPAddressDeny=any
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources @aio @ipc @keyring userfaultfd kcmp \
kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal prlimit64
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
"""


# The exit status of a script that received SIGTERM; a stop is not a failure of its unit.
_STOPPED = "SuccessExitStatus=143"


def render_oneshot(
    description: str,
    *,
    after: str = "",
    command: str,
    timeout: int,
    folders: tuple[str, ...] = (),
    capabilities: str = "",
    run: str = SHELL,
    settings: tuple[str, ...] = (_STOPPED,),
    wanted_by: str = "",
) -> str:
    """A sandboxed oneshot that runs one of our scripts."""
    lines = [
        "[Unit]",
        f"Description={description}",
        "Wants=network-online.target",
        f"After=network-online.target {after}".rstrip(),
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={run} {command}",
        f"TimeoutStartSec={timeout}",
        "TimeoutStopSec=5",
        *settings,
        "UnsetEnvironment=BASH_ENV SHELLOPTS BASHOPTS LD_PRELOAD LD_LIBRARY_PATH RUNTIME_DIRECTORY",
    ]
    lines += runtime_folders(*folders)
    text = "\n".join(lines) + "\n" + SANDBOX.format(capabilities=capabilities)
    return HEADER + text + (f"\n[Install]\nWantedBy={wanted_by}\n" if wanted_by else "")


def runtime_folders(*folders: str) -> tuple[str, ...]:
    """The settings with which systemd creates these folders for a unit, lets it write there, and keeps them."""
    names = " ".join(folder.removeprefix("/run/") for folder in folders)
    return (f"RuntimeDirectory={names}", "RuntimeDirectoryPreserve=yes") if names else ()


def render_routes_unit(layout: HostLayout = PLACES, *, wait: int = DEFAULT_WAIT) -> str:
    """The oneshot that installs the static routes at every boot, whether or not a gated unit starts."""
    return render_oneshot(
        "Static routes of this host",
        command=layout.routes_script,
        timeout=wait + GRACE,
        capabilities="CAP_NET_ADMIN",
        wanted_by="multi-user.target",
    )


def render_networkd_drop_in() -> str:
    """The drop-in that tells systemd-networkd to keep routes and rules that it does not know.

    An older systemd-networkd ignores a key that it does not know, with a line in the journal.
    """
    return f"{HEADER}[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"


def render_check_unit(layout: HostLayout = PLACES, *, wait: int = DEFAULT_WAIT) -> str:
    """The oneshot that runs the check when an operator starts it. It is not enabled."""
    return render_oneshot(
        "Check that expected networks leave by the expected device",
        after=layout.routes_unit,
        command=layout.check_script,
        timeout=wait + _LONGEST_CHECK,
        folders=(layout.state_directory,),
    )


def render_preset(unit: str) -> str:
    """The preset that keeps a unit enabled after `systemctl preset-all`, which some images run at their first boot."""
    return f"{HEADER}enable {unit}\n"


_EXEC = "ExecStart="
_COMMAND = " guard"

# Beyond the sandbox of the oneshots: the socket of the journal and of the notifications, its folders under /run,
# and the settings under /proc/sys, which are read. It ends nft if that hangs, and systemctl reload sends it SIGHUP. Its
# program and the Python may be below /root, but not in a home directory that is closed to root without capabilities.
_MORE = """\
RestrictAddressFamilies=AF_UNIX
ReadWritePaths={folders}
ProcSubset=all
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectHome=read-only
SystemCallFilter=kill
"""


def render_guard_unit(program: str, *, layout: HostLayout = PLACES) -> str:
    """The service that keeps the routing right.

    It names the version, so that a new one is started.
    """
    lines = [
        "[Unit]",
        "Description=Keep the routing of this host right",
        "Wants=network-online.target",
        f"After=network-online.target {layout.routes_unit} {layout.probe_unit} {FLUSHERS}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        f"{_EXEC}{program}{_COMMAND}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        f"Environment=HOSTROUTING_VERSION={__version__}",
        "UnsetEnvironment=PYTHONPATH PYTHONHOME PYTHONSTARTUP LD_PRELOAD LD_LIBRARY_PATH",
        "Restart=on-failure",
        "RestartSec=5",
        "WatchdogSec=180",
        "TimeoutStartSec=90",
        "TimeoutStopSec=20",
        "SuccessExitStatus=143",
        *runtime_folders(layout.state_directory, layout.runtime_directory),
    ]
    sandbox = SANDBOX.format(capabilities="CAP_NET_ADMIN") + _MORE.format(
        folders=f"{layout.state_directory} {layout.runtime_directory}"
    )
    return HEADER + "\n".join(lines) + "\n" + sandbox + "\n[Install]\nWantedBy=multi-user.target\n"


def parse_guard_unit(text: str) -> str:
    """The path of the program in a unit that was rendered; ValueError if the text is not such a unit."""
    found = [line for line in text.splitlines() if line.startswith(_EXEC) and line.endswith(_COMMAND)]
    if not text.startswith(HEADER) or len(found) != 1:
        raise ValueError("the text does not name the program of a guard")
    return found[0].removeprefix(_EXEC).removesuffix(_COMMAND)

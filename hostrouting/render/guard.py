"""The unit that runs the guard, and the path of the program in it.

Here: text. Not here: what the guard does (`tasks.guard`), and whether the unit is installed (`tasks.guard_service`).
"""

from __future__ import annotations

from hostrouting.layout import HostLayout
from hostrouting.release import __version__
from hostrouting.render.units import FLUSHERS, HEADER, SANDBOX

__all__ = ["parse_guard_unit", "render_guard_unit"]

_EXEC = "ExecStart="
_COMMAND = " guard"

# Beyond the sandbox of the oneshots: the socket of the journal and of the notifications, the directory of the markers,
# and the settings under /proc/sys, which are read. It ends nft if that hangs, and systemctl reload sends it SIGHUP. Its
# program and the Python may be below /root, but not in a home directory that is closed to root without capabilities.
_MORE = """\
RestrictAddressFamilies=AF_UNIX
ReadWritePaths={state}
ProcSubset=all
ProtectHome=read-only
SystemCallFilter=kill
"""


def render_guard_unit(program: str, *, layout: HostLayout | None = None) -> str:
    """The service that keeps the routing right. The version is in it so that a new version is started."""
    where = layout or HostLayout()
    lines = [
        "[Unit]",
        "Description=Keep the routing of this host right",
        "Wants=network-online.target",
        f"After=network-online.target {where.routes_unit} {where.probe_unit} {FLUSHERS}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        f"{_EXEC}{program}{_COMMAND}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        f"Environment=HOSTROUTING_VERSION={__version__}",
        "UnsetEnvironment=PYTHONPATH PYTHONHOME PYTHONSTARTUP LD_PRELOAD LD_LIBRARY_PATH",
        "Restart=on-failure",
        "RestartSec=20",
        "WatchdogSec=180",
        "TimeoutStartSec=90",
        "TimeoutStopSec=20",
        "SuccessExitStatus=143",
        f"RuntimeDirectory={where.state_directory.removeprefix('/run/')}",
        "RuntimeDirectoryPreserve=yes",
    ]
    sandbox = SANDBOX.format(capabilities="CAP_NET_ADMIN") + _MORE.format(state=where.state_directory)
    return HEADER + "\n".join(lines) + "\n" + sandbox + "\n[Install]\nWantedBy=multi-user.target\n"


def parse_guard_unit(text: str) -> str:
    """The path of the program in a unit that was rendered; ValueError if the text is not such a unit."""
    found = [line for line in text.splitlines() if line.startswith(_EXEC) and line.endswith(_COMMAND)]
    if not text.startswith(HEADER) or len(found) != 1:
        raise ValueError("the text does not name the program of a guard")
    return found[0].removeprefix(_EXEC).removesuffix(_COMMAND)

"""The gate as a condition of a unit, under a real systemd: whatever the unit and its manager do, a
refusal refuses, and nothing else does.
"""

import pytest

from hostrouting.boot.units import GATE_MARK
from hostrouting.config.settings import GateConfig
from tests.support.gate import LAYOUT, config, gate_tests, host, overlap
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

_RUNS = "ExecStart=/bin/sleep infinity\n"
_SHELL = "BASH_ENV=/etc/evil ENV=/etc/evil SHELLOPTS=noexec POSIXLY_CORRECT=1 IFS=/ FUNCNEST=1"
_PYTHON = "PYTHONHOME=/nowhere PYTHONPATH=/etc PYTHONINSPECT=1 PYTHONMALLOC=none"
_MANAGER = ("BASH_ENV=/etc/evil", "SHELLOPTS=noexec", "PYTHONHOME=/nowhere")
"""What all units have in their environment."""
KINDS = {
    "plain": "",
    "user": "User=nobody\nGroup=nogroup\n",
    "dynamic": "DynamicUser=yes\nPrivateTmp=yes\nWorkingDirectory=/tmp\nUMask=0777\n",
    "users": "PrivateUsers=yes\nPermissionsStartOnly=yes\n",
    "private-network": "PrivateNetwork=yes\nRestrictAddressFamilies=AF_UNIX\nIPAddressDeny=any\n",
    "namespace": "NetworkNamespacePath=/run/netns/other\n",
    "read-only": "ProtectSystem=strict\nProtectHome=yes\nReadOnlyPaths=/\n",
    "inaccessible": "InaccessiblePaths=/etc/hostrouting -/run/hostrouting\n",
    "hidden": "TemporaryFileSystem=/usr/sbin /run/hostrouting\n",
    "noexec": "NoExecPaths=/etc /usr/bin/python3\nPrivateDevices=yes\n",
    "no-root": "NoNewPrivileges=yes\nCapabilityBoundingSet=\nSecureBits=noroot noroot-locked\n",
    "calls": "SystemCallFilter=~@network-io @mount @process\nMemoryDenyWriteExecute=yes\n",
    "kernel": """\
ProtectProc=invisible
ProcSubset=pid
ProtectControlGroups=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
PrivateIPC=yes
""",
    "environment": f"""\
Environment={_SHELL}
Environment={_PYTHON}
Environment=LD_LIBRARY_PATH=/nowhere LD_DEBUG=none LANG=tr_TR PATH=/nowhere
""",
    "statuses": "SuccessExitStatus=1 2 97 98 127 143 254 SIGTERM SIGKILL\n",
    "log": """\
StandardOutput=null
StandardError=null
IgnoreSIGPIPE=no
StandardInput=data
StandardInputText=exit 0
""",
    "limits": "LimitNOFILE=32\nLimitFSIZE=0\nTasksMax=4\nMemoryMax=64M\nNice=19\n",
    "kill": "KillMode=process\nSendSIGHUP=yes\n",
    "notify": """\
Type=notify
NotifyAccess=all
ExecStart=
ExecStart=/bin/dash -c 'systemd-notify --ready; sleep infinity'
""",
    "once": "Type=oneshot\nRemainAfterExit=yes\nExecStart=\nExecStart=/bin/true\n",
}
SIGNALLED = "signalled"
GATED = config(mode="STRICT")._replace(
    gate=GateConfig(tuple(f"{kind}.service" for kind in (*KINDS, SIGNALLED)))
)
FILES = {
    f"/etc/systemd/system/{kind}.service": f"[Service]\n{_RUNS}{text}"
    for kind, text in KINDS.items()
}
# What a drop-in that comes later may do to the lists of commands.
FILES["/etc/systemd/system/plain.service.d/90-own.conf"] = (
    "[Service]\nExecStartPre=\nExecStartPre=/bin/true\n"
)
FILES["/etc/evil"] = "exit 0\n"
SCRIPT = f"{LAYOUT.gate_directory}/05-slow.sh"
SIGNALS = (("TERM", "all"), ("TERM", "control"), ("HUP", "control"), ("USR1", "all"))
"""Each with the processes that get it: all of the unit's, or the first one of its start."""
SLOW = "echo >>/run/began; until [[ -e /run/go ]]; do sleep 0.05; done\n"


def await_end(system: System, *units: str) -> dict[str, str]:
    """Wait until no start of these units is under way; the state of each."""
    states: dict[str, str] = {}
    names = [f"{unit}.service" for unit in units]

    def has_ended() -> bool:
        shown = system.must("systemctl", "show", "--value", "-p", "ActiveState", *names)
        states.update(zip(units, shown.split(), strict=True))
        is_over = {*states.values()} <= {"active", "inactive", "failed"}
        return is_over and "No jobs" in system.run("systemctl", "list-jobs").stdout

    wait_for("all starts to end", has_ended)
    return states


def begin(system: System, *units: str) -> None:
    """Have systemd start these units at the same moment, without waiting."""
    system.must("systemctl", "start", "--no-block", *(f"{unit}.service" for unit in units))


def start_all(system: System, *units: str) -> set[str]:
    """Start these units at the same moment; how they are then."""
    begin(system, *units)
    return {*await_end(system, *units).values()}


def forget(system: System, *units: str) -> None:
    """Stop the units. systemd would refuse a sixth start in ten seconds."""
    system.must("systemctl", "stop", *(f"{unit}.service" for unit in units))
    system.must("systemctl", "reset-failed")


def every_kind_of_unit(system: System) -> None:
    """No setting of a unit or of its manager opens the gate, and none keeps it shut, also where sh
    is bash, which believes more of its environment than dash.
    """
    system.must("ln", "-sf", "bash", "/usr/bin/sh")
    system.must("ip", "netns", "add", "other")
    system.must("mkdir", "-p", LAYOUT.result_path)  # or all would share what one has found
    system.must("systemctl", "set-environment", *_MANAGER)
    assert start_all(system, *KINDS) == {"failed"}
    journal = system.journal("*.service")
    said = KINDS.keys() - {"log"}
    for kind in said:
        assert f"{kind}.service was refused: see the lines above" in journal
    assert journal.count("OVERLAP: 172.16.0.0/16 leaves through ib0") == len(said)
    overlap(system, "del")
    system.must("systemctl", "reset-failed")
    begin(system, *KINDS)
    states = await_end(system, *KINDS)
    assert [kind for kind, state in states.items() if state != "active"] == []
    forget(system, *KINDS)
    system.must("rmdir", LAYOUT.result_path)
    system.must("ln", "-sf", "dash", "/usr/bin/sh")
    system.must("systemctl", "unset-environment", *(name.partition("=")[0] for name in _MANAGER))
    overlap(system, "add")


def signals(system: System) -> None:
    """A gate that a signal ends refuses at once, though the unit counts that signal as a success.
    It ends the script that runs.
    """
    for name, whom in SIGNALS:
        let_count_as_success(system, f"SIG{name}")
        begin_slowly(system, SIGNALLED)
        how = (f"--kill-who={whom}", f"--signal={name}")
        system.must("systemctl", "kill", *how, f"{SIGNALLED}.service")
        assert await_end(system, SIGNALLED) == {SIGNALLED: "failed"}, (name, whom)
        assert f"ended this while {SCRIPT} ran" in last_start(system), (name, whom)
        wait_for("the script to end", lambda: system.run("pgrep", "-f", SCRIPT).returncode)


def last_start(system: System, unit: str = SIGNALLED) -> str:
    """What was logged since the unit was last started."""
    journal = system.journal(f"{unit}.service")
    return journal[journal.rindex(f"Starting {unit}.service") :]


def let_count_as_success(system: System, statuses: str) -> None:
    """Have the unit count these exit statuses as a success, and no others."""
    path = f"/etc/systemd/system/{SIGNALLED}.service"
    text = f"[Unit]\nStartLimitIntervalSec=0\n[Service]\n{_RUNS}SuccessExitStatus={statuses}\n"
    system.lay(path, text)
    system.must("systemctl", "daemon-reload")


def begin_slowly(system: System, unit: str) -> None:
    """Begin a start of the unit, and wait until its script runs."""
    system.lay(SCRIPT, SLOW)
    system.run("rm", "-f", "/run/began", "/run/go")
    begin(system, unit)
    wait_for("the script", lambda: system.read("/run/began"))


STORIES = (every_kind_of_unit, signals)


def test_any_unit(subtests: pytest.Subtests) -> None:
    """Each story begins on a host where an address escapes."""
    with host(GATED, more=FILES, machines=()) as system:
        for story in STORIES:
            with subtests.test(story.__name__):
                story(system)
            system.run("rm", "-f", SCRIPT)
            forget(system, *KINDS)
            assert GATE_MARK in system.show("plain.service", "ExecCondition")

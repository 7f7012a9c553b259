"""The gate of any unit: only a refusal refuses, and root obeys no file of the unit's user."""

import json
from itertools import cycle

from hostrouting.config.settings import GateConfig
from tests.support import gate
from tests.support.gate import CONFIG, LAYOUT, gate_tests, hostrouting, overlap
from tests.support.systemd import System
from tests.support.waiting import wait_for

pytestmark = gate_tests

_RUNS = "ExecStart=/bin/sleep infinity\n"
_SHELL = "BASH_ENV=/etc/evil ENV=/etc/evil SHELLOPTS=noexec POSIXLY_CORRECT=1 IFS=/ FUNCNEST=1"
_PYTHON = "PYTHONHOME=/nowhere PYTHONPATH=/etc PYTHONINSPECT=1 PYTHONMALLOC=none"
_MANAGER = ("BASH_ENV=/etc/evil", "SHELLOPTS=noexec", "PYTHONHOME=/nowhere")
"""What all units have in their environment."""
# The folder has an empty libc.so.6: whoever obeys a variable that leads there fails, and says so.
_EVIL = "/var/lib/evil"
VARIABLES = {
    "code": f"""\
LD_PRELOAD={_EVIL}/libc.so.6
LD_AUDIT={_EVIL}/libc.so.6
LD_LIBRARY_PATH={_EVIL}
GCONV_PATH={_EVIL}
LOCPATH={_EVIL}
NLSPATH={_EVIL}/%N
LANG=evil.EVIL
GLIBC_TUNABLES=glibc.malloc.check=3
LD_PROFILE=libc.so.6
LD_PROFILE_OUTPUT={_EVIL}
LD_DEBUG=all
LD_DEBUG_OUTPUT={_EVIL}/debug
""",
    # With these, the loader prints something, and exits with 0: the gate would be open.
    "help": "LD_DEBUG=help\n",
    "list": "LD_TRACE_LOADED_OBJECTS=1\n",
    "prelink": "LD_TRACE_PRELINKING=1\n",
}
"""By the name of a unit: what its user writes into its EnvironmentFile=."""
OBEYED = ("LD_", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH")
KINDS = {
    "plain": "",
    "user": "User=nobody\nGroup=nogroup\nPrivateUsers=yes\nPermissionsStartOnly=yes\n",
    "dynamic": "DynamicUser=yes\nPrivateTmp=yes\nWorkingDirectory=/tmp\nUMask=0777\n",
    "private-network": "PrivateNetwork=yes\nRestrictAddressFamilies=AF_UNIX\nIPAddressDeny=any\n",
    "namespace": "NetworkNamespacePath=/run/netns/other\n",
    "hidden": """\
InaccessiblePaths=/etc/hostrouting -/run/hostrouting
TemporaryFileSystem=/usr/sbin
""",
    "sandbox": """\
ProtectSystem=strict
ProtectHome=yes
ReadOnlyPaths=/
NoExecPaths=/etc /usr/bin/python3
PrivateDevices=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
SecureBits=noroot noroot-locked
SystemCallFilter=~@network-io @mount @process
MemoryDenyWriteExecute=yes
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
    # TasksMax= and MemoryMax= prove nothing where cgroup.controllers lacks pids and memory.
    "limits": "LimitNOFILE=32\nLimitFSIZE=0\nTasksMax=4\nMemoryMax=64M\nKillMode=process\n",
    "notify": """\
Type=notify
NotifyAccess=all
ExecStart=
ExecStart=/bin/dash -c 'systemd-notify --ready; sleep infinity'
""",
    "once": "Type=oneshot\nRemainAfterExit=yes\nExecStart=\nExecStart=/bin/true\n",
}
for _name in VARIABLES:
    KINDS[_name] = (
        f"User=nobody\nEnvironmentFile={_EVIL}/{_name}.env\n"
        f"ExecStartPre=+/bin/cp /proc/self/environ /run/seen-by-root-{_name}\n"
    )
UNITS = tuple(f"{kind}.service" for kind in KINDS)
GATED = gate.config(mode="STRICT")._replace(gate=GateConfig(UNITS))
FILES = {
    f"/etc/systemd/system/{kind}.service": f"[Service]\n{_RUNS}{text}"
    for kind, text in KINDS.items()
}
FILES |= {f"{_EVIL}/{name}.env": text for name, text in VARIABLES.items()}
FILES[f"{_EVIL}/libc.so.6"] = ""
# What a drop-in that comes later may do to the lists of commands.
FILES["/etc/systemd/system/plain.service.d/90-own.conf"] = (
    "[Service]\nExecStartPre=\nExecStartPre=/bin/true\n"
)
FILES["/etc/evil"] = "exit 0\n"


def await_end(system: System) -> dict[str, str]:
    """Wait until no start of the units is under way; the state of each."""
    states: dict[str, str] = {}

    def has_ended() -> bool:
        shown = system.must("systemctl", "show", "--value", "-p", "ActiveState", *UNITS)
        states.update(zip(KINDS, shown.split(), strict=True))
        is_over = {*states.values()} <= {"active", "inactive", "failed"}
        return is_over and "No jobs" in system.run("systemctl", "list-jobs").stdout

    wait_for("all starts to end", has_ended)
    return states


def start_all(system: System) -> dict[str, str]:
    """Start the units at the same moment; how each is then."""
    system.must("systemctl", "start", "--no-block", *UNITS)
    return await_end(system)


def test_any_unit() -> None:
    """Each story begins where the last one has ended."""
    with gate.host(GATED, more=FILES, machines=()) as system:
        every_kind_of_unit(system)
        no_variable_reaches_the_gate(system)
        what_would_give_root_away_is_named(system)
        system.must("systemctl", "stop", "statuses.service")
        system.must("systemctl", "unset-environment", *_MANAGER)
        overlap(system, "add")
        gate.lock(system)
        a_command_that_vanishes(system)


def every_kind_of_unit(system: System) -> None:
    """No setting of a unit or its manager opens the gate or keeps it shut, also with bash."""
    system.must("chown", "-R", "nobody", _EVIL)
    system.must("ln", "-sf", "bash", "/usr/bin/sh")
    system.must("ip", "netns", "add", "other")
    system.must("systemctl", "set-environment", *_MANAGER)
    assert {*start_all(system).values()} == {"failed"}
    journal = system.journal("*.service")
    said = KINDS.keys() - {"log"}
    for kind in said:
        assert f"{kind}.service was refused: see the lines above" in journal
    assert journal.count("OVERLAP: 172.16.0.0/16 leaves through ib0") == len(said)
    overlap(system, "del")
    system.must("systemctl", "reset-failed")
    states = start_all(system)
    assert [kind for kind, state in states.items() if state != "active"] == []


def no_variable_reaches_the_gate(system: System) -> None:
    """No code of the unit's user has run, and root has written nothing for him."""
    journal = system.journal("*.service")
    assert "ld.so" not in journal
    assert "shared librar" not in journal
    assert system.must("find", _EVIL, "-user", "root") == ""
    for name in VARIABLES:
        seen = system.must("cat", f"/run/seen-by-root-{name}").split("\0")
        assert [each for each in seen if each.startswith(OBEYED)] == [], name


SETS = """\
[Service]
Environment=A=1 LD_PRELOAD=/x
Environment='GCONV_PATH=/with blanks' TMPDIR=/x
Environment="OPTS=it's -v LD_AUDIT=/x"
"""
MOUNTS = (
    "BindPaths=/srv:/etc\nDynamicUser=yes",
    "BindReadOnlyPaths=/srv:/etc\nUser=nobody",
    "ExtensionImages=/srv/image\nUser=65534",
    "MountImages=/srv/image:/etc\nUser=nobody",
    "RootDirectory=/srv",
    "RootImage=/srv/image",
)
MOUNTS_OF_ROOT = (
    "BindPaths=/srv",
    "BindPaths=/srv\nUser=root",
    "MountImages=/srv/image:/etc\nUser=0",
)
"""Root runs the unit on these files, with or without a gate."""


def what_would_give_root_away_is_named(system: System) -> None:
    """The plan names variables that a unit loses, and units with other files than the host's."""
    system.lay("/etc/systemd/system/own.service", f"{SETS}{_RUNS}")
    system.lay("/etc/systemd/system/app@.service", f"[Service]\n{_RUNS}")
    settings = (*MOUNTS, *MOUNTS_OF_ROOT)
    instances = [f"app@{number}.service" for number in range(len(settings))]
    folders = cycle(("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"))
    for instance, setting, folder in zip(instances, settings, folders, strict=False):
        system.lay(f"{folder}/{instance}.d/50-own.conf", f"[Service]\n{setting}\n")
    system.load("/etc/systemd/system/app@whole.service", f"[Service]\nRootImage=/x\n{_RUNS}")
    gated = GATED._replace(gate=GateConfig((*UNITS, "own.service", "app@.service")))
    system.lay(CONFIG, json.dumps(gated.to_mapping()))
    said = hostrouting(system, "plan", "--config", CONFIG).stdout
    assert "own.service loses GCONV_PATH and LD_PRELOAD, which its Environment= sets" in said
    for instance, setting in zip(instances, MOUNTS, strict=False):
        name = setting.partition("=")[0]
        assert f"{instance} has {name}=, so root would run the gate from" in said
    assert "app@whole.service has RootImage=" in said
    assert said.count("so root would run the gate from") == len(MOUNTS) + 1


def begin_slowly(system: System) -> None:
    last_start = system.show("statuses.service", "InvocationID")
    system.must("systemctl", "start", "--no-block", "statuses.service")

    def waits() -> bool:
        this_start = system.show("statuses.service", "InvocationID")
        mine = ("journalctl", "--quiet", f"_SYSTEMD_INVOCATION_ID={this_start}")
        return this_start != last_start and f"waiting for {LAYOUT.lock_path}" in system.must(*mine)

    wait_for("the gate", waits)


def a_command_that_vanishes(system: System) -> None:
    """A foreign command that vanishes during a start takes no other command along."""
    first = "/etc/systemd/system/statuses.service.d/00-a.conf"
    system.load(first, "[Service]\nExecStartPre=/bin/sleep 0.5\n")
    begin_slowly(system)
    system.unload(first)
    system.must("systemctl", "stop", "holder.service")
    assert await_end(system)["statuses"] == "failed"

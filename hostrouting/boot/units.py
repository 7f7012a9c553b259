"""The texts of the units, and of the drop-ins for other units and programs.

The texts are constants: no setting of a configuration is in a unit. `files` says which units a
configuration needs, and `gate.unit_gates` whether systemd obeys them.

A gated unit has our drop-in, and starts only if the gate (`node.start`) lets it. No unit of
hostrouting depends on a gated unit, and no gated unit depends on a unit of hostrouting, so the
start or stop of a unit of ours never touches a running unit of others. A oneshot does not remain
active when it is done, so every start runs it again.

No gated unit is After= static-routes.service. Otherwise its start would wait up to a minute while
that service waits or is tried again, even if the gate is open. The gate and the guard set the
routes themselves.
"""

from __future__ import annotations

from hostrouting.host.layout import HostLayout
from hostrouting.host.ours import MARK
from hostrouting.release import PASSED, REFUSED

HEADER = f"# {MARK}; changes are overwritten.\n"


def _program(function: str) -> str:
    """The words of a shell command, after Python, that run this function of `hostrouting.node` with
    the argument $1.

    The shell opens the program, an archive, once as descriptor 3, and Python imports its modules
    from there (`/proc/self/fd/3`, which `call_code` adds to the folders of modules). If
    Python opened the file by its path for each module, it would fail when a run replaces the file.
    Before the first import, Python judges what was opened: it exits with 99 if the owner is not
    root, or if others can write to it.
    """
    # With -I -S, Python loads nothing from folders that others may write to. The number before
    # `and` is 0 if the owner is root (0), and neither the group nor others may write (0o22).
    code = (
        f'-I -S -c "import posix, sys; s = posix.stat(3); '
        f's.st_uid | s.st_mode & 0o22 and sys.exit(99); {HostLayout.call_code.format(function)}"'
    )
    return f'{code} "$1" /proc/self/fd/3 3<{HostLayout.program_path}'


_JUDGE = rf"""
program={HostLayout.program_path};
interpreter={HostLayout.python_path};

# Whoever can change the program, Python, or a folder on the way to them, could have anything run as
# root. `judge` prints "safe" if nobody else can, or the first path that others can change, or
# nothing if it cannot find out. Without links in the two paths, their folders are all that leads
# there. `find_untrusted` (gate/trusted.py) judges more, but only once Python runs.
python=$(readlink -f $interpreter);
archive=$program;
[ ! -L $program ] && [ ! -L ${{program%/*}} ] || archive=$(readlink -f $program);
judge() {{
  [ ${{#python}} -lt 1000 ] && [ ${{#archive}} -lt 1000 ] || return;
  set -- /;
  for path in "$python" "$archive"; do
    while [ "$path" ]; do [ ! -e "$path" ] || set -- "$@" "$path"; path=${{path%/*}}; done;
  done;
  listing=$(ls -ldn "$@") || return;
  printf "%s\\n" "$listing" | {{
    while read -r mode _ owner _ _ _ _ _ path; do
      case $mode,$owner in
        ?????-??-*,0) ;;
        *) printf %s "$path"; exit;;
      esac;
    done;
    printf safe;
  }};
}};
verdict=$(judge);
untrusted() {{
  printf "%s\\n" "<3>hostrouting: users other than root may be able to change
 ${{verdict:-$program}}, so nothing was run" >&2;
}};
"""
"""What a shell runs before Python. Then `verdict` is "safe" if only root can change what is to run,
and `python` is the interpreter, without links.
"""

_SERVICE_SCRIPT = rf"""
PATH=/usr/sbin:/usr/bin:/sbin:/bin;
{_JUDGE}
[ "$verdict" = safe ] || {{ untrusted; exit 99; }};
exec "${{python:-$interpreter}}"
"""
"""What a shell runs in our services, before the words of `_program`."""

_GATE_SCRIPT = rf"""
unit=$1;
folder={HostLayout.run_directory};
opening={HostLayout.opening_path};
status=;

# Every end but `pass` refuses the start with 255, also an early one, such as a fork that fails.
# With 1 to 254, systemd would skip the start and report a success. A pipe that the unit has closed
# ends nothing.
trap "exit 255" EXIT;
trap "" PIPE;
pass() {{ trap - EXIT; exit 0; }};

# The echo of some shells makes other characters of a backslash, which a name may have. systemd
# makes one backslash of two.
say() {{ printf "%s\\n" "$1" >&2; }};

# Python may write its cache, and the umask of the unit may be 0.
umask 022;

# Python runs in the background, and the shell waits for it: so a signal reaches the shell at once,
# and it exits with 255 even if the unit counts SIGTERM as a success (SuccessExitStatus=). A program
# that is still being loaded cannot log why it ends. When Python has ended, another process may have
# its number.
stop() {{
  [ -n "$status" ] || {{ kill $! 2>/dev/null; wait $!; status=$?; }};
  [ $status = {REFUSED} ] || say "<3>hostrouting: $unit was refused: a signal ended the gate";
  exit;
}};
trap stop HUP INT QUIT TERM USR1 USR2;

# The opening is a regular file of root's that only root can write and nobody can execute, with a
# reason in its first line, in a folder (no link) of root's that only root can write. `status` has
# the same rule (gate/unit_gates.py). Whose the file is counts when the folder has been looked at:
# from then on, nobody else can put another file there.
listed= reason=;
[ ! -O $folder ] || [ ! -O $opening ] || listed=$(ls -ld $folder $opening);
case $listed in d????-??-*$folder?-r[w-]-[r-]--[r-]--*)
  [ ! -O $opening ] || read -r reason <$opening;;
esac;
case $reason in *[![:space:]]*)
  say "<4>hostrouting: $unit starts UNCHECKED: $opening: $reason";
  pass;;
esac;

{_JUDGE}
# A unit may have a network of its own, which the + of the condition does not undo.
in_network=;
[ /proc/self/ns/net -ef /proc/1/ns/net ] || in_network="nsenter --target 1 --net --";
if [ "$verdict" = safe ]; then
  $in_network "$python" {_program("gate")} & wait $!;
  status=$?;
else
  status=99;
fi;
[ $status != {PASSED} ] || pass;
[ $status != {REFUSED} ] || exit;

# Any other status, even 0, means that the program did not run to its end.
advice="install Python 3.10 or newer, as the package python3 or python3.N";
pythons="$interpreter $(ls /usr/bin/python3.?? 2>/dev/null | tail -1)";
[ $status != 99 ] || {{
  [ "$verdict" != safe ] || verdict=$program;
  untrusted;
  advice="to see what to do, as root: hostrouting status";
  pythons=;
}};
say "<3>hostrouting: $unit was refused: the gate could not be run (exit $status), see the lines
 above";
# Find a Python that can run the program, which may be damaged or gone, for the command to type. 126
# and 127 say that nothing could be started. An empty file ends with 0, and prints nothing. -I -S:
# Python loads nothing from folders that other users may write to.
for each in $pythons; do
  run=$each;
  [ $each != $interpreter ] || run=$python;
  help=$(timeout 9 "$run" -I -S "$archive" --help 2>/dev/null);
  case $?$help in
    12[67]) ;;
    0?*) advice="to see what to do, as root: $each $program status"; break;;
    *) advice="to see what to do, as root: hostrouting status";;
  esac;
done;
say "<5>hostrouting: $advice";
say "<5>hostrouting: to start ALL gated units without any check until the next boot, as root:
 {HostLayout.opening_command}"
"""
"""The gate, in the language of the shell, with the unit as $1: the unit starts if the gate was
opened, or if the program lets it. All of the gate is in the drop-in, because another file could be
missing.
"""


def _in_unit(script: str) -> str:
    """A script as one line of a unit file: without its comments, and escaped, so that systemd
    expands nothing in it.
    """
    lines = map(str.strip, script.splitlines())
    command = " ".join(line for line in lines if line and not line.startswith("#"))
    return command.replace("%", "%%").replace("$", "$$")


_FLUSHERS = "nftables-flush.service nftables.service"
"""Units that may delete every nftables table, when they start with a gated unit or at boot. The
first is the node agent's. The gate and the unit for probes start after them, and load our table.
The guard need not be After= them: if they delete the table that it has loaded, those two load it
again.
"""

GATE_MARK = "hostrouting-gate"
"""The word by which the gate is known among the conditions of a unit."""
# What systemctl shows of the gate, in every release. Some systemds put its words into quotes. With
# `ExecCondition=-`, systemd would ignore a refusal.
GATE_AS_SHOWN = rf"/usr/bin/env .*{GATE_MARK} \S+ ; ignore_errors=no"

UNSET = (
    "GCONV_PATH GLIBC_TUNABLES LD_AUDIT LD_DEBUG LD_DEBUG_OUTPUT LD_DYNAMIC_WEAK LD_HWCAP_MASK "
    "LD_LIBRARY_PATH LD_ORIGIN_PATH LD_PREFER_MAP_32BIT_EXEC LD_PRELOAD LD_PROFILE "
    "LD_PROFILE_OUTPUT LD_SHOW_AUXV LD_TRACE_LOADED_OBJECTS LD_TRACE_PRELINKING LD_USE_LOAD_BIAS "
    "LOCPATH NLSPATH"
)
"""Variables that the loader and the C library obey before the gate can clear its environment: they
name code to load or files to write, or have the loader exit with 0. The user of a unit may set them
(EnvironmentFile=), and the gate runs as root.

These are the names that glibc ignores in a setuid program, and two that only list libraries. Left
out are names that do nothing in `env`, and that units use: TMPDIR, TZDIR, MALLOC_*, and those of
the resolver.
"""

# A command "vanishes" (systemd's word) if a unit's text is changed and systemd is reloaded during a
# start: systemd looks for the running command in the new text, to go on with the one behind it, and
# does not find it.
DROP_IN_TEXT = f"""\
{HEADER}# The same text for each unit, configuration and release, in a file that sorts first: if a
# command vanishes from a unit while it runs, systemd skips those that come after it.
[Unit]
Wants=network-online.target
After=network-online.target {_FLUSHERS}
[Service]
# A condition comes before every ExecStartPre=, and `ExecStartPre=` in another drop-in does not
# remove it. With +, it runs as root and outside the unit's sandbox, but with its environment.
UnsetEnvironment={UNSET}
ExecCondition=+/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
INVOCATION_ID=${{INVOCATION_ID}} /bin/sh -c '{_in_unit(_GATE_SCRIPT)}' {GATE_MARK} %n
"""
NETWORKD_TEXT = f"""\
{HEADER}[Network]
ManageForeignRoutes=no
ManageForeignRoutingPolicyRules=no
ManageForeignNextHops=no
"""
"""Tells systemd-networkd to keep routes, rules and nexthop objects that it did not make. A version
that does not know a key logs that, and ignores the key.
"""

# Python, `nft` and netlink work in this sandbox.
#
# - CapabilityBoundingSet=: a route lookup requires none.
# - SystemCallFilter=~: even without capabilities, a process of root can kill other processes of
#   root, and change their limits (prlimit64). io_uring (@aio) could open sockets of the families
#   that RestrictAddressFamilies= refuses.
# - InaccessiblePaths=, ProtectHome=: it can also read root's files.
# - {paths}: it can make the kernel kill others first (/proc/PID/oom_score_adj). Each path that a
#   setting hides or makes read-only costs each start a millisecond, so /proc and /sys are read-only
#   as a whole.
# - pipe, pipe2: they are in @ipc, and Python needs them to run nft.
# - ProtectHostname= is not set: systemd 247 cannot combine it with a read-only /proc.
# - RuntimeDirectory=: the folder of the lock exists, and is writable.
# - SyslogIdentifier=: by this name, `status` finds the lines in the journal.
_SANDBOX = """\
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
RestrictAddressFamilies=AF_NETLINK
IPAddressDeny=any
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources @aio @ipc @keyring userfaultfd kcmp \
kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal prlimit64
SystemCallFilter=pipe pipe2 {calls}
SystemCallErrorNumber=EPERM
ProtectSystem=strict
{paths}
InaccessiblePaths=-/dev/shm -/run/initctl -/etc/shadow -/etc/shadow- -/etc/gshadow -/etc/gshadow-
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
SyslogIdentifier=hostrouting
"""

_FOR_NFT = "kill"
"""The system call that ends an nft that hangs."""
# Both settings name /run. ProtectSystem=strict alone promises to make it read-only, but beside
# ProtectProc= and some other settings, systemd 252 and 257 leave it writable.
_READ_ONLY = "ReadOnlyPaths=/run /proc /sys -/dev/mqueue"
# The markers are in the directory of an agent, which may remove it and make a new one: a mount of
# that directory would show the old one, so all of /run is mounted. The directory is not set as a
# RuntimeDirectory=, because it would belong to root then; with CAP_DAC_OVERRIDE, a unit can write
# there whoever owns it.
_WRITES_MARKERS = "ReadOnlyPaths=/run/systemd /proc /sys -/dev/mqueue\nReadWritePaths=/run"


def _render(
    description: str,
    command: str,
    *settings: str,
    after: str = "",
    capabilities: str = "CAP_NET_ADMIN",
    calls: str = "",
    paths: str = _READ_ONLY,
    is_enabled: bool = True,
) -> str:
    """The text of a unit of ours, which runs this command in a sandbox. `settings` are further
    lines of [Service], and `after` are units that it starts after. With `is_enabled`, systemd can
    start it at boot. The sandbox leaves the command these `capabilities`, and these system `calls`
    beside the usual ones; `paths` are settings that say where it may write.
    """
    lines = [
        "[Unit]",
        f"Description={description}",
        "Wants=network-online.target",
        f"After=network-online.target {after}".rstrip(),
        "StartLimitIntervalSec=0",  # systemd never gives up starting it again
        "",
        "[Service]",
        f"ExecStart={command}",
        *settings,
        "TimeoutStopSec=10",
    ]
    install = ""
    if is_enabled:
        install = "\n[Install]\nWantedBy=multi-user.target\n"
    sandbox = _SANDBOX.format(capabilities=capabilities, calls=calls, paths=paths)
    return HEADER + "\n".join(lines) + "\n" + sandbox + install


def _command(function: str, argument: str) -> str:
    """The command of a unit that runs this function of `hostrouting.node`. The shell opens the
    program; of its words, `hostrouting` is $0, and `argument` is $1, which the function gets.
    """
    return f"/bin/sh -c '{_in_unit(_SERVICE_SCRIPT + _program(function))}' hostrouting {argument}"


def _oneshot(part: str) -> tuple[str, ...]:
    """The arguments of `_render` for a unit that makes this part of a pass once, and then ends (a
    oneshot): its command and two settings.
    """
    # The program ends itself after 75 s, and can log why. systemd's time-out must be longer.
    return _command("boot", part), "Type=oneshot", "TimeoutStartSec=90"


UNITS = {
    HostLayout.guard_unit: _render(
        "Repair the routing of this host when something changes it",
        _command("guard", "guard"),
        "Type=exec",  # a start fails if the sandbox cannot be made
        "Restart=always",
        "RestartSec=1",
        capabilities="CAP_NET_ADMIN CAP_DAC_OVERRIDE",
        calls=_FOR_NFT,
        paths=_WRITES_MARKERS,
    ),
    HostLayout.routes_unit: _render(
        "Set the static routes of this host",
        *_oneshot("static_routes"),
        # It is tried again so that a failure at boot does not show for ever, when the guard or an
        # operator has repaired its cause. Once a minute is enough: a conflict can last, and each
        # try logs it.
        "Restart=on-failure",
        "RestartSec=60",
    ),
    HostLayout.check_unit: _render(
        "Check that expected networks leave through the expected device",
        *_oneshot("route_overlap"),
        capabilities="CAP_DAC_OVERRIDE",
        paths=_WRITES_MARKERS,
        is_enabled=False,
    ),
    HostLayout.probe_unit: _render(
        "Let IPv6 probes of the load balancer reach the pods",
        *_oneshot("probe_rewrite"),
        "Restart=on-failure",
        "RestartSec=10",
        calls=_FOR_NFT,
        after=_FLUSHERS,
    ),
}
"""The texts by unit, in the order in which the units are stopped: the guard first, because it makes
whole passes, of which each oneshot makes a part. The check is not enabled: it is run by hand.
"""

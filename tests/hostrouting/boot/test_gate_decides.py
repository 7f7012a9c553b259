"""gate.sh, run by bash as systemd runs it: which steps hold a unit back, and that nothing else
opens it.
"""

import os
import re
import shlex
import subprocess
from itertools import product
from pathlib import Path

import pytest
from hypothesis import settings

from hostrouting.boot.scripts import asset
from hostrouting.host.layout import HostLayout
from tests.support.inline_gate import COMMAND, gate_text

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

GUARD = "hostrouting-guard.service"
PASS, FAIL, HANG, UNHEARD = (
    "exit 0\n",
    "exit 1\n",
    "sleep 60\nexit 0\n",
    "trap '' TERM\nwhile :; do sleep 1; done\n",
)
# The gate enters the network namespace of process 1, which here is the first of its own pid
# namespace.
ALONE = ("/usr/bin/unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child")


class Gate:
    """A gate with its own folders."""

    def __init__(self, paths: Path, *, limit: int = 75) -> None:
        """Create the folders; there are no steps yet."""
        self.paths, self.limit = paths, limit
        self.open = paths / "run/gate.open"
        for folder in ("etc", "etc/gate.d", "run"):
            (paths / folder).mkdir()
            (paths / folder).chmod(0o755)

    def write(self, required: str = "", wanted: str = "", **steps: str) -> "Gate":
        """Write gate.sh and these steps, and delete all others."""
        (self.paths / "etc/gate.sh").write_text(
            gate_text(required=required, wanted=wanted, limit=self.limit, paths=self.paths)
        )
        for old in (self.paths / "etc/gate.d").iterdir():
            old.unlink()
        for name, text in steps.items():
            step = self.step(name)
            step.write_text(text)
            step.chmod(0o644)
        return self

    def step(self, name: str) -> Path:
        """The script of this step."""
        return self.paths / f"etc/gate.d/{name}.sh"

    def start(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run it for a unit, or with these arguments; the exit status, and what it logged."""
        words = [
            *ALONE,
            "/bin/bash",
            "-pc",
            COMMAND,
            f"{self.paths}/etc/gate.sh",
            *(arguments or ("a.service",)),
        ]
        environment = {"PATH": os.environ["PATH"]} | environment
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=60, env=environment
        )
        return done.returncode, done.stderr

    def signalled(self, before: str, *, until: str) -> subprocess.CompletedProcess[str]:
        """Run it for a unit after these commands of bash, and send it SIGTERM once this command
        succeeds.
        """
        command = ["/bin/bash", "-pc", COMMAND, f"{self.paths}/etc/gate.sh", "a.service"]
        # The first process of a pid namespace hears no signal from within, so bash is the second.
        script = f'{before}"$@" & until {until} >/dev/null; do sleep 0.05; done; kill $!; wait $!'
        return subprocess.run(
            [*ALONE, "/bin/bash", "-c", script, "bash", *command],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A gate without steps."""
    return Gate(tmp_path)


PASSES = {"a": PASS, "b": PASS, "c": PASS}
# The required and the wanted steps, the files, and why the unit is held back; after a +, what is
# only logged.
DECISIONS: dict[str, tuple[str, str, dict[str, str], str]] = {
    "no step": ("", "", {}, ""),
    "all succeed": ("a b", "c", PASSES, ""),
    "two required ones fail": (
        "a b",
        "c",
        {**PASSES, "a": FAIL, "b": FAIL},
        "step a failed (exit 1)",
    ),
    "one ends with a status": (
        "a b",
        "c",
        {**PASSES, "b": "exit 3\n"},
        "step b failed (exit 3), see the lines above",
    ),
    "one is killed": ("a b", "c", {**PASSES, "b": "kill -KILL $$\n"}, "step b failed (exit 137)"),
    "an empty one": ("a b", "c", {**PASSES, "b": ""}, "b.sh is cut short\n"),
    # It does not say that it succeeded.
    "one that was cut short": ("a b", "c", {**PASSES, "b": "true\n"}, "b.sh is cut short\n"),
    "a required one is missing": ("a b", "c", {"b": FAIL, "c": PASS}, "a.sh is missing"),
    "all are missing": ("a b", "c", {}, "a.sh is missing"),
    "another program's fails": ("a", "", {**PASSES, "c": FAIL}, "step c failed"),
    # It ends as its last command does.
    "another program's ends well": ("a", "", {**PASSES, "c": "#!/bin/sh\ntest -d /\n"}, ""),
    "another program's ends badly": (
        "a",
        "",
        {**PASSES, "c": "#!/bin/sh\ntest -f /\n"},
        "step c failed",
    ),
    "a required one hangs": ("a", "b", {"a": HANG, "b": PASS}, "step a ran longer than"),
    "one that ignores SIGTERM": ("a", "", {"a": UNHEARD}, "step a ran longer than"),
    "a wanted one fails": ("a b", "c", {**PASSES, "c": FAIL}, "+step c failed"),
    "a wanted one is missing": ("a b", "c", {"a": PASS, "b": PASS}, "+c.sh is missing"),
    "a wanted one hangs": ("b", "a", {"a": HANG, "b": PASS}, "+step a ran longer than"),
}


@pytest.mark.waits
@pytest.mark.parametrize("decision", DECISIONS)
def test_which_steps_hold_a_unit_back(gate: Gate, decision: str) -> None:
    """Required and foreign steps hold it back if they fail, hang or are missing; wanted ones are
    logged and passed.
    """
    required, wanted, steps, reason = DECISIONS[decision]
    if {HANG, UNHEARD} & {*steps.values()}:
        # What comes after a wanted step that hangs has a third of the time.
        gate.limit = 9 if wanted == "a" else 3
    status, log = gate.write(required, wanted, **steps).start()
    is_refused = bool(reason) and reason[0] != "+"
    assert status == (255 if is_refused else 0), log
    assert reason.lstrip("+") in log
    lines = re.findall("^<[34]>.*", log, re.MULTILINE)
    if is_refused:
        refusal, advice = lines[-2:]
        assert refusal.startswith("<3>hostrouting: a.service was not started: ")
        assert advice == (
            "<3>hostrouting: to start ALL gated units without any step (no static route is set, "
            "nothing is checked) until "
            f"{gate.open} is deleted, as root: echo REASON >{gate.open} && chmod 644 {gate.open}"
        )
        lines = [line for line in lines[:-2] if "is cut short" not in line]
    for line in lines:
        assert line.startswith("<4>hostrouting: a.service: ")
        assert line.endswith("; this alone does not hold it back")


@pytest.mark.parametrize("wanted", ["", "a"])
def test_a_link_that_leads_nowhere(gate: Gate, wanted: str) -> None:
    """A step that is such a link is handled once, also by the guard."""
    gate.write("" if wanted else "a", wanted)
    gate.step("a").symlink_to("nowhere")
    for arguments in ((), (GUARD,)):
        log = gate.start(*arguments)[1]
        assert log.count("a.sh is a link, so it is not run") == 1, log


@pytest.mark.parametrize("wanted", ["", "a"])
def test_the_network_of_the_host_cannot_be_entered(gate: Gate, wanted: str) -> None:
    """If nsenter may not enter it, the line says that the step was not run."""
    gate.write("" if wanted else "a", wanted, a=PASS)
    gate_file = f"{gate.paths}/etc/gate.sh"
    command = ["/bin/bash", "-pc", COMMAND, gate_file, "a.service"]
    elsewhere = ["setpriv", "--bounding-set=-sys_admin", *command]
    script = 'unshare --net -- "$@"; exit'
    done = subprocess.run(
        [*ALONE, "/bin/bash", "-c", script, "bash", *elsewhere],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if wanted else 255), done.stderr
    assert (
        "step a was not run: nsenter cannot enter the network of the host, see the lines above"
        in done.stderr
    )


@pytest.mark.waits
def test_a_step_that_is_killed_late(gate: Gate) -> None:
    """Its own time counts, and not that of an earlier step."""
    gate.limit = 4
    status, log = gate.write("a b", a=f"sleep 2.2\n{PASS}", b="kill -KILL $$\n").start()
    assert status == 255
    assert "step b failed (exit 137)" in log


def test_no_time_is_left(gate: Gate) -> None:
    """A step that has no time is not run, and the unit is held back."""
    gate.limit = 0
    status, log = gate.write("a", "", a=PASS).start()
    assert status == 255
    assert "step a was not run: what came before took all 0 s\n" in log


@pytest.mark.parametrize("jump", [-99999, 99999])
def test_a_clock_that_jumps(gate: Gate, jump: int) -> None:
    """When the time of day is set, no step loses its time or may wait for an hour."""
    may_wait = gate.paths / "may_wait"
    # The line is run again when the gate has the lock.
    gate.write("a", f") SECONDS={jump} rest=(", a=f"echo $2 >{may_wait}\n{PASS}")
    assert gate.start() == (0, "")
    assert 60 <= int(may_wait.read_text()) <= 65


@pytest.mark.waits
@pytest.mark.parametrize("arguments", [("a.service", "a"), (GUARD,)])
def test_the_time_in_a_sandbox(gate: Gate, arguments: tuple[str, ...]) -> None:
    """Where /proc shows processes only, as in the oneshots and the guard, a step has its time."""
    may_wait = gate.paths / "may_wait"
    gate.limit = 13
    gate.write("a b", "", a=f"echo $2 >{may_wait}\nsleep 2.1\n{PASS}", b=f"sleep 99\n{PASS}")
    script = (
        'mount -t proc -o subset=pid none /proc && [[ ! -e /proc/uptime ]] && exec "$@" && exit 1'
    )
    command = ["/bin/bash", "-pc", COMMAND, f"{gate.paths}/etc/gate.sh", *arguments]
    done = subprocess.run(
        [*ALONE, "/bin/bash", "-c", script, "bash", *command],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if arguments == (GUARD,):
        assert re.search("step b ran longer than (10|11) s", done.stderr)
        assert done.returncode == 255
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert may_wait.read_text() in {"2\n", "3\n"}


def test_the_first_second_of_a_host() -> None:
    """The time has a zero in front then, which does not make it octal."""
    script = f"read() {{ now=0.98; }}\n{asset('clock.sh')}\nread_clock\necho $now"
    assert subprocess.check_output(["bash", "-c", script], text=True) == "98\n"


def test_the_time_of_a_wanted_step(gate: Gate) -> None:
    """It has two thirds of the time, and may wait until 10 s before their end."""
    may_wait = gate.paths / "may_wait"
    gate.limit = 60
    gate.write("", "a", a=f"echo $2 >{may_wait}\n{PASS}")
    assert gate.start() == (0, "")
    assert 20 <= int(may_wait.read_text()) <= 30


def test_what_a_step_is_given(gate: Gate) -> None:
    """A step gets the unit and how long it may wait; not the environment, the lock, or what another
    has used up.
    """
    gate.limit = 30
    log = gate.paths / "log"
    tell = f'echo "$* $(umask) $(env | sort | tr "\\n" " ")" >>{log}\n'
    gate.write("a b", "", a=f"{tell}sleep 1.1\n{PASS}", b=tell + PASS)
    for arguments, waits in (
        (("a.service",), (20, 19)),
        ((GUARD,), (0, 0)),
        ((GUARD, "b"), (0,)),
        (("x.service", "b"), (20,)),
    ):
        assert gate.start(*arguments, SECRET="1", LD_LIBRARY_PATH="/nowhere") == (0, "")  # noqa: S106  not a secret
        lines = log.read_text().splitlines()
        log.unlink()
        for line, wait in zip(lines, waits, strict=True):
            unit, seconds, rest = line.split(" ", 2)
            assert unit == arguments[0]
            assert wait - 1 <= int(seconds) <= wait
            assert re.fullmatch(
                r"0022 LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin PWD=.+ SHLVL=1 _=.+ ", rest
            )


def test_the_guard_and_the_oneshots(gate: Gate) -> None:
    """The guard runs all our steps whatever fails, a oneshot only its own; break glass is not for
    them.
    """
    ran = gate.paths / "ran"
    steps = {
        "a": f"echo a >>{ran}; exit 1\n",
        "b": f"echo b >>{ran}; exit 0\n",
        "c": f"echo c >>{ran}; exit 1\n",
    }
    gate.write("0 a b", "c", **steps, theirs=f"echo theirs >>{ran}; exit 0\n")
    gate.open.write_text("reason\n")
    for arguments, status, names in (
        ((GUARD,), 255, "a b c"),
        ((GUARD, "a"), 255, "a"),
        (("a.service", "a"), 255, "a"),
        (("b.service", "b"), 0, "b"),
        (("x.service", "x"), 255, ""),  # missing
    ):
        ran.write_text("")
        ended, log = gate.start(*arguments)
        assert (ended, ran.read_text().split()) == (status, names.split()), arguments
        assert "echo REASON" not in log
        assert ("x.sh is missing, so it is not run" in log) == (arguments == ("x.service", "x"))
        assert ("0.sh is missing" in log) == (arguments == (GUARD,))
        if arguments != (GUARD,):
            assert log.count("<4>hostrouting: ") == (1 if status else 0), log


# What is done to the file that opens the gate, and why the gate ignores it.
IGNORED = {
    "chmod 664 {file}": "its mode is 664; ",
    "chmod 4644 {file}": "its mode is 4644; ",
    "chmod 646 {file}": "its mode is 646; ",
    "chmod 744 {file}": "its mode is 744; ",
    "chmod 544 {file}": "its mode is 544; ",
    "chown 1 {file}": "it does not belong to root",
    "echo '  ' >{file}": "its first line is empty",
    ": >{file}": "its first line is empty",
    "ln -sf /etc/hostname {file}": "it is a symbolic link",
    "rm {file}; mkfifo -m 600 {file}": "it is a fifo",
    "rm {file}; mkdir {file}": "it is a directory",
}


class TestBreakGlass:
    """A file of root's with a reason starts any unit unchecked; every other file is ignored."""

    @pytest.fixture(autouse=True)
    def closed(self, gate: Gate) -> None:
        """Without the file, the unit is refused."""
        gate.write("a", "", a=FAIL)

    @staticmethod
    def open_by(gate: Gate, umask: str = "022") -> None:
        """Run the command that the refusal names."""
        [command] = re.findall("is deleted, as root: (.*)", gate.start()[1])
        subprocess.run(["sh", "-c", f"umask {umask}; {command}"], check=True)

    @pytest.mark.parametrize("umask", ["077", "022", "002", "000"])
    def test_the_command_that_is_named(self, gate: Gate, umask: str) -> None:
        """It opens the gate, whatever the umask. The log has the reason."""
        assert gate.start()[0] == 255
        self.open_by(gate, umask)
        log = f"<4>hostrouting: a.service starts UNCHECKED: {gate.open}: REASON\n"
        assert gate.start() == (0, log)

    def test_nothing_is_left_over(self, gate: Gate) -> None:
        """The gate ends after all that it has started: otherwise systemd warns of what is left."""
        self.open_by(gate)
        ended = gate.paths / "ended"
        script = gate.paths / "etc/gate.sh"
        slow = f'stat() {{\n  command stat "$@"\n  sleep 0.3\n  echo $LC_ALL >{ended}\n}}\n'
        script.write_text(slow + script.read_text())
        assert gate.start()[0] == 0
        assert ended.read_text() == "C\n", "the gate compares what stat prints"

    def test_nothing_is_awaited(self, gate: Gate) -> None:
        """Neither the lock, nor another start."""
        self.open_by(gate)
        held = ["flock", f"{gate.paths}/run/turn", "cat"]
        with subprocess.Popen(held, stdin=subprocess.PIPE):
            assert gate.start()[0] == 0

    @pytest.mark.parametrize(
        "change", ["chmod 600", "chmod 400", "head -c 99999 /dev/zero | tr '\\0' x >"]
    )
    def test_files_that_open_it(self, gate: Gate, change: str) -> None:
        """Whatever others may not write; of a long reason, the beginning is logged."""
        self.open_by(gate)
        subprocess.run(["sh", "-c", f"{change} {gate.open}"], check=True)
        status, log = gate.start()
        assert status == 0
        assert f"{gate.open} is ignored" not in log
        assert len(log.replace(str(gate.paths), "")) < 500

    @pytest.mark.parametrize(("change", "why_not"), IGNORED.items(), ids=str)
    def test_files_that_do_not(self, gate: Gate, change: str, why_not: str) -> None:
        """The log says what is wrong with the file."""
        self.open_by(gate)
        subprocess.run(["sh", "-c", change.format(file=gate.open)], check=True)
        status, log = gate.start()
        assert status == 255
        assert f"{gate.open} is ignored: {why_not}" in log
        assert len(log.replace(str(gate.paths), "")) < 500

    def test_no_file_is_not_named(self, gate: Gate) -> None:
        """A gate that nobody has opened is nothing to log."""
        self.open_by(gate)
        gate.open.unlink()
        status, log = gate.start()
        assert status == 255
        assert "is ignored" not in log


# What is done to a step, and why it is then not run; empty where it is run.
CHANGES = {
    "chmod 600 {step}": "",
    "chmod 755 {step}": "",
    "chmod 4744 {step}": "",
    "chgrp 1 {step}": "",
    "chmod 664 {step}": "users other than root can write to {step}",
    "chmod 646 {step}": "users other than root can write to {step}",
    "chmod 4662 {step}": "users other than root can write to {step}",
    "chown 1 {step}": "{step} does not belong to root",
    "chown 1 {step}; chmod 664 {step}": "{step} does not belong to root",
    "mv {step} {step}.old; ln -s {step}.old {step}": "{step} is a link",
    "rm {step}; mkdir {step}": "{step} is not a file",
    "rm {step}; mkfifo {step}": "{step} is not a file",
}
"""Where others than root can write, they would be root at the next start; a link can lead there."""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["required", "wanted", "foreign", "of the guard", "of a oneshot"])
def test_a_step_that_others_can_change(gate: Gate, kind: str, change: str) -> None:
    """It is not run: where it is wanted only, the unit starts all the same, as if the step had
    failed. The log names the fault, and the repair that `status` names.
    """
    ran = gate.paths / "ran"
    gate.write(
        required="" if kind in {"wanted", "foreign"} else "a",
        wanted="a" if kind == "wanted" else "",
        a=f"echo ran >{ran}; exit 0\n",
    )
    step = gate.step("a")
    subprocess.run(["sh", "-c", change.format(step=step)], check=True)
    words = {"of the guard": [GUARD], "of a oneshot": ["b.service", "a"]}
    status, log = gate.start(*words.get(kind, ["a.service"]))
    if CHANGES[change]:
        fault = CHANGES[change].format(step=step)
        assert not ran.exists()
        assert status == (0 if kind == "wanted" else 255)
        assert ("a.service was not started" in log) is (kind in {"required", "foreign"})
        assert f"{fault}, so it is not run; {repair_of(gate, kind, change)}" in log
    else:
        assert ran.exists()
        assert (status, log) == (0, "")


def test_a_name_that_a_shell_would_run(gate: Gate) -> None:
    """The repair is quoted for a shell: while others could write to the folder, they chose names."""
    gate.write(**{"a;$(reboot) b": ""})
    step = gate.step("a;$(reboot) b")
    os.chown(step, 1, 1)
    quoted = str(step).replace("a;$(reboot) b", r"a\;\$\(reboot\)\ b")
    assert f"; as root: chown root {quoted} && chmod 644 {quoted}\n" in gate.start()[1]


def repair_of(gate: Gate, kind: str, change: str) -> str:
    """What the log tells an operator to do about the step."""
    step = gate.step("a")
    if kind != "foreign":
        return f"as root: hostrouting apply --config {gate.paths}/etc/config.json"
    if "ln -s" in change:
        return "put a copy of the file in its place"
    if "rm" in change:
        return "move it away"
    return f"as root: chown root {step} && chmod 644 {step}"


@pytest.mark.parametrize(
    "change", [change for change in CHANGES if CHANGES[change] and "rm" not in change]
)
def test_the_repair_that_is_named(gate: Gate, change: str) -> None:
    """After it, the unit starts."""
    gate.write(a=PASS)
    step = gate.step("a")
    subprocess.run(["sh", "-c", change.format(step=step)], check=True)
    log = gate.start()[1]
    command = f"cp --remove-destination {step}.old {step}"
    if "ln -s" not in change:
        command = re.findall("as root: ([^;\n]*)", log)[0]
    subprocess.run(["sh", "-c", command], check=True)
    assert gate.start() == (0, "")


@pytest.mark.parametrize("folder", ["etc", "etc/gate.d"])
@pytest.mark.parametrize("change", ["chmod 775", "chmod 757", "chown 1"])
def test_a_folder_that_others_can_change(gate: Gate, folder: str, change: str) -> None:
    """Whoever can write to the folder can replace every step, and so none is run, for whatever
    unit.
    """
    ran = gate.paths / "ran"
    gate.write(wanted="a", a=f"echo ran >{ran}; exit 0\n")
    path = gate.paths / folder
    subprocess.run(["sh", "-c", f"{change} {path}"], check=True)
    log = ""
    for arguments in (("a.service",), (GUARD,), ("b.service", "a")):
        status, log = gate.start(*arguments)
        assert (status, ran.exists()) == (255, False)
        assert f"users other than root can write to {path}, and root runs what is there; " in log
    command = re.findall("as root: ([^;\n]*)", log)[0]
    subprocess.run(["sh", "-c", command], check=True)
    assert gate.start() == (0, "")


# What bash takes from its environment, or its manual calls special, and every name that gate.sh
# itself uses.
NAMES_OF_GATE = """
required wanted only_step mode now began activity has_failed owner_of permissions_of
enter_host_network steps reason fault time_limit time_left step_limit work_time kill_after signal
"""
PATHS_OF_BASH = "BASH_ENV ENV LD_PRELOAD CDPATH PATH HISTFILE BASH_ARGV0"
FUNCTIONS_OF_GATE = "exit trap main flock timeout env"
ENVIRONMENTS = [
    *({"FUNCNEST": str(depth)} for depth in (1, 2, 3)),
    *({name: "/evil"} for name in PATHS_OF_BASH.split()),
    *(
        {"SHELLOPTS": name}
        for name in ["noexec", "errexit:nounset", "noglob", "xtrace", "posix", "onecmd"]
    ),
    *({"BASHOPTS": name} for name in ["failglob", "extdebug", "execfail"]),
    *(
        {name: value}
        for name, value in product(
            ("SECONDS", "UID", "EUID", "LINENO", "TMOUT"), ("-99999", "99999", "x", "0.000001")
        )
    ),
    {"POSIXLY_CORRECT": "1"},
    {"GLOBIGNORE": "*"},
    {"EXECIGNORE": "*"},
    {"IFS": "0a12"},
    {"BASH_COMPAT": "3.1"},
    {"LC_ALL": "de_DE@nowhere"},
    {"PS4": "$(kill $$)"},
    *({f"BASH_FUNC_{name}%%": "() { builtin exit 0; }"} for name in FUNCTIONS_OF_GATE.split()),
    *({name: "a"} for name in NAMES_OF_GATE.split()),
]


def test_no_environment_opens_it(gate: Gate) -> None:
    """Whatever the environment of the manager or of the unit has in it, a refusal stays one, and a
    success, too.
    """
    (gate.paths / "evil").write_text("exit 0\n")
    command = shlex.join(["/bin/bash", "-pc", COMMAND, f"{gate.paths}/etc/gate.sh", "a.service"])
    path = f"PATH={shlex.quote(os.environ['PATH'])}"
    runs: list[str] = []
    for environment in ENVIRONMENTS:
        given = shlex.join(f"{name}={value}" for name, value in environment.items())
        given = given.replace("/evil", f"{gate.paths}/evil")
        runs.append(f"env -i {path} {given} {command} 2>/dev/null; echo $?")
    for step, status in ((FAIL, "255"), (PASS, "0")):
        gate.write("a", "", a=step)
        words = [*ALONE, "bash", "-c", "\n".join(runs)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=200)
        statuses = done.stdout.split()
        for environment, ended in zip(ENVIRONMENTS, statuses, strict=True):
            assert ended == status, environment


def test_no_damage_opens_it(gate: Gate) -> None:
    """gate.sh that is missing, empty, or cut at the end of any word refuses, although every step
    succeeds.

    It is cut at every tenth word; near the end, and in the long profile, at each.
    """
    gate.write("a", "", a=PASS)
    script = gate.paths / "etc/gate.sh"
    whole = script.read_text()
    places = [match.end() for match in re.finditer(r"[^\s\w]|\w+", whole)]
    assert len(places) > 600
    if settings().max_examples < 1_000:
        places = [*places[:-50:10], *places[-50:]]
    cuts = gate.paths / "cuts"
    cuts.mkdir()
    for place in places:
        (cuts / f"{place:05}").write_text(whole[:place])
    (cuts / "00000").write_text("")
    driver = f"for cut in {cuts}/* /nowhere; do /bin/bash -pc '{COMMAND}' \"$cut\" a.service >/dev/null 2>&1; echo ${{cut##*/}} $?; done"
    done = subprocess.run(
        [*ALONE, "bash", "-c", driver], stdout=subprocess.PIPE, text=True, check=True, timeout=200
    )
    ended = dict(line.split() for line in done.stdout.splitlines())
    is_whole = {f"{place:05}": "0" for place in places if place > whole.rindex("\nmain")}
    assert len(ended) == len(places) + 2
    assert ended == dict.fromkeys(ended, "255") | is_whole


@pytest.mark.parametrize("damage", ["rm", "truncate --size 0", "sed -i '$d'", "sed -i '$iexit 1'"])
def test_damage_is_said(gate: Gate, damage: str) -> None:
    """A gate that cannot do its work says so in the journal of the unit that it holds back."""
    script = gate.write("a", "", a=PASS).paths / "etc/gate.sh"
    subprocess.run(["sh", "-c", f"{damage} {script}"], check=True)
    status, log = gate.start()
    repair = f"as root: hostrouting apply --config {HostLayout.config_path}"
    line = f"<3>hostrouting: {script} is missing, cut short or edited; {repair}"
    assert (status, log.splitlines()[-1]) == (255, line)


def test_a_folder_that_is_a_link(gate: Gate) -> None:
    """Who can write to the folder to which it leads counts."""
    gate.write("a", "", a=PASS)
    folder, elsewhere = gate.paths / "etc/gate.d", gate.paths / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert gate.start() == (0, "")
    elsewhere.chmod(0o775)
    assert gate.start()[0] == 255


def test_who_can_write_is_not_known(gate: Gate) -> None:
    """Nothing is run, and nobody is told to change what may be right."""
    gate.write("a", "", a=PASS)
    script = gate.paths / "etc/gate.sh"
    text = script.read_text()
    assert text.count(" PATH=/usr/sbin:") == 1
    script.write_text(text.replace(" PATH=/usr/sbin:", f" PATH={gate.paths}:/usr/sbin:"))
    (gate.paths / "stat").write_text("#!/bin/sh\nexit 1\n")
    (gate.paths / "stat").chmod(0o755)
    status, log = gate.start()
    assert status == 255
    assert f"was not started: stat does not say who can write to {gate.paths}/etc, and root" in log
    assert "chmod" not in log.splitlines()[0]


@pytest.mark.waits
@pytest.mark.parametrize(
    ("how", "name"), [("--exclusive", "turn"), ("--exclusive", "lock"), ("--shared", "turn")]
)
def test_the_lock(gate: Gate, how: str, name: str) -> None:
    """A writer is waited for, and named if that takes too long.

    Starts wait for each other, too, until each has the lock: those that held `turn` together would
    never let it go.
    """
    gate.limit = 4
    gate.write("a", "", a=PASS)
    done = gate.paths / "done"
    for seconds, status in (("0.5", 0), ("9", 255)):
        done.unlink(missing_ok=True)
        holding = f"echo; sleep {seconds}; : >{done}"
        words = ["flock", "--close", how, f"{gate.paths}/run/{name}", "sh", "-c", holding]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            writer.stdout.readline()
            ended, log = gate.start()
            assert (ended, done.exists()) == (status, not status), log
            by_whom = "a process that changes the host"
            if name == "turn":
                by_whom = f"another start or change, which waits for {gate.paths}/run/lock"
            refusal = f"{gate.paths}/run/{name} was still locked after 4 s, by {by_whom}"
            assert (f"was not started: {refusal}" in log) == (status == 255), log
            subprocess.run(["pkill", "-P", str(writer.pid)], check=False)


def test_the_folder_of_the_lock(gate: Gate) -> None:
    """It is made where there is none; everybody can see in it whether the gate is open."""
    folder = gate.paths / "run"
    folder.rmdir()
    assert gate.write().start() == (0, "")
    assert folder.stat().st_mode & 0o777 == 0o755


def test_names_that_change_while_the_lock_is_awaited(gate: Gate) -> None:
    """The names that the writer leaves count."""
    script = gate.write("b", "", b=PASS).paths / "etc/gate.sh"
    new = script.read_text()
    gate.write("a", "", b=PASS)
    (gate.paths / "new").write_text(new)
    writing = f"echo; sleep 0.5; mv {gate.paths}/new {script}"
    words = ["flock", f"{gate.paths}/run/lock", "sh", "-c", writing]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        assert writer.stdout
        writer.stdout.readline()
        assert gate.start() == (0, "")


@pytest.mark.waits
def test_both_locks_share_the_time(gate: Gate) -> None:
    """What the wait for the first has taken, the second does not have."""
    script = gate.write().paths / "etc/gate.sh"
    waits = gate.paths / "waits"
    script.write_text(f"flock() {{ echo $3 >>{waits}; sleep 1.1; }}\n" + script.read_text())
    assert gate.start() == (0, "")
    first, second = map(int, waits.read_text().split())
    assert first - second >= 1


def test_what_a_step_leaves_behind(gate: Gate) -> None:
    """A step that leaves a process behind does not lock the gate; only root can lock it."""
    gate.write("a", "", a=f"sleep 50 >/dev/null 2>&1 & {PASS}")
    lock = gate.paths / "run/lock"
    command = f"/bin/bash -pc '{COMMAND}' {gate.paths}/etc/gate.sh a.service && flock --nonblock {lock} true"
    assert subprocess.run([*ALONE, "bash", "-c", command], check=False).returncode == 0
    assert lock.stat().st_mode & 0o777 == 0o600


def test_a_lost_log(gate: Gate) -> None:
    """A log that nobody reads any more neither holds a unit back nor lets it start."""
    for step, status in (("a", 255), ("b", 0)):
        gate.write("a", "b", **{"a": PASS, "b": PASS, step: FAIL})
        reader, writer = os.pipe()
        os.close(reader)
        words = [*ALONE, "/bin/bash", "-pc", COMMAND, f"{gate.paths}/etc/gate.sh", "a.service"]
        assert subprocess.run(words, stderr=writer, check=False).returncode == status
        os.close(writer)


def test_the_lock_is_held_while_steps_run(gate: Gate) -> None:
    """A writer that comes while a step runs does not get the lock; another start does."""
    lock, turn, tried = (gate.paths / name for name in ("run/lock", "run/turn", "tried"))
    attempts = (f"{turn}", f"{lock}", f"--shared {lock}")
    try_all = "".join(f"flock --nonblock {attempt} true; echo $?; " for attempt in attempts)
    gate.write("a b", "", a=PASS, b=f"{{ {try_all}}} >{tried}\n{PASS}")
    assert gate.start() == (0, "")
    assert tried.read_text().split() == ["0", "1", "0"]


@pytest.mark.parametrize(("name", "option"), [("turn", "--exclusive"), ("lock", "--shared")])
def test_a_signal_while_a_lock_is_awaited(gate: Gate, name: str, option: str) -> None:
    """The gate refuses at once, and says what it waited for."""
    gate.write("a", a=PASS)
    lock = gate.paths / "run" / name
    hold = f"flock --close {lock} sleep 99 & until ! flock --nonblock {lock} true; do :; done"
    is_waiting = f"pgrep --full '^flock {option} --timeout'"
    done = gate.signalled(f"{hold}\n", until=is_waiting)
    assert done.returncode == 255
    assert f"was not started: SIGTERM ended the gate while it waited for {lock}; " in done.stderr


def test_a_signal(gate: Gate) -> None:
    """The step is ended first, with the lock held; the refusal says what was interrupted, and why
    that may be.
    """
    lock, began, tried = (gate.paths / name for name in ("run/lock", "began", "tried"))
    another = "kill -HUP $(ps -o ppid= $PPID)"  # as systemd does, with SendSIGHUP=yes
    at_end = f"{another}; sleep 0.5; flock --nonblock {lock} true; echo $? >{tried}; exit 1"
    # At a signal before its `fork` has returned, `timeout` ends and leaves the step behind.
    is_watched = "until grep -q ^State:.S /proc/$PPID/status; do :; done"
    begin = f"{is_watched}\n: >{began}\nwhile :; do sleep 0.05; done\n"
    gate.write("a", a=f"trap '{at_end}' TERM\n{begin}")
    script = gate.paths / "etc/gate.sh"
    text = script.read_text()
    assert text.count("kill_after=5 ") == 1
    script.write_text(text.replace("kill_after=5 ", "kill_after=50 "))  # on a busy machine, too
    done = gate.signalled("", until=f"[[ -e {began} ]]")
    assert done.returncode == 255
    assert tried.read_text() == "1\n"
    assert (
        "<3>hostrouting: a.service was not started: SIGTERM ended the gate while step a ran; "
        "systemd sends SIGTERM to a unit that is stopped, or whose start takes longer than its "
        "TimeoutStartSec=\n"
    ) in done.stderr
    assert "echo REASON" not in done.stderr  # it may have been the operator who stopped it


def test_a_lock_that_cannot_be_opened(gate: Gate) -> None:
    """As in a full or read-only /run: the steps decide, also in a unit with POSIXLY_CORRECT, in
    which bash ends where it cannot open a file.
    """
    (gate.paths / "run/lock").mkdir()
    for step, status in ((PASS, 0), (FAIL, 255)):
        gate.write("a", "", a=step)
        for environment in ({}, {"POSIXLY_CORRECT": "1"}):
            ended, log = gate.start(**environment)
            assert ended == status, environment
            assert log.startswith(
                "<4>hostrouting: a.service: the steps run without a lock, as there is none: "
                f"{gate.paths}/run/lock: Is a directory\n"
            )


def test_a_name_with_a_space(gate: Gate) -> None:
    """Another program's step is run whatever its name is, and is never taken for two of ours."""
    ran = gate.paths / "ran"
    for step, status in ((f": >{ran}\n{PASS}", 0), (FAIL, 255)):
        gate.write("", "a b", a=PASS, b=PASS, **{"a b": step})
        assert gate.start()[0] == status
    assert ran.exists()

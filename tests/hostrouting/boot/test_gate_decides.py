"""gate.sh, run by bash as systemd runs it: which steps hold a unit back, and that nothing else
opens it.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from hostrouting.boot.scripts import asset
from hostrouting.boot.unit_gates import _reason_to_open
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from tests.support.inline_gate import COMMAND, gate_text

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

GUARD = "hostrouting-guard.service"
SUCCEEDS = "exit 0\n"
FAILS = "exit 1\n"
HANGS = "sleep 60\nexit 0\n"
IGNORES_SIGTERM = "trap '' TERM\nwhile :; do sleep 1; done\n"
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

    def start(self, /, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run it for a unit, or with these arguments; the exit status, and what it logged."""
        done = subprocess.run(
            [*ALONE, *self.command(*arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={"PATH": os.environ["PATH"]} | environment,
        )
        return done.returncode, done.stderr

    def command(self, *arguments: str) -> list[str]:
        """The command that systemd runs for a unit, or with these arguments."""
        script = f"{self.paths}/etc/gate.sh"
        return ["/bin/bash", "-pc", COMMAND, script, *(arguments or ("a.service",))]

    def signalled(self, before: str, *, until: str) -> subprocess.CompletedProcess[str]:
        """Run it for a unit after these commands of bash, and send it SIGTERM once this command
        succeeds.
        """
        # The first process of a pid namespace hears no signal from within, so bash is the second.
        script = f'{before}"$@" & until {until} >/dev/null; do sleep 0.05; done; kill $!; wait $!'
        return subprocess.run(
            [*ALONE, "/bin/bash", "-c", script, "bash", *self.command()],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A gate without steps."""
    return Gate(tmp_path)


ALL_SUCCEED = {"a": SUCCEEDS, "b": SUCCEEDS, "c": SUCCEEDS}


@pytest.mark.waits
@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        pytest.param(
            {**ALL_SUCCEED, "a": FAILS, "b": FAILS}, "step a failed (exit 1)", id="two fail"
        ),
        pytest.param(
            {**ALL_SUCCEED, "b": "exit 3\n"},
            "step b failed (exit 3), see the lines above",
            id="one ends with a status",
        ),
        pytest.param(
            {**ALL_SUCCEED, "b": "kill -KILL $$\n"}, "step b failed (exit 137)", id="one is killed"
        ),
        pytest.param({**ALL_SUCCEED, "b": ""}, "b.sh is cut short\n", id="an empty one"),
        # It does not say that it succeeded.
        pytest.param({**ALL_SUCCEED, "b": "true\n"}, "b.sh is cut short\n", id="one was cut short"),
        pytest.param({"b": FAILS, "c": SUCCEEDS}, "a.sh is missing", id="one is missing"),
        pytest.param({}, "a.sh is missing", id="all are missing"),
    ],
)
def test_a_required_step_holds_a_unit_back(gate: Gate, steps: dict[str, str], reason: str) -> None:
    """If it fails or is missing. The refusal gives the reason, and how to open the gate."""
    gate.write("a b", "c", **steps)
    status, log = gate.start()
    assert status == 255, log
    assert reason in log
    assert_refused(gate, log)


@pytest.mark.waits
@pytest.mark.parametrize("text", [HANGS, IGNORES_SIGTERM], ids=["hangs", "ignores SIGTERM"])
def test_a_required_step_that_hangs(gate: Gate, text: str) -> None:
    """It is ended, and holds the unit back."""
    gate.limit = 3
    gate.write("a", "b", a=text, b=SUCCEEDS)
    status, log = gate.start()
    assert status == 255, log
    assert f"{gate.step('a')} ran longer than 3 s, and was ended" in log
    assert_refused(gate, log)


@pytest.mark.parametrize("text", [FAILS, "#!/bin/sh\ntest -f /\n"], ids=["exit", "last command"])
def test_another_programs_step_holds_a_unit_back(gate: Gate, text: str) -> None:
    """If it fails: it ends as its last command does."""
    gate.write("a", "", a=SUCCEEDS, b=SUCCEEDS, c=text)
    status, log = gate.start()
    assert status == 255, log
    assert "step c failed" in log
    assert_refused(gate, log)


def assert_refused(gate: Gate, log: str) -> None:
    """The last two lines refuse the start, and say how to open the gate; the others do not."""
    *others, refusal, advice = re.findall("^<[34]>.*", log, re.MULTILINE)
    assert refusal.startswith("<3>hostrouting: a.service was not started: ")
    assert advice == (
        "<3>hostrouting: to start ALL gated units without any step (no static route is set, "
        "nothing is checked) until "
        f"{gate.open} is deleted, as root: echo REASON >{gate.open} && chmod 644 {gate.open}"
    )
    assert_only_logged([line for line in others if "is cut short" not in line])


def assert_only_logged(lines: list[str]) -> None:
    """These lines say that they do not hold the unit back."""
    for line in lines:
        assert line.startswith("<4>hostrouting: a.service: ")
        assert line.endswith("; this alone does not hold it back")


@pytest.mark.waits
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(FAILS, "step b failed", id="fails"),
        pytest.param(None, "b.sh is missing", id="is missing"),
        pytest.param(HANGS, "/b.sh ran longer than 6 s, and was ended", id="hangs"),
    ],
)
def test_a_wanted_step_holds_no_unit_back(gate: Gate, text: str | None, reason: str) -> None:
    """Whatever becomes of it is logged, and the unit starts. The required step after it still has a
    third of the time.
    """
    gate.limit = 9
    steps = {"c": SUCCEEDS}
    if text is not None:
        steps["b"] = text
    gate.write("c", "b", **steps)
    status, log = gate.start()
    assert status == 0, log
    assert reason in log
    assert_only_logged(re.findall("^<[34]>.*", log, re.MULTILINE))


@pytest.mark.parametrize(
    ("required", "wanted", "steps"),
    [
        pytest.param("", "", {}, id="no step"),
        pytest.param("a b", "c", ALL_SUCCEED, id="ours"),
        pytest.param(
            "a", "", {**ALL_SUCCEED, "c": "#!/bin/sh\ntest -d /\n"}, id="another program's"
        ),
    ],
)
def test_steps_that_succeed(gate: Gate, required: str, wanted: str, steps: dict[str, str]) -> None:
    """The unit starts, and nothing is logged."""
    gate.write(required, wanted, **steps)
    assert gate.start() == (0, "")


@pytest.mark.parametrize("wanted", ["", "a"])
def test_a_link_that_leads_nowhere(gate: Gate, wanted: str) -> None:
    """A step that is such a link is handled once, also by the guard."""
    gate.write("" if wanted else "a", wanted)
    gate.step("a").symlink_to("nowhere")
    for unit in ("a.service", GUARD):
        _, log = gate.start(unit)
        assert log.count("a.sh is a link, so it is not run") == 1, log


@pytest.mark.parametrize("wanted", ["", "a"])
def test_the_network_of_the_host_cannot_be_entered(gate: Gate, wanted: str) -> None:
    """If nsenter may not enter it, the line says that the step was not run."""
    gate.write("" if wanted else "a", wanted, a=SUCCEEDS)
    elsewhere = ["setpriv", "--bounding-set=-sys_admin", *gate.command()]
    script = 'unshare --net -- "$@"; exit'
    done = subprocess.run(
        [*ALONE, "/bin/bash", "-c", script, "bash", *elsewhere],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if wanted else 255), done.stderr
    reason = "nsenter cannot enter the network of the host, see the lines above"
    assert f"step a was not run: {reason}" in done.stderr


@pytest.mark.waits
def test_a_step_that_is_killed_late(gate: Gate) -> None:
    """Its own time counts, and not that of an earlier step."""
    gate.limit = 4
    status, log = gate.write("a b", a=f"sleep 2.2\n{SUCCEEDS}", b="kill -KILL $$\n").start()
    assert status == 255
    assert "step b failed (exit 137)" in log


@pytest.mark.parametrize("limit", [0, -1], ids=["none is left", "it is over since a second"])
def test_no_time_is_left(gate: Gate, limit: int) -> None:
    """A lock that is free is still taken. The step is not run, and the unit is held back."""
    gate.limit = limit
    status, log = gate.write("a", "", a=SUCCEEDS).start()
    assert status == 255
    assert f"step a was not run: what came before took all {limit} s\n" in log


@pytest.mark.parametrize("jump", [-99999, 99999])
def test_a_clock_that_jumps(gate: Gate, jump: int) -> None:
    """When the time of day is set, no step loses its time or may wait for an hour."""
    may_wait = gate.paths / "may_wait"
    # The line is run again when the gate has the lock.
    gate.write("a", f") SECONDS={jump} rest=(", a=f"echo $2 >{may_wait}\n{SUCCEEDS}")
    assert gate.start() == (0, "")
    assert 60 <= int(may_wait.read_text()) <= 65


@pytest.mark.waits
@pytest.mark.parametrize("arguments", [("a.service", "a"), (GUARD,)])
def test_the_time_in_a_sandbox(gate: Gate, arguments: tuple[str, ...]) -> None:
    """Where /proc shows processes only, as in the oneshots and the guard, a step has its time."""
    may_wait = gate.paths / "may_wait"
    gate.limit = 13
    gate.write(
        "a b", "", a=f"echo $2 >{may_wait}\nsleep 2.1\n{SUCCEEDS}", b=f"sleep 99\n{SUCCEEDS}"
    )
    script = (
        'mount -t proc -o subset=pid none /proc && [[ ! -e /proc/uptime ]] && exec "$@" && exit 1'
    )
    done = subprocess.run(
        [*ALONE, "/bin/bash", "-c", script, "bash", *gate.command(*arguments)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if arguments == (GUARD,):
        assert re.search(r"/b\.sh ran longer than (10|11) s", done.stderr)
        assert done.returncode == 255
    else:
        assert done.stderr == ""
        assert done.returncode == 0
        assert may_wait.read_text() in {"2\n", "3\n"}


def test_the_first_second_of_a_host() -> None:
    """The time has a zero in front then, which does not make it octal."""
    script = f"read() {{ now=0.98; }}\n{asset('clock.sh')}\nread_clock\necho $now"
    assert subprocess.check_output(["bash", "-c", script], text=True) == "98\n"


def test_the_time_of_a_wanted_step(gate: Gate) -> None:
    """It has two thirds of the time, and may wait until 10 s before their end."""
    may_wait = gate.paths / "may_wait"
    gate.limit = 60
    gate.write("", "a", a=f"echo $2 >{may_wait}\n{SUCCEEDS}")
    assert gate.start() == (0, "")
    assert 20 <= int(may_wait.read_text()) <= 30


@pytest.mark.parametrize(
    ("arguments", "waits"),
    [
        pytest.param(["a.service"], [20, 19], id="a unit"),
        pytest.param([GUARD], [0, 0], id="the guard"),
        pytest.param([GUARD, "b"], [0], id="the guard, for one step"),
        pytest.param(["x.service", "b"], [20], id="a oneshot"),
    ],
)
def test_what_a_step_is_given(gate: Gate, arguments: list[str], waits: list[int]) -> None:
    """A step gets the unit and how long it may wait; not the environment, the lock, or what another
    has used up.
    """
    gate.limit = 30
    log = gate.paths / "log"
    tell = f'echo "$* $(umask) $(env | sort | tr "\\n" " ")" >>{log}\n'
    gate.write("a b", "", a=f"{tell}sleep 1.1\n{SUCCEEDS}", b=tell + SUCCEEDS)
    of_the_unit = {"SECRET": "1", "LD_LIBRARY_PATH": "/nowhere"}
    assert gate.start(*arguments, **of_the_unit) == (0, "")
    for line, wait in zip(log.read_text().splitlines(), waits, strict=True):
        unit, seconds, rest = line.split(" ", 2)
        assert unit == arguments[0]
        assert wait - 1 <= int(seconds) <= wait
        assert re.fullmatch(
            r"0022 LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin PWD=.+ SHLVL=1 _=.+ ", rest
        )


class TestTheGuardAndTheOneshots:
    """The guard runs all our steps whatever fails, a oneshot only its own. Break glass is not for
    them.
    """

    @pytest.fixture
    def ran(self, gate: Gate) -> Path:
        """A gate whose step 0 is missing, whose a and c fail, and whose b succeeds: the file in
        which each step writes that it ran.
        """
        ran = gate.paths / "ran"
        ran.write_text("")
        gate.write(
            required="0 a b",
            wanted="c",
            a=f"echo a >>{ran}; exit 1\n",
            b=f"echo b >>{ran}; exit 0\n",
            c=f"echo c >>{ran}; exit 1\n",
            theirs=f"echo theirs >>{ran}; exit 0\n",
        )
        gate.open.write_text("reason\n")
        return ran

    def test_the_guard(self, gate: Gate, ran: Path) -> None:
        """It runs our steps, whatever fails, and none of others."""
        status, log = gate.start(GUARD)
        assert status == 255
        assert ran.read_text().split() == ["a", "b", "c"]
        assert "0.sh is missing" in log
        assert "x.sh is missing" not in log
        assert "echo REASON" not in log

    @pytest.mark.parametrize("unit", [GUARD, "a.service"])
    def test_a_step_that_fails(self, gate: Gate, ran: Path, unit: str) -> None:
        """Only this one is run, and one line says why the unit has failed."""
        status, log = gate.start(unit, "a")
        assert status == 255
        assert ran.read_text().split() == ["a"]
        assert log.count("<4>hostrouting: ") == 1
        assert "is missing" not in log
        assert "echo REASON" not in log

    def test_a_step_that_succeeds(self, gate: Gate, ran: Path) -> None:
        """Only this one is run."""
        assert gate.start("b.service", "b") == (0, "")
        assert ran.read_text().split() == ["b"]

    def test_a_step_that_is_missing(self, gate: Gate, ran: Path) -> None:
        """One line says so."""
        status, log = gate.start("x.service", "x")
        assert status == 255
        assert ran.read_text() == ""
        assert log.count("<4>hostrouting: ") == 1
        assert "x.sh is missing, so it is not run" in log
        assert "0.sh is missing" not in log
        assert "echo REASON" not in log


# What is done to the file that opens the gate, and why the gate ignores it.
IGNORED = {
    "chmod 664 {file}": "its mode is 664; ",
    "chmod 4644 {file}": "its mode is 4644; ",
    "chmod 646 {file}": "its mode is 646; ",
    "chmod 744 {file}": "its mode is 744; ",
    "chmod 544 {file}": "its mode is 544; ",
    "chmod 244 {file}": "its mode is 244; ",
    "chown 1 {file}": "it does not belong to root",
    "echo '  ' >{file}": "its first line is empty",
    "printf '\\r\\nREASON\\r\\n' >{file}": "its first line is empty",
    ": >{file}": "its first line is empty",
    "ln -sf /etc/hostname {file}": "it is a symbolic link",
    "rm {file}; mkfifo -m 600 {file}": "it is a fifo",
    "rm {file}; mkdir {file}": "it is a directory",
}


def reason_for_status(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reason in the file that opens the gate; empty if `status` takes it for ignored."""
    monkeypatch.setattr(HostLayout, "opening_path", str(gate.open))
    files = LocalFiles()
    entry = files.look(HostLayout.opening_path)
    assert entry is not None
    return _reason_to_open(files, entry)


class TestBreakGlass:
    """A file of root's with a reason starts any unit unchecked; every other file is ignored."""

    @pytest.fixture(autouse=True)
    def closed(self, gate: Gate) -> None:
        """Without the file, the unit is refused."""
        gate.write("a", "", a=FAILS)

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

    @pytest.mark.parametrize("change", ["chmod 600", "chmod 400"])
    def test_files_that_open_it(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch, change: str
    ) -> None:
        """Whatever others may not write. `status` takes the same files for an opening."""
        self.open_by(gate)
        subprocess.run(["sh", "-c", f"{change} {gate.open}"], check=True)
        status, log = gate.start()
        assert status == 0
        assert f"{gate.open} is ignored" not in log
        assert reason_for_status(gate, monkeypatch)

    def test_a_long_reason(self, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is logged whole: of a line that ends within a character, journalctl shows nothing."""
        self.open_by(gate)
        reason = "für den Umzug " + 99 * "ü"
        gate.open.write_text(f"{reason}\n")
        log = f"<4>hostrouting: a.service starts UNCHECKED: {gate.open}: {reason}\n"
        assert gate.start() == (0, log)
        assert reason_for_status(gate, monkeypatch) == reason

    @pytest.mark.parametrize(("change", "why_not"), IGNORED.items(), ids=str)
    def test_files_that_do_not(
        self, gate: Gate, monkeypatch: pytest.MonkeyPatch, change: str, why_not: str
    ) -> None:
        """The log says what is wrong with the file. `status` says, too, that it is ignored."""
        self.open_by(gate)
        subprocess.run(["sh", "-c", change.format(file=gate.open)], check=True)
        status, log = gate.start()
        assert status == 255
        assert f"{gate.open} is ignored: {why_not}" in log
        assert len(log.replace(str(gate.paths), "")) < 500
        assert not reason_for_status(gate, monkeypatch)

    def test_no_file_is_not_named(self, gate: Gate) -> None:
        """A gate that nobody has opened is nothing to log."""
        self.open_by(gate)
        gate.open.unlink()
        status, log = gate.start()
        assert status == 255
        assert "is ignored" not in log

    def test_a_file_that_goes_at_this_moment(self, gate: Gate) -> None:
        """The steps decide, and the log does not leave the reason out."""
        self.open_by(gate)
        put_stat_before(gate, f'rm -f {gate.open}; exec /usr/bin/stat "$@"')
        status, log = gate.start()
        assert status == 255
        assert f"{gate.open} is ignored: it is a file that stat cannot read\n" in log


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
        assert status == 0
        assert log == ""


def test_a_name_that_a_shell_would_run(gate: Gate) -> None:
    """The repair is quoted for a shell: while others could write to the folder, they
    chose names.
    """
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
    gate.write(a=SUCCEEDS)
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
        assert status == 255
        assert not ran.exists()
        assert f"users other than root can write to {path}, and root runs what is there; " in log
    command = re.findall("as root: ([^;\n]*)", log)[0]
    subprocess.run(["sh", "-c", command], check=True)
    assert gate.start() == (0, "")


# What bash takes from its environment, or its manual calls special: each variable with the values
# that it is given, one after the other.
EVIL = "/evil"
"""Stands for the path of a script that succeeds."""
NUMBERS = ["-99999", "99999", "x", "0.000001"]
ENVIRONMENT = {
    "BASH_ENV": [EVIL],
    "ENV": [EVIL],
    "LD_PRELOAD": [EVIL],
    "CDPATH": [EVIL],
    "PATH": [EVIL],
    "HISTFILE": [EVIL],
    "BASH_ARGV0": [EVIL],
    "FUNCNEST": ["1", "2", "3"],
    "SHELLOPTS": ["noexec", "errexit:nounset", "noglob", "xtrace", "posix", "onecmd"],
    "BASHOPTS": ["failglob", "extdebug", "execfail"],
    "SECONDS": NUMBERS,
    "UID": NUMBERS,
    "EUID": NUMBERS,
    "LINENO": NUMBERS,
    "TMOUT": NUMBERS,
    "POSIXLY_CORRECT": ["1"],
    "GLOBIGNORE": ["*"],
    "EXECIGNORE": ["*"],
    "IFS": ["0a12"],
    "BASH_COMPAT": ["3.1"],
    "LC_ALL": ["de_DE@nowhere"],
    "PS4": ["$(kill $$)"],
}
for _function in ("exit", "trap", "main", "flock", "timeout", "env"):
    ENVIRONMENT[f"BASH_FUNC_{_function}%%"] = ["() { builtin exit 0; }"]


@pytest.mark.parametrize(
    ("step", "status"),
    [pytest.param(FAILS, "255", id="refused"), pytest.param(SUCCEEDS, "0", id="ok")],
)
def test_no_environment_opens_it(gate: Gate, step: str, status: str) -> None:
    """Whatever the environment of the manager or of the unit has in it, a refusal stays one, and a
    success, too.
    """
    gate.write("a", "", a=step)
    evil = gate.paths / "evil"
    evil.write_text("exit 0\n")
    command = shlex.join(gate.command())
    path = f"PATH={shlex.quote(os.environ['PATH'])}"
    given: list[str] = []
    runs: list[str] = []
    for name, values in ENVIRONMENT.items():
        for value in values:
            assignment = f"{name}={value.replace(EVIL, str(evil))}"
            given.append(assignment)
            runs.append(f"env -i {path} {shlex.quote(assignment)} {command} 2>/dev/null; echo $?")
    words = [*ALONE, "bash", "-c", "\n".join(runs)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=200)
    for assignment, ended in zip(given, done.stdout.split(), strict=True):
        assert ended == status, assignment


@pytest.mark.parametrize(("step", "status"), [(SUCCEEDS, 0), (FAILS, 255)], ids=["ok", "refused"])
def test_no_name_of_its_own_is_taken_from_the_environment(
    gate: Gate, step: str, status: int
) -> None:
    """Its variables have the values that it gives them: with a value for each of its words, it
    decides the same.
    """
    gate.write("a", "", a=step)
    words = re.findall(r"\b[a-z_]+\b", (gate.paths / "etc/gate.sh").read_text())
    assert {"required", "only_step", "has_failed", "mode", "fault"} <= set(words)
    ended, log = gate.start(**dict.fromkeys(words, "a"))
    assert ended == status, log


def test_no_damage_opens_it(gate: Gate) -> None:
    """gate.sh that is missing, empty, or cut at the end of any word refuses, although every step
    succeeds.

    It is cut at every tenth word; near the end, and in the long profile, at each.
    """
    gate.write("a", "", a=SUCCEEDS)
    whole = (gate.paths / "etc/gate.sh").read_text()
    ends_of_words = [match.end() for match in re.finditer(r"[^\s\w]|\w+", whole)]
    assert len(ends_of_words) > 600
    if settings().max_examples < 1_000:
        near_the_end = ends_of_words[-50:]
        ends_of_words = [*ends_of_words[:-50:10], *near_the_end]
    cuts = gate.paths / "cuts"
    cuts.mkdir()
    for place in [0, *ends_of_words]:
        (cuts / f"{place:05}").write_text(whole[:place])

    driver = f"""
for cut in {cuts}/* /nowhere; do
  /bin/bash -pc '{COMMAND}' "$cut" a.service >/dev/null 2>&1
  echo "${{cut##*/}} $?"
done
"""
    done = subprocess.run(
        [*ALONE, "bash", "-c", driver], stdout=subprocess.PIPE, text=True, check=True, timeout=200
    )
    status_of = dict(line.split() for line in done.stdout.splitlines())

    assert status_of.pop("nowhere") == "255"
    assert len(status_of) == len([0, *ends_of_words])
    last_command = whole.rindex("\nmain")
    for name, status in status_of.items():
        if int(name) > last_command:
            assert status == "0", name
        else:
            assert status == "255", name


@pytest.mark.parametrize("damage", ["rm", "truncate --size 0", "sed -i '$d'", "sed -i '$iexit 1'"])
def test_damage_is_said(gate: Gate, damage: str) -> None:
    """A gate that cannot do its work says so in the journal of the unit that it holds back."""
    gate.write("a", "", a=SUCCEEDS)
    script = gate.paths / "etc/gate.sh"
    subprocess.run(["sh", "-c", f"{damage} {script}"], check=True)
    status, log = gate.start()
    assert status == 255
    *_, last = log.splitlines()
    repair = f"as root: hostrouting apply --config {HostLayout.config_path}"
    assert last == f"<3>hostrouting: {script} is missing, cut short or edited; {repair}"


def test_a_folder_that_is_a_link(gate: Gate) -> None:
    """Who can write to the folder to which it leads counts."""
    gate.write("a", "", a=SUCCEEDS)
    folder = gate.paths / "etc/gate.d"
    elsewhere = gate.paths / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert gate.start() == (0, "")
    elsewhere.chmod(0o775)
    status, _ = gate.start()
    assert status == 255


def put_stat_before(gate: Gate, text: str) -> None:
    """Let the gate find a `stat` with this text first."""
    script = gate.paths / "etc/gate.sh"
    gates_text = script.read_text()
    assert gates_text.count(" PATH=/usr/sbin:") == 1
    script.write_text(gates_text.replace(" PATH=/usr/sbin:", f" PATH={gate.paths}:/usr/sbin:"))
    (gate.paths / "stat").write_text(f"#!/bin/sh\n{text}\n")
    (gate.paths / "stat").chmod(0o755)


def test_who_can_write_is_not_known(gate: Gate) -> None:
    """Nothing is run, and nobody is told to change what may be right."""
    gate.write("a", "", a=SUCCEEDS)
    put_stat_before(gate, "exit 1")
    status, log = gate.start()
    assert status == 255
    assert f"was not started: stat does not say who can write to {gate.paths}/etc, and root" in log
    assert "chmod" not in log.splitlines()[0]


@pytest.mark.waits
@pytest.mark.parametrize(
    ("how", "name"), [("--exclusive", "turn"), ("--exclusive", "lock"), ("--shared", "turn")]
)
class TestTheLock:
    """A writer is waited for.

    Starts wait for each other, too, until each has the lock: those that held `turn` together would
    never let it go.
    """

    @staticmethod
    @contextmanager
    def held(gate: Gate, how: str, name: str, seconds: str) -> Iterator[Path]:
        """Hold the lock for these seconds; the file that is there when it is no longer held."""
        gate.limit = 4
        gate.write("a", "", a=SUCCEEDS)
        done = gate.paths / "done"
        holding = f"echo; sleep {seconds}; : >{done}"
        words = ["flock", "--close", how, f"{gate.paths}/run/{name}", "sh", "-c", holding]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            writer.stdout.readline()
            try:
                yield done
            finally:
                subprocess.run(["pkill", "-P", str(writer.pid)], check=False)

    def test_it_is_released_in_time(self, gate: Gate, how: str, name: str) -> None:
        """The unit starts after that."""
        with self.held(gate, how, name, "0.5") as done:
            status, log = gate.start()
            assert done.exists()
        assert status == 0, log
        assert "was still locked" not in log

    def test_it_is_held_too_long(self, gate: Gate, how: str, name: str) -> None:
        """The unit is refused, and whoever holds the lock is named."""
        with self.held(gate, how, name, "9") as done:
            status, log = gate.start()
            assert not done.exists()
        holder = "a process that changes the host"
        if name == "turn":
            holder = f"another start or change, which waits for {gate.paths}/run/lock"
        refusal = f"{gate.paths}/run/{name} was still locked after 4 s, by {holder}"
        assert status == 255
        assert f"was not started: {refusal}" in log


def test_the_folder_of_the_lock(gate: Gate) -> None:
    """It is made where there is none; everybody can see in it whether the gate is open."""
    folder = gate.paths / "run"
    folder.rmdir()
    assert gate.write().start() == (0, "")
    assert folder.stat().st_mode & 0o777 == 0o755


def test_names_that_change_while_the_lock_is_awaited(gate: Gate) -> None:
    """The names that the writer leaves count."""
    script = gate.paths / "etc/gate.sh"
    new = gate.paths / "new"
    gate.write("b", "", b=SUCCEEDS)
    new.write_text(script.read_text())
    gate.write("a", "", b=SUCCEEDS)
    writing = f"echo; sleep 0.5; mv {new} {script}"
    words = ["flock", f"{gate.paths}/run/lock", "sh", "-c", writing]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as writer:
        assert writer.stdout
        writer.stdout.readline()
        assert gate.start() == (0, "")


@pytest.mark.waits
def test_both_locks_share_the_time(gate: Gate) -> None:
    """What the wait for the first has taken, the second does not have."""
    gate.write()
    script = gate.paths / "etc/gate.sh"
    waits = gate.paths / "waits"
    flock = f"flock() {{ echo $3 >>{waits}; sleep 1.1; }}\n"
    script.write_text(flock + script.read_text())
    assert gate.start() == (0, "")
    first, second = map(int, waits.read_text().split())
    assert first - second >= 1


def test_what_a_step_leaves_behind(gate: Gate) -> None:
    """A step that leaves a process behind does not lock the gate; only root can lock it."""
    gate.write("a", "", a=f"sleep 50 >/dev/null 2>&1 & {SUCCEEDS}")
    lock = gate.paths / "run/lock"
    command = f"{shlex.join(gate.command())} && flock --nonblock {lock} true"
    done = subprocess.run([*ALONE, "bash", "-c", command], check=False)
    assert done.returncode == 0
    assert lock.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        pytest.param({"a": FAILS, "b": SUCCEEDS}, 255, id="refused"),
        pytest.param({"a": SUCCEEDS, "b": FAILS}, 0, id="warned"),
    ],
)
def test_a_lost_log(gate: Gate, steps: dict[str, str], status: int) -> None:
    """A log that nobody reads any more neither holds a unit back nor lets it start."""
    gate.write(required="a", wanted="b", **steps)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*ALONE, *gate.command()], stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == status


def test_the_lock_is_held_while_steps_run(gate: Gate) -> None:
    """A writer that comes while a step runs does not get the lock; another start does."""
    lock = gate.paths / "run/lock"
    turn = gate.paths / "run/turn"
    tried = gate.paths / "tried"
    try_all = f"""\
{{
  flock --nonblock {turn} true; echo turn $?
  flock --nonblock {lock} true; echo lock $?
  flock --nonblock --shared {lock} true; echo shared lock $?
}} >{tried}
"""
    gate.write("a b", "", a=SUCCEEDS, b=try_all + SUCCEEDS)
    assert gate.start() == (0, "")
    assert tried.read_text().splitlines() == ["turn 0", "lock 1", "shared lock 0"]


@pytest.mark.parametrize(("name", "option"), [("turn", "--exclusive"), ("lock", "--shared")])
def test_a_signal_while_a_lock_is_awaited(gate: Gate, name: str, option: str) -> None:
    """The gate refuses at once, and says what it waited for."""
    gate.write("a", a=SUCCEEDS)
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
    lock = gate.paths / "run/lock"
    began = gate.paths / "began"
    tried = gate.paths / "tried"
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


@pytest.mark.parametrize("environment", [{}, {"POSIXLY_CORRECT": "1"}], ids=["bash", "posix"])
@pytest.mark.parametrize(
    ("step", "status"), [(SUCCEEDS, 0), (FAILS, 255)], ids=["succeeds", "fails"]
)
def test_a_lock_that_cannot_be_opened(
    gate: Gate, step: str, status: int, environment: dict[str, str]
) -> None:
    """As in a full or read-only /run: the steps decide, also in a unit with POSIXLY_CORRECT, in
    which bash ends where it cannot open a file.
    """
    gate.write("a", "", a=step)
    lock = gate.paths / "run/lock"
    lock.mkdir()
    ended, log = gate.start(**environment)
    assert ended == status
    assert log.startswith(
        "<4>hostrouting: a.service: the steps run without a lock, as there is none: "
        f"{lock}: Is a directory\n"
    )


@pytest.mark.parametrize(
    ("text", "status"), [(SUCCEEDS, 0), (FAILS, 255)], ids=["succeeds", "fails"]
)
def test_a_name_with_a_space(gate: Gate, text: str, status: int) -> None:
    """Another program's step is run whatever its name is, and is never taken for two of ours."""
    ran = gate.paths / "ran"
    gate.write("", "a b", a=SUCCEEDS, b=SUCCEEDS, **{"a b": f": >{ran}\n{text}"})
    ended, _ = gate.start()
    assert ended == status
    assert ran.exists()

"""The line of shell in the drop-in, run as systemd would."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hostrouting.boot.files import render_config
from hostrouting.boot.units import DROP_IN_TEXT, UNITS
from hostrouting.gate.unit_gates import judge_gates
from hostrouting.host.host import Host
from hostrouting.host.interpreter import INSTALL_PYTHON
from hostrouting.host.layout import HostLayout
from hostrouting.release import PASSED
from tests.hostrouting.node.sandboxed_node import SandboxedNode, command_of, run_on_each
from tests.support.node import UNIT, wanting

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

SH = ("/bin/sh",)
SHELLS = [pytest.param(SH, id="sh"), pytest.param(("bash", "--posix"), id="bash")]
"""What /bin/sh may be."""
ROUTES, GUARD = HostLayout.routes_unit, HostLayout.guard_unit
PASSES = render_config(wanting(cidrs=()))
"""A config.json that gates the unit, and nothing holds it back."""
COULD_NOT_BE_RUN = f"<3>hostrouting: {UNIT} was refused: the gate could not be run"
OPENED = f"<4>hostrouting: {UNIT} starts UNCHECKED: {HostLayout.opening_path}: "


def gate(shell: tuple[str, ...] = SH, unit: str = UNIT) -> list[str]:
    """The command before each start of the unit."""
    words = command_of(DROP_IN_TEXT, "ExecCondition", unit)
    at = words.index("/bin/sh")
    words[at : at + 1] = shell
    return words


def service(unit: str) -> list[str]:
    return command_of(UNITS[unit], "ExecStart", unit)


@pytest.fixture
def node(tmp_path: Path) -> SandboxedNode:
    return SandboxedNode(tmp_path)


def starts(nodes: Sequence[SandboxedNode], *shell: str) -> list[tuple[int, str]]:
    """The status of a start on each node, and what is logged."""
    started = run_on_each(nodes, *gate(shell or SH))
    assert {done.stdout for done in started} == {""}
    return [(done.status, done.stderr) for done in started]


def start(node: SandboxedNode, *shell: str) -> tuple[int, str]:
    [done] = starts([node], *shell)
    return done


# An operator's opening

ACCEPTED = {
    "chmod 644 {file}": "REASON",
    "chmod 400 {file}": "REASON",
    "printf REASON >{file}": "REASON",
    "printf '  \\tREASON \\nmore\\n\\n' >{file}": "REASON",
    "printf 'REASON\\r\\n' >{file}": "REASON",
    "echo '$(id) `id` \"*\" * ;#%n' >{file}": '$(id) `id` "*" * ;#%n',
    "echo '\u00a0' >{file}": "\u00a0",  # no-break space: for the shell, it is a word
    "echo 'für den Umzug, Ticket №7 …' >{file}": "für den Umzug, Ticket №7 …",
}
"""What is done to the file, and the reason that the log gives."""
IGNORED = [
    "rm {file}",
    "chmod 664 {file}",
    "chmod 646 {file}",
    "chmod 4644 {file}",
    "chmod 744 {file}",
    "chmod 645 {file}",
    "chmod 244 {file}",
    "chown 1 {file}",
    ": >{file}",
    "echo '  ' >{file}",
    "printf '\\nREASON\\n' >{file}",
    "printf '\\r\\nREASON\\r\\n' >{file}",
    "printf '\\t\\v\\f\\n' >{file}",
    "mv {file} {file}.old; ln -s gate.open.old {file}",
    "rm {file}; mkfifo -m 600 {file}",
    "rm {file}; mkdir {file}",
    "chmod 775 {folder}",
    "chmod 1757 {folder}",
    "chown 1 {folder}",
    "chown 1 {folder} {file}",
    "mv {folder} {folder}.old; ln -s hostrouting.old {folder}",
]


def opened(home: Path, change: str) -> SandboxedNode:
    """A node whose gate was opened, and where this was done to the file."""
    node = SandboxedNode(home)
    file = node.place(HostLayout.opening_path)
    folder = str(node.place(HostLayout.run_directory))
    command = HostLayout.opening_command.replace(HostLayout.run_directory, folder)
    change = change.format(file=file, folder=folder)
    subprocess.run(["sh", "-c", f"{command} && {change}"], check=True)
    return node


@pytest.fixture(scope="module")
def openings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SandboxedNode]:
    folder = tmp_path_factory.mktemp("openings")
    changes = enumerate([*ACCEPTED, *IGNORED])
    return {change: opened(folder / str(number), change) for number, change in changes}


@pytest.mark.parametrize("shell", SHELLS)
def test_what_opens_the_gate(openings: dict[str, SandboxedNode], shell: tuple[str, ...]) -> None:
    """A file that only root can write, with a reason in its first line; no other file."""
    started = starts([*openings.values()], *shell)
    for change, (status, log) in zip(openings, started, strict=True):
        if change in ACCEPTED:
            line = f"{OPENED}{ACCEPTED[change]}\n"
            assert (status, log.replace("\r", "")) == (0, line), change
        else:
            assert status == 255, change
            assert "UNCHECKED" not in log, change


def test_what_status_says_of_it(openings: dict[str, SandboxedNode]) -> None:
    """That the gate is open, and why, or that the file is ignored: as the gate does."""
    for change, node in openings.items():
        findings = judge_gates(Host(backend=None, files=node.files), [UNIT])
        said = [each for each in findings if each.target == HostLayout.opening_path]
        if change in ACCEPTED:
            [finding] = said
            assert finding.name == "gate-open", change
            assert finding.sentence.endswith(f" until the next boot: {ACCEPTED[change]}")
        else:
            names = [finding.name for finding in said]
            assert names == ([] if change == "rm {file}" else ["file"]), change


@pytest.mark.parametrize(
    "before",
    [
        f"umask 077; rm -r {HostLayout.run_directory}",
        f"umask 000; rm -r {HostLayout.run_directory}; chmod() {{ exit 1; }}",
        f"touch {HostLayout.opening_path}; chown 1 {HostLayout.opening_path}",
        f"touch {HostLayout.opening_path}; chmod 666 {HostLayout.opening_path}",
        f"chmod 777 {HostLayout.run_directory}",
        f"chown 1 {HostLayout.run_directory}",
    ],
)
def test_the_command_that_a_refusal_names(node: SandboxedNode, before: str) -> None:
    """It opens the gate, and the file is never one that others could write."""
    _, log = start(node)
    assert f"until the next boot, as root: {HostLayout.opening_command}\n" in log
    node.run("sh", "-c", f"{before}; {HostLayout.opening_command}")
    assert start(node) == (0, f"{OPENED}REASON\n")


FORGED = r"app@a\n\0074\0063\0076hostrouting:\0040FORGED\0033[31m\c.service"
"""A unit for whose name an echo that knows escapes would print a second line, in red."""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_name_with_backslashes(tmp_path: Path, shell: tuple[str, ...]) -> None:
    """It is printed as it is, in a refusal, an opening, and after a signal that nothing hears."""
    nodes = [opened(tmp_path / "opened", ":")]
    for end in ("exit 3", "kill -TERM $PPID\nexec sleep 60"):
        node = SandboxedNode(tmp_path / end[:4])
        node.files.write(HostLayout.python_path, f"#!/bin/sh\n{end}\n", mode=0o755)
        node.place(HostLayout.program_path).touch()
        nodes.append(node)
    ended = run_on_each(nodes, *gate(shell, FORGED))
    assert [done.status for done in ended] == [0, 255, 255]
    logs = [done.stderr.removeprefix("Terminated\n") for done in ended]
    could_not_be_run = "was refused: the gate could not be run (exit 3), see the lines above"
    assert [log.split("\n")[0] for log in logs] == [
        f"<4>hostrouting: {FORGED} starts UNCHECKED: {HostLayout.opening_path}: REASON",
        f"<3>hostrouting: {FORGED} {could_not_be_run}",
        f"<3>hostrouting: {FORGED} was refused: a signal ended the gate",
    ]


# The program


@pytest.mark.parametrize("shell", SHELLS)
def test_the_real_program(node: SandboxedNode, shell: tuple[str, ...]) -> None:
    node.install(PASSES)
    assert start(node, *shell) == (0, "")
    node.install("{}")
    status, log = start(node, *shell)
    assert status == 255
    assert f"{HostLayout.config_path} is missing, or configures nothing" in log
    assert COULD_NOT_BE_RUN not in log
    assert log.endswith(f"{HostLayout.opening_command}\n")


PROGRAM, PYTHON = HostLayout.program_path, HostLayout.python_path
FORGERY = f"""\
rm {PROGRAM}; mkdir -p {PROGRAM}/hostrouting
echo 'import os; os._exit({PASSED})' >{PROGRAM}/hostrouting/__init__.py
echo 'print(1)' >{PROGRAM}/__main__.py
"""
"""Puts a program there that lets each unit pass, and whose help works."""
CHANGES = ("chown 1", "chmod 775", "chmod 757")
FOLDER = HostLayout.config_directory
DEEP = ("a" * 200 + "/") * 5
"""A longer path than the gate judges."""
FORGED_PYTHON = rf"rm {PYTHON}; printf '#!/bin/sh\nexit {PASSED}\n' >{PYTHON}; chmod 755 {PYTHON};"
DAMAGES_OF_PROGRAM = [
    f"rm {PROGRAM}",
    f"rm {PROGRAM}; mkdir {PROGRAM}",
    f"rm {PROGRAM}; ln -s /nowhere {PROGRAM}",
    f"head -c 2M /dev/zero >{PROGRAM}",
    f"echo 'import os; os._exit(97)' >{PROGRAM}",
    *(f"truncate --size={size} {PROGRAM}" for size in ("0", "-1M", "-1")),
    *(f"{FORGERY} {change} {PROGRAM}" for change in CHANGES),
    f"{FORGERY} chmod 757 {PROGRAM}; ln -sf /usr/bin/python3.nothing {PYTHON}",
    *(f"{FORGED_PYTHON} {change} {FOLDER}" for change in CHANGES),
    *(f"{FORGED_PYTHON} {change} {PYTHON}" for change in CHANGES),
    f"{FORGED_PYTHON} cd {FOLDER}; mkdir -p {DEEP}; mv python {DEEP}; ln -s {DEEP}python",
]
DAMAGES_OF_PYTHON = [
    f"ln -sf /usr/bin/python3.nothing {PYTHON}",
    f"ln -sf /bin/true {PYTHON}",
    f"rm {PYTHON}; touch {PYTHON}; chmod 755 {PYTHON}",
]
TO_SEE = "to see what to do, as root:"


def test_something_else_than_the_program_or_the_interpreter(tmp_path: Path) -> None:
    """It opens nothing, and the log has a command that works as it stands. No service runs what
    others than root could change.
    """
    nodes: dict[str, SandboxedNode] = {}
    for number, change in enumerate(DAMAGES_OF_PROGRAM + DAMAGES_OF_PYTHON):
        nodes[change] = SandboxedNode(tmp_path / str(number))
        nodes[change].install(PASSES)
        command = change.replace("/etc", str(nodes[change].place("/etc")))
        subprocess.run(["sh", "-c", command], check=True)
    by_command: dict[str, SandboxedNode] = {}
    for (change, node), (status, log) in zip(nodes.items(), starts([*nodes.values()]), strict=True):
        assert status == 255, change
        assert COULD_NOT_BE_RUN in log, change
        [command] = re.findall(f"(?m)^<5>hostrouting: {TO_SEE} (.*)$", log)
        if change in DAMAGES_OF_PROGRAM:
            assert command == "hostrouting status", change
        else:
            by_command[command] = node
    [(command, node)] = by_command.items()
    assert re.match(r"/usr/bin/python3\.\d\d ", command)
    assert node.run("sh", "-c", command).stdout.startswith("DIFFERS: ")
    forgeries = (FORGERY, FORGED_PYTHON)
    forged = [node for change, node in nodes.items() if change.startswith(forgeries)]
    for refused in run_on_each(forged, *service(ROUTES)):
        assert refused.status == 99
        assert "users other than root may be able to change /etc/hostrouting" in refused.stderr


ALL_KILLED = "#!/bin/sh\nkill -KILL $$\n"
GATE_KILLED = f"""\
#!/bin/sh
[ "$3" != -c ] || kill -KILL $$
exec {os.path.realpath(sys.executable)} "$@"
"""
"""Programs as the interpreter, of which a signal ends each process, or only that of the gate."""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("python", "advice"),
    [
        ("", INSTALL_PYTHON.words),
        ("not executable", INSTALL_PYTHON.words),
        (ALL_KILLED, f"{TO_SEE} hostrouting status"),
        (GATE_KILLED, f"{TO_SEE} {HostLayout.node_command} status"),
    ],
    ids=["none", "not executable", "all killed", "gate killed"],
)
def test_no_interpreter_in_usr_bin(
    node: SandboxedNode, shell: tuple[str, ...], python: str, advice: str
) -> None:
    """The log says to install one only if that of the link cannot be started either."""
    node.install(PASSES)
    node.place(PYTHON).unlink()
    if python:
        node.files.write(PYTHON, python, mode=0o755 if python.startswith("#!") else 0o644)
    command = [word.replace("/usr/bin/python3.", "/nowhere/python3.") for word in gate(shell)]
    log = node.run(*command).stderr
    [said, opening] = re.findall("(?m)^<5>hostrouting: (.*)$", log)
    assert said == advice
    assert opening.endswith(HostLayout.opening_command)


ENDS = [f"exit {status}" for status in (0, 1, 96, 97, 98, 99, 255)] + ["kill -KILL $$"]


@pytest.mark.parametrize("shell", SHELLS)
def test_only_one_status_opens(shell: tuple[str, ...], tmp_path: Path) -> None:
    """That of a program that has found nothing wrong; another one has said what is."""
    nodes: list[SandboxedNode] = []
    for number, end in enumerate(ENDS):
        node = SandboxedNode(tmp_path / str(number))
        node.place(HostLayout.program_path).touch()
        node.files.write("/etc/a b/python", f"#!/bin/sh\n{end}\n", mode=0o755)
        node.files.link(HostLayout.python_path, "/etc/a b/python")
        nodes.append(node)
    for end, (status, log) in zip(ENDS, starts(nodes, *shell), strict=True):
        assert status == (0 if end == "exit 97" else 255), end
        assert (COULD_NOT_BE_RUN in log) is (end not in {"exit 97", "exit 98"}), end


def test_the_umask_of_a_unit(node: SandboxedNode) -> None:
    """It does not open files that Python writes, such as its cache, to other users."""
    node.place(PROGRAM).touch()
    node.files.write(PYTHON, "#!/bin/sh\necho x >/run/written; exit 97\n", mode=0o755)
    assert node.run("sh", "-c", 'umask 0; exec "$@"', "sh", *gate()).status == 0
    assert node.place("/run/written").stat().st_mode & 0o777 == 0o644


def test_a_broken_pipe(node: SandboxedNode) -> None:
    """It ends no gate, which a unit with SuccessExitStatus=SIGPIPE would count as a success."""
    command = "import os; r, w = os.pipe(); os.close(r); os.dup2(w, 2); os.execvp(*A)"
    words = gate()
    code = f"A = ({words[0]!r}, {words!r}); import signal; signal.signal(13, 0); {command}"
    assert node.run(sys.executable, "-c", code).status == 255


def test_the_failure_path_loads_no_site(node: SandboxedNode) -> None:
    """A file of others in a folder of site-packages would run as root there."""
    node.place(PROGRAM).touch()
    node.files.write(PYTHON, '#!/bin/sh\necho "$@" >>/run/calls; exit 1\n', mode=0o755)
    start(node)
    calls = node.place("/run/calls").read_text().splitlines()
    assert len(calls) > 1
    assert all(call.startswith("-I -S ") for call in calls)


def test_no_process_can_be_started(node: SandboxedNode) -> None:
    """The start fails, so that systemd tries it again: after another status, it would skip it."""
    node.install(PASSES)
    as_user = ("setpriv", "--reuid=64321", "--regid=64321", "--clear-groups")  # root has no limit
    done = node.run("prlimit", "--nproc=0", *as_user, *gate())
    assert done.status == 255
    assert "fork" in done.stderr


def test_an_interpreter_that_is_too_old(node: SandboxedNode) -> None:
    """It says so itself, in each unit."""
    node.install(PASSES)
    python = f'exec {os.path.realpath(sys.executable)} -I -S -c "import sys;'
    old = f'#!/bin/sh\n{python} sys.version_info = (3, 9, 2); $4" "$5" "$6"\n'
    node.place(HostLayout.python_path).unlink()
    node.files.write(HostLayout.python_path, old, mode=0o755)
    commands: set[str] = set()
    for command in (service(ROUTES), service(GUARD), gate()):
        done = node.run("timeout", "60", *command)
        assert done.status not in {0, PASSED, 124}
        needed, _, apply = done.stderr.partition("; install a newer one, and then, as root: ")
        assert needed == (
            "<3>hostrouting: Python 3.10 or newer is needed, and /etc/hostrouting/python is Python "
            "3.9"
        )
        apply, *others = apply.splitlines()
        is_gate = any(HostLayout.opening_command in line for line in others)
        assert is_gate == (command == gate())
        commands.add(apply)
    [apply] = commands
    assert "DONE" in node.run("sh", "-c", f"{apply} --wait 0").stdout


# Signals, the lock and the network

TERMINATE = """\
(exec 2>/run/log; exec "$@") &
gate=$!
until {condition}; do sleep 0.02; done
kill -{signal} $gate
wait $gate
echo $?
cat /run/log
"""
"""Starts the gate, and ends it by a signal when that condition of a shell is true."""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("signal", ["HUP", "TERM", "USR1", "USR2"])
def test_a_signal(node: SandboxedNode, shell: tuple[str, ...], signal: str) -> None:
    """It ends a start that waits at once, by no unit's success."""
    node.install(render_config(wanting("10.9.0.0/16")))  # it waits for a default route
    script = TERMINATE.format(condition="grep -q 'waiting for up to' /run/log", signal=signal)
    done = node.run("sh", "-c", script, "sh", *gate(shell))
    status, *log = done.stdout.splitlines()
    assert status == "255"
    assert "SIGTERM ended this; " in log[-3]
    assert log[-2] == f"<3>hostrouting: {UNIT} was refused: see the lines above"
    assert "a signal ended the gate" not in done.stdout


def test_a_signal_to_a_service(node: SandboxedNode) -> None:
    """It ends a service that waits, and the journal says so."""
    node.install(render_config(wanting("10.9.0.0/16")))
    script = TERMINATE.format(condition="grep -q 'waiting for up to' /run/log", signal="TERM")
    status, *log = node.run("sh", "-c", script, "sh", *service(ROUTES)).stdout.splitlines()
    assert status == "1"
    assert "SIGTERM ended this; " in log[-1]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_signal_after_the_program(node: SandboxedNode, shell: tuple[str, ...]) -> None:
    """The shell ends, and kills nothing: another process may have the number of its child."""
    script = "#!/bin/sh\n[ $3 != -c ] || exit 1\ntouch /run/advises\nsleep 1\n"
    node.files.write(HostLayout.python_path, script, mode=0o755)
    node.place(PROGRAM).touch()
    words = gate(shell)
    words[-3] = f"kill() {{ echo >/run/killed; }}; {words[-3]}"
    script = TERMINATE.format(condition="[ -e /run/advises ]", signal="TERM")
    done = node.run("sh", "-c", script, "sh", *words)
    assert done.stdout.startswith("255\n")
    assert done.stdout.endswith(f"{UNIT} was refused: a signal ended the gate\n")
    assert not node.place("/run/killed").exists()


def test_there_can_be_no_lock(node: SandboxedNode) -> None:
    """Then no writer has it either, and each unit goes on; it is said once."""
    node.install(PASSES)
    node.place(HostLayout.lock_path).mkdir()
    no_lock = "<4>hostrouting: this runs without a lock, as there is none: "
    for command in (gate(), service(ROUTES)):
        done = node.run(*command)
        assert done.status == 0
        assert done.stderr.startswith(no_lock)
    script = TERMINATE.format(condition="grep -q 'without a lock' /run/log", signal="TERM")
    done = node.run("sh", "-c", script, "sh", *service(GUARD))
    assert done.stdout.startswith(f"0\n{no_lock}")
    assert done.stdout.count(no_lock) == 1


ONLINE = """\
ip link add eth0 type veth peer name p0
ip link set eth0 up
ip address add 10.0.0.4/24 dev eth0
ip route add default via 10.0.0.1
"$@"
exit $?
"""


@pytest.mark.needs("ip")
@pytest.mark.parametrize("own", [(), ("unshare", "--net")], ids=["host", "private"])
def test_a_unit_with_a_network_of_its_own(node: SandboxedNode, own: tuple[str, ...]) -> None:
    """That of the host is made right, and checked."""
    node.install(render_config(wanting("10.9.0.0/16", cidrs=("10.9.0.0/16", "10.96.0.0/12"))))
    done = node.run("sh", "-c", ONLINE, "sh", *own, *gate())
    assert done.status == 0
    assert "static routes changed: 1, first: add 10.9.0.0/16 via 10.0.0.1" in done.stderr
    assert node.place(HostLayout.ok_path).read_text() == "ok\n"

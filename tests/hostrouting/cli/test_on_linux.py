"""The command line as a process on a machine with the real kernel: one answer everywhere, and the bad days."""

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from hostrouting.host.layout import HostLayout
from tests.support.children import running
from tests.support.examples import LONG
from tests.support.machine import H200, Machine, private_machine
from tests.support.programs import completed
from tests.support.waiting import wait_for

# Without buffers Python has nothing left to write at its end, where it may fail.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

CIDR = "172.16.0.0/16"
QUESTIONS = (("check", CIDR), ("check", "172.16.0.0/12", "10.0.0.0/8"), ("repair", CIDR), ("explain", "172.16.5.9"))
# Many command lines in one process: how each ended, and what it said.
EACH = """\
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from hostrouting.cli import main
for words in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
WITHOUT_NETLINK = f"from tests.support.children import refuse_netlink\nrefuse_netlink()\n{EACH}"
AS_ANYONE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


@pytest.fixture(scope="module")
def sick() -> Iterator[Machine]:
    """An H200 node that no test changes."""
    with private_machine() as machine:
        machine.batch(H200)
        yield machine


def each(machine: Machine, *command: str, lines: Iterable[tuple[str, ...]]) -> list[tuple[int, str, str]]:
    """How each of these command lines ends, and what it says, in one process that this command starts."""
    said = machine.shell(f"{shlex.join(command)} {shlex.quote(json.dumps(list(lines)))}").splitlines()
    return [(code, out, err) for code, out, err in map(json.loads, said)]


@pytest.fixture
def machine() -> Iterator[Machine]:
    """An H200 node to do with as one likes."""
    with private_machine() as machine:
        machine.batch(H200)
        yield machine


def test_the_same_answer_on_a_laptop(sick: Machine, repaired: str, tmp_path: Path) -> None:
    """The snapshot of the sick node, and what `snapshot --script` prints there, answer elsewhere as the node itself."""
    own, printed = tmp_path / "own.json", tmp_path / "printed.json"
    own.write_text(sick.hostrouting("snapshot").stdout)
    printed.write_text(sick.run("sh", text=sick.hostrouting("snapshot", "--script").stdout).stdout)
    with private_machine() as laptop:
        for words in (*QUESTIONS, *((*question, "--json") for question in QUESTIONS)):
            here = sick.hostrouting(*words)
            assert here.stdout
            for path in (own, printed) if "--json" in words else (own,):
                there = laptop.hostrouting(*words, "--snapshot", str(path))
                assert (there.stdout, there.stderr, there.returncode) == (here.stdout, here.stderr, here.returncode)
        plan = ("plan", "--config", repaired, "--json", "--snapshot")
        plans = [laptop.hostrouting(*plan, str(path)).stdout for path in (own, printed)]
    assert plans[0] == plans[1] != ""


def test_from_nothing_to_the_proof(machine: Machine, repaired: str) -> None:
    """check, plan, apply, plan, check, status, remove: each says what is so, and exits accordingly."""
    before = machine.routes(4)
    codes = [
        machine.hostrouting(*words).returncode
        for words in (
            ("check", "--config", repaired),
            ("plan", "--config", repaired),
            ("apply", "--config", repaired),
            ("plan", "--config", repaired),
            ("check", "--config", repaired),
            ("status",),
        )
    ]
    assert codes == [1, 1, 0, 0, 0, 0]
    [answer] = machine.get(4, ["172.16.200.1"])
    assert not isinstance(answer, str)
    assert answer.devs == ("eth0",)
    removed = machine.hostrouting("remove")
    lock = "/run/hostrouting/host-routing.lock"
    told = f"nothing that hostrouting installed is left, except {lock}, which the next boot removes"
    assert (removed.returncode, told in removed.stdout) == (0, True)
    assert machine.routes(4) == before
    assert machine.shell("find /run -type f").split() == [lock]
    folders, units = machine.shell("find /etc -type d").split(), HostLayout().unit_directory
    assert not {"/etc/hostrouting", "/etc/systemd/system-preset", f"{units}/systemd-nspawn@.service.d"} & {*folders}
    assert {"/etc/iproute2/rt_protos.d", units} <= {*folders}, "these belong to other packages"
    assert machine.shell("find /etc -type f").split() == ["/etc/ld.so.cache"]


def test_an_address_comes_after_the_check(written: Callable[..., str]) -> None:
    """After the check at boot ib0 gets its address: status says OVERLAP, and that the last verdict is out of date.

    The next check at boot says the same as status; and when the address goes, that verdict is out of date, too.
    """
    with private_machine() as machine:
        machine.batch(line for line in H200 if "172.16." not in line)
        assert machine.hostrouting("apply", "--config", written()).returncode == 0

        def checked_at_boot() -> str:
            return machine.shell(f"bash {HostLayout().check_script} 2>/dev/null; echo -n $?")

        def status() -> tuple[int, str, str]:
            said = machine.hostrouting("status", "--json")
            document = json.loads(said.stdout)
            return said.returncode, document["now"]["verdict"], document["lastCheck"]["verdict"]

        assert checked_at_boot() == "0"
        assert status() == (0, "ok", "ok")
        machine.batch(["address add 172.16.1.10/16 dev ib0"])
        assert status() == (1, "overlap", "ok")
        lines = machine.hostrouting("status", before=AS_ANYONE).stdout.splitlines()
        assert lines[0] == "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0"
        assert any(line.startswith("  last check") and line.endswith("Z") for line in lines)
        assert checked_at_boot() == "1"
        assert status() == (1, "overlap", "overlap")
        machine.batch(["address del 172.16.1.10/16 dev ib0"])
        assert status() == (0, "ok", "overlap")


def test_the_printed_commands_work(machine: Machine) -> None:
    """The commands that check prints can be pasted into a shell as they are, and do what they are for."""
    said = machine.hostrouting("check", CIDR).stdout
    commands = [text.strip() for text in said.splitlines() if text.startswith("  ip route add ")]
    assert len(commands) == 2
    machine.shell("\n".join(commands))
    assert machine.hostrouting("check", CIDR).returncode == 0


# Bad days


@pytest.mark.needs("systemctl")
def test_not_root(sick: Machine, repaired: str) -> None:
    """Without privilege one can look; what would change the host says that it requires root, and what does not."""
    sick.shell("mkdir -p /run/hostrouting && chown 4242 /run/hostrouting /run /etc")
    codes = {
        ("check", CIDR): 1,
        ("discover",): 1,
        ("explain", "172.16.5.9"): 0,
        ("repair", CIDR): 0,
        ("plan", "--config", repaired): 1,
        ("preflight", "--config", repaired): 1,
        ("status",): 0,
        ("snapshot",): 0,
        ("apply", "--config", repaired): 3,
    }
    said = each(sick, *AS_ANYONE, sys.executable, "-c", EACH, lines=codes)
    assert [code for code, _, _ in said] == [*codes.values()], said
    assert said[-1][1].splitlines() == [
        "FAILED: cannot lock /run/hostrouting/host-routing.lock: Permission denied; run as root",
        "  check, discover, explain, repair, plan, preflight, status and snapshot work without root",
    ]


def test_not_root_and_all_is_well(machine: Machine, repaired: str) -> None:
    """A user without root finds that a host that root configured is right."""
    assert machine.hostrouting("apply", "--config", repaired).returncode == 0
    said = machine.hostrouting("plan", "--config", repaired, before=AS_ANYONE)
    assert (said.returncode, said.stdout.splitlines()[0].partition(":")[0]) == (0, "NOTHING TO DO")


def test_no_netlink(sick: Machine, repaired: str) -> None:
    """Without netlink, nothing is guessed: exit code 3, and the reason."""
    asked = (("check", CIDR), ("explain", "8.8.8.8"), ("repair", CIDR), ("snapshot",), ("status",))
    for code, out, err in each(
        sick, sys.executable, "-c", WITHOUT_NETLINK, lines=(*asked, ("plan", "--config", repaired))
    ):
        assert code == 3, out
        assert "netlink is not available" in out + err
        assert "bug" not in out + err


def test_no_iproute2(machine: Machine, repaired: str, tmp_path: Path) -> None:
    """Nothing but the boot scripts needs `ip`: without it one can look and apply."""
    bare = ("env", f"PATH={tmp_path}")
    assert machine.hostrouting("check", CIDR, before=bare).returncode == 1
    assert machine.hostrouting("apply", "--config", repaired, before=bare).returncode == 0


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("mount -o remount,ro /etc", "Read-only file system; remount it writable"),
        ("head -c 2000000 /dev/zero > /etc/fill || true", "No space left on device; free some space"),
    ],
    ids=["read-only", "full"],
)
def test_etc_cannot_be_written(machine: Machine, repaired: str, spoil: str, reason: str) -> None:
    """If /etc is read-only or full, apply fails with the file, the reason and what was done; other commands work."""
    machine.shell(f"{{ {spoil}; }} 2>/dev/null")
    said = machine.hostrouting("apply", "--config", repaired)
    assert said.returncode == 1
    assert said.stdout.startswith("FAILED: cannot write /etc/")
    assert reason in said.stdout
    assert machine.hostrouting("check", "10.99.0.0/16").returncode == 0
    assert machine.shell("find /etc -name '*.new'") == ""


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            "for it in *; do echo stale >$it; done; mount -o remount,ro /run",
            "Read-only file system; remount it writable",
        ),
        ("rm *; cat /dev/zero >/run/fill || true", "No space left on device; free some space"),
    ],
    ids=["read-only", "full"],
)
def test_run_cannot_be_written(machine: Machine, repaired: str, spoil: str, reason: str) -> None:
    """If /run is full or read-only, STRICT passes if the routes are right, and refuses otherwise."""
    assert machine.hostrouting("apply", "--config", repaired).returncode == 0
    machine.shell(f"cd /run/aks-flex-node && {{ {spoil}; }} 2>/dev/null")
    said = machine.hostrouting("apply", "--config", repaired)
    assert said.returncode == 0, said.stdout
    assert f"cannot write /run/aks-flex-node/route-overlap.json: {reason}" in said.stderr
    left = machine.shell("cat /run/aks-flex-node/route-overlap.* 2>/dev/null || true")
    assert bool(left) == ("Read-only" in reason)
    stale = (
        f"cannot remove /run/aks-flex-node/route-overlap.ok: {reason}; this file holds the result of an earlier check"
    )
    assert (stale in said.stderr) == bool(left)
    status = machine.hostrouting("status")
    assert (status.returncode, status.stdout.split(":")[0]) == ((3, "NOT-KNOWN") if left else (0, "INSTALLED"))
    assert "none since this host booted" in status.stdout
    machine.batch(["route del 172.16.0.0/17 proto 213"])
    failed = machine.hostrouting("check")
    assert (failed.returncode, failed.stdout.split(":")[0]) == (1, "OVERLAP")


def test_a_fifo_in_the_place_of_a_file(machine: Machine, repaired: str) -> None:
    """If any of our paths is a fifo, apply, plan, status and remove still answer in seconds, and name it."""
    layout = HostLayout()
    assert machine.hostrouting("apply", "--config", repaired).returncode == 0
    for path in (
        layout.routes_script_path,
        layout.check_unit_path,
        layout.gate_drop_in(),
        layout.routes_preset_path,
        layout.lock_path,
    ):
        machine.shell(f"path={path}; mv $path /run/kept; mkfifo $path")
        looks_same = path in {layout.lock_path, layout.routes_preset_path}
        for words in (("status",), ("plan", "--config", repaired), ("apply", "--config", repaired), ("remove",)):
            said = machine.hostrouting(*words)
            told = f"{path}: there is a fifo in its place; remove it" in said.stdout + said.stderr
            assert said.returncode in ({0, 1, 3} if looks_same or words[0] == "remove" else {1, 3}), (path, words, said)
            assert told or words[0] == "remove" or (looks_same and words[0] != "apply"), (path, words, said)
            assert "Traceback" not in said.stderr
        machine.shell(f"rm -rf {path}; mkdir -p $(dirname {path}); mv /run/kept {path}")
        assert machine.hostrouting("apply", "--config", repaired).returncode == 0


def test_two_at_once(machine: Machine, repaired: str) -> None:
    """Runs at once all end well, one after the other, and the host is as if there had been one."""
    runs = [
        subprocess.Popen(machine.command("apply", "--config", repaired), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    ends = [(run.communicate(timeout=60), run.returncode) for run in runs]
    assert [code for _, code in ends] == [0] * 3, ends
    answers = sorted(out.decode().split(":")[0] for (out, _), _ in ends)
    assert answers == ["DONE", *["NOTHING TO DO"] * 2]
    assert sum(route.protocol == 213 for route in machine.routes(4)) == 2


def test_terminal_closed(machine: Machine, repaired: str) -> None:
    """A run whose terminal is closed stops with nothing half done, even without a place for its message."""
    machine.shell("mkdir -p /run/hostrouting")
    hold = ["flock", "/run/hostrouting/host-routing.lock", "sh", "-c", "echo held; exec sleep 200"]
    ours, theirs = pty.openpty()
    said = b""

    def is_waiting() -> bool:
        nonlocal said
        if select.select([ours], [], [], 0.1)[0]:
            said += os.read(ours, 65536)
        return b"another run" in said

    with running(*machine.enter, *hold, seconds=300) as (_, told):
        assert told.readline() == "held\n"
        run = subprocess.Popen(
            machine.command("apply", "--config", repaired),
            stdin=theirs, stdout=theirs, stderr=theirs, env=BUFFERED, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            wait_for("apply to wait for the lock", is_waiting)
            os.close(ours)
            run.send_signal(signal.SIGHUP)
            assert run.wait(timeout=100) == 143
        finally:
            run.kill()
            run.wait()
    assert not [route for route in machine.routes(4) if route.protocol == 213]


def test_pipe_closed(sick: Machine) -> None:
    """A reader who has seen enough (`| head`) gets no complaint, and the exit code stays the answer."""
    said = sick.shell(f'"$PYTHON" -m hostrouting check {CIDR} | head -1; echo "${{PIPESTATUS[0]}}"')
    assert said == "OVERLAP: 172.16.0.0/16 leaves by ib0, not by eth0\n1\n"
    assert sick.shell(f'"$PYTHON" -m hostrouting check {CIDR} | true; echo "${{PIPESTATUS[0]}}"') == "1\n"


def test_full_disk_under_the_answer(sick: Machine) -> None:
    """A snapshot that could not be saved is a failure."""
    said = sick.shell('"$PYTHON" -m hostrouting snapshot > /dev/full; echo $?')
    assert said == "1\nhostrouting: the answer could not be written: No space left on device\n"


@pytest.mark.parametrize(("words", "code"), [("check --dev", 2), ("check --help", 1)])
def test_full_disk_under_usage_and_help(words: str, code: int) -> None:
    """Help that cannot be written is a failure; bad usage keeps its exit code even if no message can be written."""
    command = f'"{sys.executable}" -m hostrouting {words} >/dev/full'
    done = completed(["bash", "-c", command], env=BUFFERED)
    assert done.returncode == code
    assert "Exception ignored" not in done.stderr
    assert ("could not be written: No space left on device" in done.stderr) is (code == 1)
    assert subprocess.run(["bash", "-c", f"{command} 2>&1"], check=False, env=BUFFERED).returncode == code


@pytest.mark.parametrize("locale", ["LC_ALL=C", "LC_ALL= LANG=C", "LC_ALL=POSIX"])
def test_locale_c(sick: Machine, locale: str) -> None:
    """In the locale C, however it was chosen, every answer is in ASCII, and so is the map."""
    program = f"from hostrouting.cli import main\nfor words in {QUESTIONS!r}: assert main(words) in (0, 1)"
    said = sick.shell(f'{locale} "$PYTHON" -c {shlex.quote(program)}')
    assert said.isascii()
    assert "|####" in said


def test_names_of_fifteen_bytes(machine: Machine) -> None:
    """The longest names that there are fit into tables and maps."""
    machine.batch(["link set ib0 down", "link set ib0 name mlx5_ib0_port_1", "link set mlx5_ib0_port_1 up"])
    machine.batch(["route prepend 172.16.0.0/16 dev mlx5_ib0_port_1"])
    said = machine.hostrouting("check", CIDR)
    assert said.returncode == 1
    assert said.stdout.startswith("OVERLAP: 172.16.0.0/16 leaves by mlx5_ib0_port_1, not by eth0\n")
    assert " mlx5_ib0_port_1 █" in said.stdout


def test_a_large_table(machine: Machine, written: Callable[..., str]) -> None:
    """With 5,000 routes in the table (in the long profile 100,000) every question is answered."""
    count = 100_000 if LONG else 5_000
    machine.batch(f"route add 2.{at >> 16}.{at >> 8 & 255}.{at & 255}/32 dev ib1" for at in range(count))
    config = written({"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"})
    codes = {
        words[0]: machine.hostrouting(*words).returncode
        for words in (
            ("check", CIDR),
            ("explain", "2.0.3.4"),
            ("repair", CIDR),
            ("plan", "--config", config),
            ("apply", "--config", config),
            ("status",),
        )
    }
    assert codes == {"check": 1, "explain": 0, "repair": 0, "plan": 1, "apply": 0, "status": 0}
    assert len(json.loads(machine.hostrouting("snapshot").stdout)["routes"]) > count

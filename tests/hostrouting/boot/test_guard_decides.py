"""guard.sh, run by bash beside a gate that only notes when it was run: which changes wake the
guard, and how long it rests.
"""

import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from hostrouting.boot.scripts import asset
from tests.support.inline_gate import COMMAND
from tests.support.namespace import private_namespace
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

# Its monitor ends with it.
ALONE = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")

# In the place of gate.sh. It notes the time of the clock below, and which step was asked for.
NOTES = 'echo "$CLOCK ${2-all}" >>"${0%/*}/passes"\ntrap - EXIT\nexit 0\n'

# A clock that only waiting moves. Something changes at each of these seconds, and the guard ends at
# the last one.
SIMULATION = """\
export CLOCK=0
sleep() {
  CLOCK=$((CLOCK + $1))
  SECONDS=$((99999 - SECONDS)) # the time of day jumps
}
read() {
  local arguments=$* longest
  if [[ $arguments == *'now _' ]]; then # of /proc/uptime
    now=$CLOCK.00
    return 0
  fi
  if [[ $arguments != *'-u 3'* ]]; then
    builtin read "$@" || return
    if [[ $kind == all && $line == "$end_of_gate "* ]]; then
      CLOCK=$((CLOCK + ${full_pass_takes-0}))
    fi
    return 0
  fi
  if [[ $arguments == *'-N 1000000 '* ]]; then # takes the changes so far
    while ((${#changes[@]} > 1 && changes[0] <= CLOCK)); do
      changes=("${changes[@]:1}")
    done
    return 0
  fi
  longest=${arguments#*-t }
  longest=${longest%% *}
  if ((longest == 0 && changes[0] > CLOCK)); then
    return 1
  fi
  if ((CLOCK >= changes[-1])); then
    trap - EXIT
    exit 0
  fi
  if ((changes[0] > CLOCK + longest)); then
    CLOCK=$((CLOCK + longest))
    return 142
  fi
  if ((changes[0] > CLOCK)); then
    CLOCK=${changes[0]}
  fi
}
"""


def write_guard(folder: Path, before: str, *, idle: int = 58, gate: str = NOTES) -> Path:
    """guard.sh, with a gate that notes its passes, and with this text before its own."""
    (folder / "gate.d").mkdir()
    (folder / "gate.d/10-static-routes.sh").write_text("")
    (folder / "gate.sh").write_text(gate)
    text = asset("guard.sh").replace("/etc/hostrouting", str(folder))
    guard = folder / "guard.sh"
    guard.write_text(before + text.replace("idle_time=58 ", f"idle_time={idle} "))
    return guard


def passes(folder: Path) -> list[tuple[int, str]]:
    """The seconds of each pass, and its step."""
    log = folder / "passes"
    if not log.exists():
        return []
    return [(int(line.split()[0]), line.split()[1]) for line in log.read_text().splitlines()]


def run_guard(guard: Path) -> subprocess.CompletedProcess[str]:
    """Run it in a network of its own until it ends."""
    words = ["unshare", "--net", "--", *ALONE, "/bin/bash", "-pc", COMMAND, str(guard)]
    return subprocess.run(words, check=False, timeout=120, stderr=subprocess.PIPE, text=True)


def simulated(folder: Path, changes: list[int], before: str = "") -> list[tuple[int, str]]:
    """The passes of a guard on a host that changes at these seconds."""
    seconds = " ".join(map(str, changes))
    done = run_guard(write_guard(folder, f"changes=({seconds})\n{SIMULATION}{before}"))
    assert done.stderr == ""
    assert done.returncode == 0
    return passes(folder)


def test_without_changes(tmp_path: Path) -> None:
    """All steps run at least once a minute."""
    times = [second for second, step in simulated(tmp_path, [400]) if step == "all"]
    assert times[0] <= 1
    assert len(times) > 6
    for before, after in pairwise(times):
        assert after - before <= 60


def test_changes_all_the_time(tmp_path: Path) -> None:
    """After each pass is a pause, and all steps run every 10 s at most; the routes do not wait for
    them.
    """
    done = simulated(tmp_path, [*range(100)])
    for (before, _), (after, _) in pairwise(done):
        assert 2 <= after - before <= 4
    times = [second for second, step in done if step == "all"]
    assert len(times) > 6
    for before, after in pairwise(times):
        assert 10 <= after - before <= 14


def test_passes_that_take_long(tmp_path: Path) -> None:
    """All steps rest for a minute then; meanwhile, the routes are set without them."""
    done = simulated(tmp_path, [*range(200)], "full_pass_takes=30\n")
    first, second, *_ = [second for second, step in done if step == "all"]
    assert 90 <= second - first <= 94
    between = [at for at, _ in done if first < at < second]
    assert between[0] == first + 32
    for before, after in pairwise(between):
        assert 2 <= after - before <= 4


def test_without_static_routes(tmp_path: Path) -> None:
    """A change waits for the next pass of all steps."""
    guard = write_guard(tmp_path, f"changes=({' '.join(map(str, range(40)))})\n{SIMULATION}")
    (tmp_path / "gate.d/10-static-routes.sh").unlink()
    assert run_guard(guard).returncode == 0
    assert {step for _, step in passes(tmp_path)} == {"all"}
    for (before, _), (after, _) in pairwise(passes(tmp_path)):
        assert 10 <= after - before <= 14


def test_a_step_that_takes_long(tmp_path: Path) -> None:
    """The gate may be silent for longer than the guard rests."""
    guard = write_guard(
        tmp_path, f"changes=(2)\n{SIMULATION}", idle=1, gate="sleep 1.3\n" + ENDS_WELL
    )
    assert run_guard(guard).stderr == ""


def test_a_change_at_rest(tmp_path: Path) -> None:
    """It is looked at when it comes, and all steps run soon after."""
    done = simulated(tmp_path, [30, 34, 90])
    assert [(second, step) for second, step in done if 20 < second < 50] == [
        (30, "all"),
        (34, "10-static-routes"),
        (40, "all"),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        ("link set lo alias a", "link set lo alias b"),
        ("address add 192.0.2.1/32 dev lo", "address del 192.0.2.1/32 dev lo"),
        ("route add blackhole 192.0.2.0/24", "route del blackhole 192.0.2.0/24"),
        ("rule add pref 500 lookup 99", "rule del pref 500 lookup 99"),
    ],
    ids=["link", "address", "route", "rule"],
)
def test_what_wakes_it(tmp_path: Path, changes: tuple[str, str]) -> None:
    """A change of a link, an address, a route or a rule."""
    with private_namespace() as node:
        node.batch(["link set lo up"])
        # It rests for as long as nothing changes, and not between two passes.
        guard = write_guard(tmp_path, "export CLOCK=0\nsleep() { :; }\n", idle=9999)
        words = [*node.enter, *ALONE, "/bin/bash", "-pc", COMMAND, str(guard)]
        with subprocess.Popen(words) as running:
            try:
                wait_for("the first pass", lambda: passes(tmp_path))

                def is_woken() -> bool:
                    for change in changes:
                        node.batch([change])
                    return len(passes(tmp_path)) > 1

                wait_for("a pass after the change", is_woken)
            finally:
                running.kill()


def test_changes_faster_than_it_reads(tmp_path: Path) -> None:
    """What is left of them is not taken for what the guard reads next, the time among it."""
    guard = write_guard(tmp_path, "export CLOCK=0\nsleep() { :; }\n")
    text = guard.read_text()
    monitor = "exec ip monitor link address route rule"
    assert text.count(monitor) == 1
    guard.write_text(
        text.replace(monitor, "while echo 'Deleted 5: eth0 inet 10.0.0.4/24'; do :; done")
    )
    words = ["unshare", "--net", "--", *ALONE, "/bin/bash", "-pc", COMMAND, str(guard)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        wait_for("twenty passes", lambda: len(passes(tmp_path)) >= 20 or running.poll() is not None)
        running.kill()
        _, errors = running.communicate()
    assert errors == ""
    assert len(passes(tmp_path)) >= 20


def logged(folder: Path, gate: str, changes: list[int], *, log_again: int = 3600) -> list[str]:
    """What a guard beside this gate logs on a host that changes at these seconds."""
    seconds = " ".join(map(str, changes))
    guard = write_guard(folder, f"changes=({seconds})\n{SIMULATION}", gate=gate)
    text = guard.read_text()
    assert text.count("log_again=3600 ") == 1
    guard.write_text(text.replace("log_again=3600 ", f"log_again={log_again} "))
    return run_guard(guard).stderr.splitlines()


ENDS_WELL = "trap - EXIT\nexit 0\n"


def test_a_pass_while_a_pause_ends(tmp_path: Path) -> None:
    """When all steps are due just as the routes are set, the guard goes on."""
    done = simulated(tmp_path, [9, 100])
    assert [step for second, step in done if 5 < second < 20] == ["10-static-routes", "all"]


FAULT = ("a fault", "what to do about it")


def failing(condition: str) -> str:
    """A gate that fails, and says so in two lines, while this condition of bash holds."""
    return f"""\
if {condition}; then
  printf '%s\\n' 'a fault' 'what to do about it'
  trap - EXIT
  exit 1
fi
{ENDS_WELL}"""


def test_the_end_of_a_fault(tmp_path: Path) -> None:
    """A fault is logged once, in a pass of either kind, and so is its end."""
    gate = failing("((CLOCK > 30 && CLOCK < 200))")
    lines = logged(tmp_path, gate, [60, 66, 300, 400])
    assert lines == [
        *FAULT,
        *FAULT,
        "<5>hostrouting: hostrouting-guard.service: all steps succeed again",
    ]


def test_a_fault_of_another_step(tmp_path: Path) -> None:
    """A pass that only sets the routes does not end it, although it succeeds."""
    gate = failing("[[ ! ${2-} ]] && ((CLOCK < 200))")
    lines = logged(tmp_path, gate, [60, 66, 300, 400])
    assert lines == [
        *FAULT,
        "<5>hostrouting: hostrouting-guard.service: all steps succeed again",
    ]


def test_a_repair_that_repeats(tmp_path: Path) -> None:
    """It is logged again after some time, and so is a verdict that stays the same: the journal of
    the last hour has what is wrong.
    """
    gate = f"[[ ${{2-}} ]] && echo repaired || echo verdict\n{ENDS_WELL}"
    lines = logged(tmp_path, gate, [*range(100)], log_again=30)
    assert lines.count("verdict") == 4
    assert lines.count("repaired") == 4


def test_what_a_step_leaves_behind(tmp_path: Path) -> None:
    """A process that keeps the output of the gate open does not keep the guard."""
    gate = f"sleep 99 &\nprintf 'without a newline'\n{ENDS_WELL}"
    assert logged(tmp_path, gate, [*range(20)]) == ["without a newline"] * 2


def test_a_step_does_not_get_the_monitor(tmp_path: Path) -> None:
    """A process that a step leaves behind would keep the end of `ip monitor` from the guard."""
    gate = f"[[ -e /proc/$$/fd/3 ]] && echo open\n{ENDS_WELL}"
    assert logged(tmp_path, gate, [5]) == []


KILLED = "the gate was killed, or has printed nothing for 90 s"


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        ("kill -KILL $$\n", "all steps succeed again"),
        ("exit 0\n", "all steps succeed again"),  # as a script that has been cut short ends
        ("kill -KILL $PPID\n", KILLED),
    ],
)
def test_a_gate_that_ends_in_another_way(tmp_path: Path, end: str, sentence: str) -> None:
    """It has failed, until it succeeds."""
    lines = logged(tmp_path, f"if ((CLOCK < 5)); then\n{end}fi\n{ENDS_WELL}", [60, 200])
    assert any(line.endswith(f"hostrouting-guard.service: {sentence}") for line in lines)


def test_a_monitor_that_ends(tmp_path: Path) -> None:
    """The guard fails, with the last words of `ip`, so that systemd starts it again."""
    guard = write_guard(tmp_path, "sleep() { :; }\nCLOCK=0\n")
    text = guard.read_text()
    assert text.count("ip monitor link address route rule 2>&1") == 1
    guard.write_text(text.replace("ip monitor link address", "ip monitor nothing"))
    done = run_guard(guard)
    assert done.returncode == 255
    assert re.fullmatch(
        "<3>hostrouting: hostrouting-guard.service: ip monitor ended; its last words: .*nothing.*",
        done.stderr.strip(),
    )

"""guard.sh, run by bash beside a gate that only notes when it was run: which changes wake the
guard, and how long it rests.
"""

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.inline_gate import COMMAND, asset
from tests.support.namespace import private_namespace
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]

# Its monitor ends with it.
ALONE = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")

# In the place of gate.sh. It notes the time of the clock below, and which step was asked for.
NOTES = 'echo "$CLOCK ${2-all}" >>"${0%/*}/passes"\nexit 0\n'

# A clock that only waiting moves. Something changes at each of these seconds, and the guard ends at
# the last one.
SIMULATION = """\
unset SECONDS EPOCHREALTIME
export CLOCK=0
SECONDS=0
until_then() {
  SECONDS=$1
  CLOCK=$1
}
sleep() {
  until_then $((SECONDS + $1))
}
read() {
  local words=$* longest
  if [[ $words != *'-u 3'* ]]; then
    builtin read "$@"
    return
  fi
  if [[ $words == *'-N 1000000 '* ]]; then # takes the changes so far
    while ((${#changes[@]} > 1 && changes[0] <= SECONDS)); do
      changes=("${changes[@]:1}")
    done
    return 0
  fi
  longest=${words#*-t }
  longest=${longest%% *}
  if ((SECONDS >= changes[-1])); then
    trap - EXIT
    exit 0
  fi
  if ((changes[0] > SECONDS + longest)); then
    until_then $((SECONDS + longest))
    return 142
  fi
  if ((changes[0] > SECONDS)); then
    until_then "${changes[0]}"
  fi
}
"""


def write_guard(folder: Path, before: str, *, idle: int = 58) -> Path:
    """guard.sh, with a gate that notes its passes, and with this text before its own."""
    (folder / "gate.d").mkdir()
    (folder / "gate.d/10-static-routes.sh").write_text("")
    (folder / "gate.sh").write_text(NOTES)
    text = asset("guard.sh").replace("/etc/hostrouting", str(folder))
    guard = folder / "guard.sh"
    guard.write_text(before + text.replace("idle=58", f"idle={idle}"))
    return guard


def passes(folder: Path) -> list[tuple[int, str]]:
    """The seconds of each pass, and its step."""
    log = folder / "passes"
    if not log.exists():
        return []
    return [(int(line.split()[0]), line.split()[1]) for line in log.read_text().splitlines()]


def simulated(folder: Path, changes: list[int]) -> list[tuple[int, str]]:
    """The passes of a guard on a host that changes at these seconds."""
    seconds = " ".join(map(str, changes))
    guard = write_guard(folder, f"changes=({seconds})\n{SIMULATION}")
    words = ["unshare", "--net", "--", *ALONE, "/bin/bash", "-pc", COMMAND, str(guard)]
    subprocess.run(words, check=True, timeout=60)
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

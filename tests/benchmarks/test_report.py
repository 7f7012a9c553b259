"""tests.benchmarks.report: what a run found, in words."""

from tests.benchmarks.contest import Contest, Goal, LeftOut
from tests.benchmarks.machine import Machine
from tests.benchmarks.report import markdown

MACHINE = Machine(2, "6.1", "3.11")
READ = Contest("read", {"ours": [3.0], "C": [1.0]}, (Goal("ours", 2, "C", "a reader in C"),), notes=("from memory",))


def test_a_sentence_for_everybody_comes_first() -> None:
    """It has the medians of this run; without them there is none, and the page begins with the machine."""
    install = Contest("install 10,000 routes", {"NetlinkBackend": [0.07, 0.08, 0.09], "ip -batch": [0.1, 0.16, 0.2]})
    first, *_ = markdown([READ, install], [], MACHINE).splitlines()
    assert first == (
        "hostrouting installs 10,000 routes, and says of each whether it is there, in 80.0 ms; `ip -batch` takes 160 ms."
    )
    first, *_ = markdown([READ], [], MACHINE).splitlines()
    assert first == "Linux 6.1 on 2 cores, Python 3.11. 0 of 1 goals met."


def test_a_missed_goal_says_what_it_would_take() -> None:
    """Below the table: one line for each that is missed, and none for one that is met."""
    plan = Contest("plan", {"ours": [1.0], "C": [1.0]}, (Goal("ours", 2, "C", "less"),))
    *_, first, second, third = markdown([READ, plan], [LeftOut("boot", "there is no bash")], MACHINE).splitlines()
    assert first == "- read: to reach ≤ 2 × beside C, ours would need this: a reader in C"
    assert (second, third) == ("- read: from memory", "- not measured: boot (there is no bash)")

"""tests.benchmarks.guard: how times are read and told."""

from tests.benchmarks.guard.networkd import repairs
from tests.benchmarks.guard.times import times_in_words

MONITORED = """\
[2026-11-20T10:00:00.000000] blackhole 192.0.2.1
[2026-11-20T10:00:01.000000] Deleted default via 10.0.0.1 dev eth0 proto dhcp src 10.0.0.100 metric 1024
[2026-11-20T10:00:02.000000] default via 10.0.0.1 dev eth0 proto dhcp src 10.0.0.100 metric 1024
[2026-11-20T10:00:02.250000] 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting
"""
SECOND = "[2026-11-20T10:00:02.500000] 172.16.128.0/17 via 10.0.0.1 dev eth0 proto hostrouting\n"


def test_a_repair_ends_with_the_last_route() -> None:
    """A repair's time begins when the default route is back, and ends when both routes are; later ones do not count."""
    assert repairs(MONITORED) == []
    assert repairs(MONITORED + SECOND) == [0.5]
    assert repairs(MONITORED + SECOND + SECOND) == [0.5]
    assert repairs((MONITORED + SECOND) * 2) == [0.5, 0.5]


def test_times_in_words() -> None:
    """Of a hundred times, 99 are at most as long as the second longest."""
    assert (
        times_in_words("repairs", [number / 100 for number in range(100)])
        == "repairs 100: p50 0.495 s, p99 0.980 s, most 0.990 s"
    )
    assert times_in_words("repairs", [2.0]) == "repairs 1: p50 2.000 s, p99 2.000 s, most 2.000 s"
    assert times_in_words("repairs", []) == "repairs 0"

"""The commands that restore what was deleted."""

from hostrouting.kernel.neighbours import Neighbour
from hostrouting.model.route import Route
from hostrouting.tasks.cleanup.plan import UndoLog
from tests.support.azure_leftovers import R1


def test_how_it_reads() -> None:
    """Each line is a shell command, with numbers instead of names that are configured on each host, and quoted."""
    log = UndoLog(
        (R1.format("10.240.0.5", "02:00:00:00:00:05"),),
        (Neighbour("fd00::5", "02:00:00:00:00:05", "a;reboot"),),
        tuple(Route.to(it, dev="azure0", protocol=213, metric=7) for it in ("10.240.0.5/32", "fd00::5/128")),
        "ebtables-nft",
    )
    commands = [line for line in str(log).splitlines() if not line.startswith("#")]
    assert commands == [
        f"ebtables-nft -t nat -A {log.rules[0]}",
        "ip neigh add fd00::5 lladdr 02:00:00:00:00:05 dev 'a;reboot' nud permanent",
        "ip -4 route add 10.240.0.5/32 dev azure0 table 254 proto 213 scope 253 metric 7",
        "ip -6 route add fd00::5/128 dev azure0 table 254 proto 213 metric 7",
    ]

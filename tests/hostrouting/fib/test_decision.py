"""hostrouting.fib.decision: which packets leave by a device, and how a decision is printed."""

import pytest

from hostrouting.fib.decision import Condition, Decision, Kind, Variant, goes_out, is_own
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule

ANYCAST = Route.to("10.0.0.0/24", dev="eth0", type="anycast")
RULE = Rule(family=4, priority=100, fwmark=1, table=100)


@pytest.mark.parametrize(
    ("kind", "route", "own", "out"),
    [
        ("local", None, True, False),
        ("no-route", None, False, False),
        ("unicast", Route.to("0.0.0.0/0", dev="eth0"), False, True),
        ("broadcast", None, True, False),
        ("broadcast", Route.to("0.0.0.0/0", dev="eth0"), True, False),
        ("broadcast", Route.to("10.0.0.255/32", dev="eth0", type="broadcast", protocol=2), True, False),
        ("broadcast", Route.to("10.0.0.255/32", dev="eth0", type="broadcast"), False, True),
        ("broadcast", Route.to("10.0.0.254/31", dev="eth0", type="broadcast", protocol=2), False, True),
        ("anycast", Route.to("fd00::1/128", dev="eth0", type="anycast", protocol=4), False, True),
        ("anycast", ANYCAST, False, True),
        ("multicast", Route.to("224.0.1.0/24", dev="eth0", type="multicast"), True, False),
        ("multicast", Route.to("10.0.0.0/24", dev="eth0", type="multicast"), False, True),
    ],
)
def test_what_goes_out(kind: Kind, route: Route | None, own: bool, out: bool) -> None:  # noqa: FBT001
    """Routes of type broadcast, anycast and multicast send packets out, except to single addresses that Linux found.

    Those inside the multicast range do not count. Kills: the routes of any program to single addresses.
    """
    assert (is_own(kind, route), goes_out(kind, route)) == (own, out)


def test_as_text() -> None:
    """A decision prints its route, its kind if that is another one, its rule, and how many variants it has."""
    condition = Condition(RULE, (("fwmark", "0x1"),), holds=False)
    plain = Decision("anycast", RULE, ANYCAST, ANYCAST.legs)
    varied = Decision("no-route", None, None, (), (Variant(((condition,),), plain),))
    assert repr(condition) == "<Condition not fwmark 0x1 (rule 100)>"
    assert repr(plain) == f"<Decision {ANYCAST} (rule 100)>"
    assert repr(varied) == "<Decision no-route and 1 variants>"

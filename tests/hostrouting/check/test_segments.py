"""hostrouting.check.segments: the ranges of a CIDR, and which of them a column of a map shows."""

import attrs

from hostrouting.check.segments import Judgement, Segment, segments_of, strip_of
from hostrouting.fib.engine import Fib
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from tests.support.topologies import plain

CIDR = Prefix.parse("172.20.0.0/16")


def test_each_kind_of_segment() -> None:
    """Its label is its device, what refuses it, or the host itself; only an unexpected device that is not allowed escapes."""
    snapshot = plain().with_routes(
        [
            Route.to("172.20.16.0/20", dev="ib0"),
            Route.to("172.20.32.0/21", dev="cni0"),
            Route.to("172.20.40.0/21", dev="cni0"),
            Route.to("172.20.48.0/20", type="blackhole"),
            Route.to("172.20.64.0/20", type="blackhole"),
            Route.to("172.20.64.1/32", dev="cni0"),
            Route.to("172.20.80.0/20", dev="lo", type="local", table=255),
            Route.to("172.20.96.0/20", type="prohibit"),
        ]
    )
    fib = Fib(attrs.evolve(snapshot, links=(*snapshot.links, Link(name="cni0", index=9))))
    found = segments_of(fib, CIDR, expected_devs=("eth0",), allowed_devs=("cni*",))
    assert [(str(ip_at(4, one.first)), one.label, one.judgement) for one in found] == [
        ("172.20.0.0", "eth0", "expected"),
        ("172.20.16.0", "ib0", "escape"),
        ("172.20.32.0", "cni0", "allowed"),
        ("172.20.48.0", "blackhole", "escape"),
        ("172.20.64.0", "own", "own"),
        ("172.20.64.1", "cni0", "allowed"),
        ("172.20.64.2", "own", "own"),
        ("172.20.96.0", "prohibit", "escape"),
        ("172.20.112.0", "eth0", "expected"),
    ]


def columns(*segments: tuple[int, str, Judgement], count: int = 4) -> str:
    """The labels that these columns of a /28 show; each segment is its last address, its label and its judgement."""
    begins = [0, *(last + 1 for last, _, _ in segments)]
    some = [Segment(first, *segment) for first, segment in zip(begins, segments, strict=False)]
    return "".join(one.label * length for one, length in strip_of(Prefix.parse("0.0.0.0/28"), some, count))


def test_what_a_column_shows() -> None:
    """An escape, however small; else an allowed device; else the largest range, the first of equal ones."""
    assert columns((6, "e", "expected"), (7, "x", "escape"), (8, "a", "allowed"), (15, "f", "expected")) == "exaf"
    assert columns((2, "a", "allowed"), (3, "x", "escape"), (15, "e", "expected")) == "xeee"
    assert columns((3, "x", "escape"), (4, "e", "expected"), (6, "f", "expected"), (15, "g", "expected")) == "xfgg"
    assert columns((0, "e", "expected"), (1, "f", "expected"), (3, "g", "expected"), (15, "h", "expected")) == "ghhh"
    assert columns((5, "e", "expected"), (7, "f", "expected"), (15, "g", "expected")) == "eegg"
    assert columns((4, "e", "expected"), (15, "x", "escape")) == "exxx"
    assert columns((11, "e", "expected"), (12, "x", "escape"), (15, "e", "expected")) == "eeex"
    assert columns((9, "e", "expected"), (15, "f", "expected"), count=32) == "e" * 20 + "f" * 12

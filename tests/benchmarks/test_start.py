"""tests.benchmarks.start: where the milliseconds of a start go."""

from tests.benchmarks.start import modules, others, shares

REPORT = """\
import time: self [us] | cumulative | imported package
import time:       500 |        500 |   _codecs
import time:      1500 |       2000 | encodings
import time:      4000 |       4000 |   attr._make
import time:      1000 |       5000 | attrs
import time:      2000 |       9000 |     hostrouting.model.route
import time:      1500 |       1500 | phases
hostrouting: a line of its own
"""


def test_shares_are_the_modules_own_times_by_owner() -> None:
    """Each module is counted once, without those that it loads; the largest share comes first."""
    assert shares(REPORT) == [("attrs", 5.0), ("hostrouting", 3.5), ("the standard library", 2.0)]


def test_what_any_program_with_these_modules_needs() -> None:
    """Of all modules, our own are left out; the others keep their order."""
    assert modules(REPORT) == ["_codecs", "encodings", "attr._make", "attrs", "hostrouting.model.route", "phases"]
    assert others(REPORT) == ["_codecs", "encodings", "attr._make", "attrs"]

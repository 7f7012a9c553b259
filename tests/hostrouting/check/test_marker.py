"""hostrouting.check.marker: what other programs see in /run, while one verdict follows another."""

from itertools import product

import pytest

from hostrouting.check.check import check_kernel
from hostrouting.check.marker import leave_marker
from hostrouting.check.sentences import check_findings
from hostrouting.testing import FakeHost
from tests.support.node import KERNELS, MARKERS, marker_of, wanting


def leave(host: FakeHost, verdict: str) -> None:
    """Leave the marker of a check of a node with this verdict."""
    report = check_kernel(KERNELS[verdict](), wanting())
    leave_marker(host.files, report, check_findings(report))


@pytest.mark.parametrize(("former", "verdict"), [*product(KERNELS, KERNELS)])
def test_the_marker_of_a_verdict(former: str, verdict: str) -> None:
    """It is the only one, whatever the verdict before was. If that was the same, nothing is
    written: other programs miss the marker at no moment.
    """
    host = FakeHost()
    leave(host, former)
    changes = [*host.files.writes]
    leave(host, verdict)
    assert marker_of(host) == MARKERS[verdict]
    assert (host.files.writes == changes) is (verdict == former)

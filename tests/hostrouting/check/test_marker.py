"""hostrouting.check.marker: what other programs see in /run, while one verdict follows another."""

from itertools import product

import pytest

from hostrouting.check.check import check_kernel
from hostrouting.check.marker import leave_marker
from hostrouting.check.sentences import check_findings
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles, FakeKernel, h200, plain_vm
from tests.support.node import wanting, without_default
from tests.support.topologies import marked_vm

KERNELS = {
    "ok": plain_vm(),
    "overlap": h200(),
    "no-default-route": without_default(h200()),
    "undecided": marked_vm(),
}
MARKERS = {
    "ok": HostLayout.ok_path,
    "overlap": HostLayout.detected_path,
    "no-default-route": HostLayout.detected_path,
    "undecided": HostLayout.undecided_path,
}


def leave(files: FakeFiles, kernel: FakeKernel) -> None:
    """Leave the marker of a check of this node."""
    report = check_kernel(kernel, wanting())
    leave_marker(files, report, check_findings(report))


@pytest.mark.parametrize(("former", "verdict"), [*product(KERNELS, KERNELS)])
def test_the_marker_of_a_verdict(former: str, verdict: str) -> None:
    """It is the only one, whatever the verdict before was. If that was the same, nothing is
    written: another program misses the marker at no moment, and nobody is woken.
    """
    files = FakeFiles()
    leave(files, KERNELS[former])
    changes = [*files.writes]
    leave(files, KERNELS[verdict])
    assert [path for path in HostLayout.markers if path in files.texts] == [MARKERS[verdict]]
    assert (files.writes == changes) is (verdict == former)

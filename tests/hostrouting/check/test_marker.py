"""hostrouting.check.marker: what other programs see in /run, while one verdict follows another."""

import os
import resource
from itertools import product
from pathlib import Path

import pytest

from hostrouting.check.check import check_kernel
from hostrouting.check.marker import leave_marker
from hostrouting.check.sentences import check_findings
from hostrouting.errors import HostError
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeHost
from tests.support.children import in_child
from tests.support.locks import leased_by_another_user
from tests.support.node import KERNELS, MARKERS, marker_of, wanting
from tests.support.topologies import checked, vm_of


def leave(host: FakeHost, verdict: str) -> None:
    report = check_kernel(KERNELS[verdict](), wanting())
    leave_marker(host.files, report, check_findings(report))


def test_what_a_marker_says() -> None:
    """What escapes or is allowed, that there is no default route, or which family is in doubt."""
    cases = {
        HostLayout.detected_path: (
            "ipv6; 172.16.0.0/17 dev ib\x1b0",
            "OVERLAP: 172.16.0.0/17 leaves through ib\\x1b0",
        ),
        HostLayout.undecided_path: ("ipv6; default dev wg1", "UNDECIDED: it is unclear"),
        HostLayout.ok_path: ("ipv6; 172.16.5.7/32 dev cali1", "ok\npackets to 172.16.5.7 leave"),
    }
    host = FakeHost()
    for path, (things, words) in cases.items():
        report = checked(vm_of(things), "172.16.0.0/16", "fd16::/48")
        leave_marker(host.files, report, check_findings(report))
        text = host.files.read(path) or ""
        assert text.startswith(words)
        assert text.count("\n") == words.count("\n") + 1
    leave(host, "no-default-route")
    assert host.files.read(HostLayout.detected_path) == "no-default-route\n"


def test_a_marker_that_cannot_be_removed() -> None:
    """The others go all the same: no verdict is better than a wrong one."""
    host = FakeHost()
    leave(host, "ok")
    host.files.broken[HostLayout.ok_path] = "is read-only"
    host.files.texts[HostLayout.undecided_path] = "left over"
    with pytest.raises(HostError, match="is read-only"):
        leave(host, "overlap")
    assert marker_of(host) == "ok"


@pytest.mark.linux
def test_a_marker_that_is_huge(tmp_path: Path) -> None:
    """It is replaced, and not read to its end, which would take all of the memory."""
    files = LocalFiles(tmp_path)
    files.write(HostLayout.ok_path, "ok\n")
    os.truncate(f"{tmp_path}{HostLayout.ok_path}", 1 << 40)
    report = check_kernel(KERNELS["ok"](), wanting())

    def leave_it() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        leave_marker(files, report, ())

    in_child(leave_it)
    assert files.read(HostLayout.ok_path) == "ok\n"


@pytest.mark.linux
@pytest.mark.needs("root")
def test_a_marker_that_cannot_be_read(tmp_path: Path) -> None:
    """It is replaced, even if it says the same: its owner has leased it, who may own the folder."""
    files = LocalFiles(tmp_path)
    files.write(HostLayout.ok_path, "ok\n")
    place = Path(f"{tmp_path}{HostLayout.ok_path}")
    report = check_kernel(KERNELS["ok"](), wanting())
    with leased_by_another_user(place):
        leave_marker(files, report, ())
        assert place.owner() == "root"
    assert files.read(HostLayout.ok_path) == "ok\n"


@pytest.mark.parametrize(("former", "verdict"), [*product(KERNELS, KERNELS)])
def test_the_marker_of_a_verdict(former: str, verdict: str) -> None:
    """It is the only one, and is not written again if the verdict is the same."""
    host = FakeHost()
    leave(host, former)
    changes = [*host.files.writes]
    leave(host, verdict)
    assert marker_of(host) == MARKERS[verdict]
    assert (host.files.writes == changes) is (verdict == former)

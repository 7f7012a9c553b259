"""What this process may do, as the kernel says it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hostrouting.errors import NotPermitted
from hostrouting.host import Rights, own_rights
from hostrouting.kernel.programs import read_rights
from tests.support.children import in_child

STATUS = "Name:\tpython3\nUid:\t0\t0\t0\t0\nCapEff:\t{}\nCapBnd:\t000001ffffffffff\n"


@pytest.mark.parametrize(
    ("mask", "may"), [("000001ffffffffff", True), ("0000000000001000", True), ("000001ffffffefff", False), ("0", False)]
)
def test_capability(mask: str, *, may: bool) -> None:
    """CAP_NET_ADMIN is bit 12 of the effective capabilities."""
    assert read_rights(STATUS.format(mask), user=0) == Rights(changes_network=may)


@pytest.mark.parametrize("status", ["", "CapEff:\tx\n", "CapEff:\n"])
def test_nothing_to_go_by(status: str) -> None:
    """Where the kernel does not say it, the process is assumed to have the capability: the kernel decides later."""
    assert read_rights(status, user=1000) == Rights(is_root=False)


@pytest.mark.parametrize(
    ("rights", "told"),
    [
        (Rights(changes_network=False), "root without the capability CAP_NET_ADMIN"),
        (Rights(is_root=False, changes_network=False), "run it as root"),
    ],
)
def test_required(rights: Rights, told: str) -> None:
    """Whoever lacks the capability is told what to do: root in a container needs something else than a user."""
    Rights(is_root=False).require_network()
    with pytest.raises(NotPermitted, match=told):
        rights.require_network()


@pytest.mark.linux
@pytest.mark.needs("root")
class TestOwn:
    """Of real processes."""

    def test_another_user(self) -> None:
        """A user other than root has no capabilities."""

        def inside() -> str:
            os.setuid(65534)
            return repr(own_rights())

        assert in_child(inside) == repr(Rights(is_root=False, changes_network=False))

    def test_root_in_a_container(self) -> None:
        """Root may lack the capability."""
        code = "from hostrouting.host import own_rights; print(own_rights())"
        drop = ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
        done = subprocess.run(
            [*drop, sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
        )
        assert done.stdout == f"{Rights(changes_network=False)}\n"

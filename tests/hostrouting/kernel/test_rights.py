"""What this process may do."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from hostrouting.errors import BackendError
from hostrouting.kernel import rights
from hostrouting.kernel.rights import Rights, own_rights
from tests.support.kinds import raises
from tests.support.programs import completed


@pytest.mark.parametrize(
    ("status", "may"),
    [
        ("CapEff:\t000001ffffffffff\n", True),
        ("Uid:\t0\nCapEff:\t0000000000001000\nCapBnd:\t0\n", True),
        ("CapEff:\t000001ffffffefff\nCapBnd:\t000001ffffffffff\n", False),
        *((unclear, True) for unclear in ("CapEff:\tx\n", None)),
    ],
)
def test_capability(
    status: str | None, *, may: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAP_NET_ADMIN is bit 12 of the effective capabilities; if they are not shown, the kernel
    decides later.

    The error for a missing one has the remedy.
    """
    path = tmp_path / "status"
    if status is not None:
        path.write_text(status, encoding="utf-8")
    monkeypatch.setattr(rights, "_STATUS", str(path))
    remedy = "run it as root; root in a container .* CAP_NET_ADMIN"
    with nullcontext() if may else raises(BackendError, "not-permitted", match=remedy):
        own_rights().require_network()


@pytest.mark.linux
@pytest.mark.needs("root")
def test_root_in_a_container() -> None:
    """Root may lack the capability."""
    code = "from hostrouting.kernel.rights import own_rights; print(own_rights())"
    drop = ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
    assert (
        completed([*drop, sys.executable, "-c", code], check=True).stdout
        == f"{Rights(changes_network=False)}\n"
    )

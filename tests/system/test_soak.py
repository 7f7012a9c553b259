"""The tool `soak` works, and finds what must not be: `make soak` looks for it, for an hour."""

import pytest

from tests.support.gate import LAYOUT
from tests.support.systemd import NEEDS
from tests.support.waiting import wait_for
from tests.system import soak

pytestmark = [pytest.mark.boot, pytest.mark.needs(*NEEDS)]


def sabotage(box: soak.Soak) -> None:
    """Each thing that must not be, one after the other."""
    box.system.must("ip", "route", "add", "10.99.0.0/24", "via", "10.0.0.1", "proto", "213")
    with pytest.raises(AssertionError, match=r"not configured: 10\.99\.0\.0/24"):
        wait_for("the route", lambda: box.check_watched() < 0)
    box.system.must("ip", "route", "del", "10.50.0.0/16")
    with pytest.raises(AssertionError, match=r"lost: 10\.50\.0\.0/16 via"):
        box.check_routes()
    box.escape()
    box.system.lay(LAYOUT.opening_path, "a reason\n")
    wait_for("a start", lambda: box.check_starts() < 0)


def test_what_must_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found, and the last line says how to see it again."""
    monkeypatch.setattr(soak, "STEPS", {"sabotage": (1, sabotage)})
    said: list[str] = []
    with pytest.raises(AssertionError, match="started at"):
        soak.run(7, until=lambda _: False, say=said.append)
    assert said[-1].startswith("SEED=7, step 1, ")

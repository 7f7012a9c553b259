"""The simulator finds what it should: mistakes of the past are made again, one at a time, and break a law.

A life is three days. `MISTAKES` names the commit that mended each; docs/testing.md says after how many lives each was found
when that was measured. The test allows more, because each change of the simulator or of a task draws other lives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hostrouting.boot.gate import Gate, _Change
from hostrouting.host.fileset import FileSet
from hostrouting.routes.apply import _Transaction
from hostrouting.tasks import static_routes
from hostrouting.tasks.base import HostTask
from hostrouting.tasks.guard.loop import _Watching
from hostrouting.tasks.guard.service import InstallGuard
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.tasks.static_routes import ConfigureStaticRoutes
from hostrouting.testing.node import BrokenLaw
from tests.hostrouting.testing.test_node import life

FIRST, LIVES, DAYS = 2000, 200, 3.0
UNDO = _Transaction.undo


def undo_what_is_known(transaction: _Transaction) -> str:
    """Roll nothing back if no answer of the kernel says that something was done."""
    said = "every change was rolled back: the route table is as it was before"
    return UNDO(transaction) if transaction.done else said


def forget_the_verdict(task: CheckRouteOverlap, _ctx: object) -> None:
    """Remove the markers before the routes are tried."""
    task._forget(task.host.layout.npd_path)


def numbers_of_the_record(files: Any, layout: Any, *, now: int) -> frozenset[int]:
    """The former protocol numbers without the one in the script."""
    found = static_routes._numbers_in(files.read(layout.protocol_name_path))
    return frozenset(number for number in found if number != now)


def always(value: object) -> Callable[..., object]:
    """A function that returns this value."""
    return lambda *_, **__: value


MISTAKES: dict[str, tuple[object, str, object]] = {
    "39233d6f: a new protocol number is on disk last": (ConfigureStaticRoutes, "_number_that_goes", always(FileSet())),
    "fd6586d6: the number in the script does not count": (static_routes, "former_protocols", numbers_of_the_record),
    "c21f7d95: protection goes before the routes are tried": (HostTask, "takes_protection_away", False),
    "8c7ea667: a conflict forgets the verdict": (CheckRouteOverlap, "prepare", forget_the_verdict),
    "f2e441eb: a run that fails does not start the guard": (InstallGuard, "is_always_carried_out", False),
    "860b436f: what systemd would not read is changed": (Gate, "require_reload", always(None)),
    "860b436f: what an earlier run has left unread stays so": (Gate, "is_unread", always(False)),
    "34ac9ee0: what is not known to be done is not rolled back": (_Transaction, "undo", undo_what_is_known),
    "ff54dc8b: a run that fails replaces the last good script": (ConfigureStaticRoutes, "prepare", always(None)),
    "9ca14897: a change does not stop the gate": (_Change, "_stop_gate", always(None)),
    "64937820: new routes wait for a rule that apply adds": (
        static_routes,
        "with_kept_rules",
        lambda before, _: before,
    ),
    "395ad7bb: the guard does not read its configuration again": (_Watching, "_take_configuration", always(None)),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of some lives breaks a law."""
    monkeypatch.setattr(*MISTAKES[name])
    for seed in range(FIRST, FIRST + LIVES):
        one = life(seed)
        try:
            one.play(one._draw(DAYS))
        except BrokenLaw:
            return
    pytest.fail(f"not found in {LIVES} lives")

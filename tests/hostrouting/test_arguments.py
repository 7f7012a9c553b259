"""hostrouting.arguments: an argument of the wrong type is refused immediately, with what to write instead."""

from collections.abc import Callable
from typing import Any

import pytest

from hostrouting import (
    CheckRouteOverlap,
    CleanStaleAzureVnet,
    Configure,
    ConfigureStaticRoutes,
    Host,
    HostRoutingConfig,
    Remove,
    RewriteProbeSource,
    plan_routes,
)
from hostrouting.kernel import RouteRequest
from hostrouting.kernel.netlink.change import carry_out
from hostrouting.testing import FakeFiles, FakeHost, FakeKernel, h200

CONFIG = HostRoutingConfig()
NODE = h200().snapshot()
ADD = RouteRequest("add", NODE.routes[0])

# Callers without a type checker can pass anything here.
TASKS: list[Any] = [
    CheckRouteOverlap,
    CleanStaleAzureVnet,
    Configure,
    ConfigureStaticRoutes,
    Remove,
    RewriteProbeSource,
]
plan: Any = plan_routes
fake: Any = FakeHost
host: Any = Host
change: Any = carry_out


@pytest.mark.parametrize("make", TASKS)
@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (Host.local, r"not Host\.local; call it: Host\.local\(\)"),
        (FakeHost, r"not FakeHost; call it: FakeHost\(\)"),
        (FakeKernel(), r"not a FakeKernel; a kernel is only part of a host: FakeHost\(kernel=…\) in a test"),
        ("node-7", r"not a str; Host\.local\(\) is this host, Host\.offline\(root\) an image"),
    ],
)
def test_what_is_not_a_host(make: Any, given: object, remedy: str) -> None:
    """A task refuses an object that is not a host when it is created, and says how to get a host."""
    with pytest.raises(TypeError, match=rf"{make.__name__} takes a Host, {remedy}"):
        make(*([] if make is Remove else [CONFIG]), host=given)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: fake(kernel=h200), r"takes a FakeKernel, not h200; call it: h200\(\)"),
    (lambda: fake(files=FakeFiles), r"files: FakeFiles is a type; call it: FakeFiles\(\)"),
    (lambda: fake(layout="/mnt"), r"layout takes a HostLayout, not a str; write HostLayout\(root=…\)"),
    (lambda: fake(backend=h200()), r"makes one, not a FakeKernel; write backend=lambda: …"),
    (lambda: host(backend=h200(), files=FakeFiles(), manager=None), r"makes one, not a FakeKernel"),
    (lambda: change(None, ADD), r"^change: add .* is not a list; write \[add "),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_refused(call: Callable[[], object], words: str) -> None:
    """The error is a TypeError that names the argument, what was given, and what to write."""
    with pytest.raises(TypeError, match=words):
        call()


def test_lists_of_any_sort() -> None:
    """A tuple, a set and a generator are accepted as lists."""
    empty: list[Any] = [(), set(), iter(())]
    for routes in empty:
        assert plan(routes, NODE).steps == ()

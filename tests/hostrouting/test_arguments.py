"""hostrouting.arguments: an argument of the wrong type is refused immediately, with what to write instead."""

from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

import hostrouting
from hostrouting import (
    CheckRouteOverlap,
    CleanStaleAzureVnet,
    Configure,
    ConfigureStaticRoutes,
    Fib,
    Host,
    HostRoutingConfig,
    Remove,
    RewriteProbeSource,
    check_overlap,
    plan_routes,
    propose_repair,
)
from hostrouting.kernel import RouteRequest
from hostrouting.kernel.netlink.change import carry_out
from hostrouting.model.prefix import Prefix
from hostrouting.testing import FakeFiles, FakeHost, MemoryBackend, h200

CONFIG = HostRoutingConfig()
NODE = h200().snapshot()
FIB = Fib(NODE)
CIDR = "172.16.0.0/16"
REPORT = check_overlap(FIB, [CIDR])
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
check: Any = check_overlap
plan: Any = plan_routes
propose: Any = propose_repair
fake: Any = FakeHost
host: Any = Host
fib: Any = Fib
kernel: Any = h200()
change: Any = carry_out


@pytest.mark.parametrize("make", TASKS)
@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (Host.local, r"not Host\.local; call it: Host\.local\(\)"),
        (FakeHost, r"not FakeHost; call it: FakeHost\(\)"),
        (MemoryBackend(), r"not a MemoryBackend; a kernel is only part of a host: FakeHost\(kernel=…\) in a test"),
        ("node-7", r"not a str; Host\.local\(\) is this host, Host\.offline\(root\) an image"),
    ],
)
def test_what_is_not_a_host(make: Any, given: object, remedy: str) -> None:
    """A task refuses an object that is not a host when it is created, and says how to get a host."""
    with pytest.raises(TypeError, match=rf"{make.__name__} takes a Host, {remedy}"):
        make(*([] if make is Remove else [CONFIG]), host=given)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: fake(kernel=h200), r"takes a MemoryBackend, not h200; call it: h200\(\)"),
    (lambda: fake(files=FakeFiles), r"files: FakeFiles is a type; call it: FakeFiles\(\)"),
    (lambda: fake(layout="/mnt"), r"layout takes a HostLayout, not a str; write HostLayout\(root=…\)"),
    (lambda: fake(backend=h200()), r"makes one, not a MemoryBackend; write backend=lambda: …"),
    (lambda: host(backend=h200(), files=FakeFiles(), manager=None), r"makes one, not a MemoryBackend"),
    (lambda: check(FIB, CIDR), r'cidrs: "172\.16\.0\.0/16" is not a list; write \["172\.16\.0\.0/16"\]'),
    (lambda: check(FIB, ip_network(CIDR)), r"cidrs: 172\.16\.0\.0/16 is not a list"),
    (lambda: check(FIB, Prefix.parse(CIDR)), r"cidrs: 172\.16\.0\.0/16 is not a list"),
    (lambda: check(FIB, [CIDR], expected_devs="eth0"), r'expected_devs: "eth0" is not a list; write \["eth0"\]'),
    (lambda: check(FIB, [CIDR], expected_devs=[NODE.links[0]]), r"is a Link, not a string; write its name"),
    (lambda: check(FIB, [CIDR], allowed_devs="wg*"), r'allowed_devs: "wg\*" is not a list'),
    (lambda: check(NODE, [CIDR]), r"check_overlap takes a Fib, not a Snapshot; write Fib\(snapshot\)"),
    (lambda: fib(h200()), r"Fib takes a Snapshot, not a MemoryBackend; take one of the host: backend\.snapshot\(\)"),
    (lambda: propose(NODE, REPORT), r"takes a Fib, not a Snapshot"),
    (lambda: propose(FIB, FIB), r"takes an OverlapReport, not a Fib"),
    (lambda: plan("10.0.0.0/8", NODE), r'plan_routes: "10\.0\.0\.0/8" is not a list'),
    (lambda: kernel.change(ADD), r"^change: add .* is not a list; write \[add "),
    (lambda: change(None, ADD), r"^change: add .* is not a list; write \[add "),
    (lambda: plan(["10.0.0.0/8"], NODE), r"takes a DesiredRoute, not a str"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_refused(call: Callable[[], object], words: str) -> None:
    """The error is a TypeError that names the argument, what was given, and what to write."""
    with pytest.raises(TypeError, match=words):
        call()


def test_lists_of_any_sort() -> None:
    """A tuple, a set and a generator are accepted as lists."""
    for cidrs in ([CIDR], (CIDR,), {CIDR}, iter([CIDR])):
        assert check_overlap(FIB, cidrs) == REPORT
    assert hostrouting.plan_routes(iter(()), NODE).steps == ()

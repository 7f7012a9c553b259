"""Any command, on any host: it answers or says what is wrong, and never ends as a bug."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, strategies as st

from hostrouting.errors import BackendError
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm
from tests.support.cli import Said, say
from tests.support.nodes import block_of, nodes
from tests.support.tasks import REPAIR, lose_routes, type_routes

CIDRS = [
    *(str(block_of(family)) for family in (4, 6)),
    *("10.96.0.5/32", "10.96.0.0/12", "fd96::5/128", "fd00::/64"),
    *("172.16.0.0/16", "172.16.5.9/32", "10.0.0.0/24"),
]
ROUTES: list[dict[str, Any]] = [
    {"destination": "172.16.0.0/17"},
    {"destination": "10.96.0.0/27", "dev": "eth0"},
    {"destination": "fd96::/123"},
    {"destination": "fd00::/64", "gateway": "fe80::1", "dev": "eth0"},
]
EVENTS = ("nothing", "routes are lost", "routes are typed", "config.json is cut off")
APPLY = ("apply", "--wait", "0", "--allow-removal", "--config", "-")
COMMANDS = (
    "check {typed_cidrs}",
    "repair {typed_cidrs}",
    "repair --allow eth0 {typed_cidrs}",
    "status",
    "status kubelet",
    "status --metrics",
    "check --snapshot - {cidrs}",
    "repair --snapshot - {cidrs}",
    "check --config -",
    "repair --config - {typed_cidrs}",
    "plan --config -",
    "remove --dry-run",
    " ".join(APPLY),
    "remove",
)
"""What is typed, in this order: the last two change the host."""


@st.composite
def kernels(draw: st.DrawFn) -> FakeKernel:
    """A kernel with what Linux accepts of a random node; or a usual one."""
    kernel = draw(st.sampled_from([FakeKernel, plain_vm, h200]))()
    if draw(st.booleans()):
        return kernel
    _, node = draw(nodes())
    for link in node.links:
        with suppress(BackendError):
            kernel.add_link(link._replace(index=0))
    for address in node.addresses:
        with suppress(BackendError):
            kernel.add_address(address.dev, f"{address.ip}/{address.length}")
    for rule in node.rules:
        with suppress(BackendError):
            kernel.add_rule(rule)
    for route in node.routes:
        with suppress(BackendError):
            kernel.ip_route("append", route)
    return kernel


def configs() -> st.SearchStrategy[dict[str, Any]]:
    check = st.fixed_dictionaries(
        {
            "expectedCidrs": st.lists(st.sampled_from(CIDRS), max_size=2, unique=True),
            "mode": st.sampled_from(["WARN", "STRICT"]),
            "expectedDevs": st.sampled_from([[], [], ["eth0"], ["ib0", "wg0"]]),
        }
    )
    routes = st.lists(st.sampled_from(ROUTES), max_size=2, unique_by=str)
    static = routes.map(lambda routes: {"enabled": bool(routes), "routes": routes})
    return st.fixed_dictionaries({"routeOverlap": check, "staticRoutes": static})


def happen(host: FakeHost, event: str) -> None:
    with suppress(BackendError):
        if event == "routes are lost":
            lose_routes(host)
        if event == "routes are typed":
            type_routes(host, *REPAIR)
    if event == "config.json is cut off":
        path = "/etc/hostrouting/config.json"
        host.files.texts[path] = host.files.texts.get(path, "")[:40]


def as_stdin(config: dict[str, Any]) -> bytes:
    return json.dumps(config).encode()


def say_without_bug(host: FakeHost, *words: str, stdin: bytes = b"") -> Said:
    """Type this; an answer is printed, or what is wrong."""
    said = say(*words, host=host, stdin=stdin)
    problem = f"{' '.join(words)}\n{stdin.decode()}\n{said.err}"
    assert "this is a bug" not in said.err, problem
    assert "usage: " not in said.err, problem
    return said


@given(
    kernel=kernels(),
    installed=st.none() | configs(),
    event=st.sampled_from(EVENTS),
    wanted=configs(),
    typed_cidrs=st.lists(st.sampled_from(CIDRS), max_size=2, unique=True),
    options=st.sampled_from([(), ("--json",)]),
)
def test_no_command_ends_as_a_bug(
    *,
    kernel: FakeKernel,
    installed: dict[str, Any] | None,
    event: str,
    wanted: dict[str, Any],
    typed_cidrs: list[str],
    options: tuple[str, ...],
) -> None:
    """Whatever is installed, whatever has happened since, and whatever is asked for."""
    host = FakeHost(kernel=kernel)
    if installed is not None:
        say_without_bug(host, *APPLY, stdin=as_stdin(installed))
    happen(host, event)
    snapshot = say_without_bug(host, "snapshot").out.encode()
    typed = " ".join(typed_cidrs)
    for command in COMMANDS:
        words = command.format(typed_cidrs=typed, cidrs=typed or " ".join(CIDRS)).split()
        stdin = snapshot if "--snapshot" in words else as_stdin(wanted)
        if "--metrics" not in words:
            words += options
        say_without_bug(host, *words, stdin=stdin)

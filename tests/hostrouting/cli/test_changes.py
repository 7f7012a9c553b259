"""What `plan`, `apply` and `status` say of a route whose place belongs to an address or to another program."""

from collections.abc import Callable

import pytest

from hostrouting.model.route import Route
from hostrouting.testing import FakeHost, MemoryBackend, plain_vm
from tests.support.cli import say
from tests.support.mishaps import fabric_vm

CIDR = "172.16.0.0/16"
WHOLE = {"destination": CIDR}
HALVES = ["172.16.0.0/17", "172.16.128.0/17"]
DELETION = "ip route del 172.16.0.0/16 via 10.0.0.1 dev eth0 table main proto boot scope global metric 0"


def overwritten(gateway: str = "10.0.0.1") -> MemoryBackend:
    """The same after the Go original ran: `ip route replace` has put its route in the place of ib0's own."""
    kernel = fabric_vm()
    kernel.ip_route("replace", Route.to("172.16.0.0/16", dev="eth0", gateway=gateway, protocol=3))
    return kernel


def gone() -> MemoryBackend:
    """The same after ib0's own route was deleted: its key is free until the kernel adds the route again."""
    kernel = fabric_vm()
    kernel.ip_route("delete", Route.to("172.16.0.0/16", dev="ib0", protocol=2))
    return kernel


@pytest.mark.parametrize("kernel", [overwritten, gone], ids=["kept", "added"])
@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_route_that_does_not_last(
    written: Callable[..., str], kernel: Callable[[], MemoryBackend], command: str
) -> None:
    """A route that an address will add is reported, with the two halves to write instead; the exit code stays the same."""
    path = written(WHOLE)
    said = say(command, "--config", path, kernel=kernel())
    assert said.code == (1 if command == "plan" else 0)
    [found] = say(command, "--config", path, "--json", kernel=kernel()).json["findings"]
    assert (found["name"], found["target"]) == ("route-will-not-last", CIDR)
    assert f"ROUTE-WILL-NOT-LAST: {found['sentence']}; {found['remedy']}" in said.lines
    assert all(half in found["remedy"] for half in HALVES)
    assert found["facts"]["addresses"] == [{"address": "172.16.1.10/16", "dev": "ib0"}]
    assert [route["destination"] for route in found["facts"]["instead"]] == HALVES


def test_another_gateway(written: Callable[..., str]) -> None:
    """A route of the original with another gateway is a conflict; the message has the command that deletes only it."""
    kernel = plain_vm()
    kernel.ip_route("add", Route.to("172.16.0.0/16", dev="eth0", gateway="10.0.0.9", protocol=3))
    remedy = f"; if an earlier script left it there, delete it with: {DELETION.replace('10.0.0.1', '10.0.0.9')}"
    path = written(WHOLE)
    assert remedy in say("plan", "--config", path, kernel=kernel).out
    assert say("plan", "--config", path, "--json", kernel=kernel).json["steps"][0]["reason"].endswith(remedy)
    host = FakeHost(kernel=kernel)
    assert remedy in say("apply", "--config", path, host=host).out
    assert remedy in say("status", host=host).out
    also = "; but then the kernel can add its own route to 172.16.0.0/16, because ib0 has the address 172.16.1.10/16"
    assert remedy + also in say("plan", "--config", path, kernel=overwritten("10.0.0.9")).out

"""The BPF programs at a device: real ones, loaded and attached in a private namespace."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

import pytest

from hostrouting.kernel import bpf as ingress
from hostrouting.kernel.bpf import Programs, programs_at
from hostrouting.kernel.netlink.channel import inside, open_namespace
from tests.support import bpf
from tests.support.namespace import Namespace, private_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostrouting.kernel.bpf import ProgramsAt

T = TypeVar("T")

pytestmark = [pytest.mark.linux, pytest.mark.needs("root")]


class Node:
    """A namespace with a few devices that programs can be attached to."""

    def __init__(self, namespace: Namespace, stack: ExitStack) -> None:
        """Record what must be closed at the end."""
        self.namespace = namespace
        self._held = stack.enter_context(open_namespace(namespace.path))
        self._stack = stack

    def inside(self, work: Callable[[], T]) -> T:
        """The result of this function, called in the namespace."""
        return inside(self._held, work)

    def see(self, dev: str = "eth0") -> Programs:
        """The programs at the device, with N in place of each program's number."""
        it = self.inside(lambda: programs_at(dev))
        return Programs(tuple(re.sub(r"program \d+", "program N", one) for one in it.found), it.unseen)

    def load(self, kind: int, name: str = "") -> int:
        """Load a program."""
        program = bpf.load(kind, name)
        self._stack.callback(os.close, program)
        return program

    def link(self, program: int, dev: str, place: int) -> None:
        """Attach a program until the end of the test."""
        made = self.inside(lambda: bpf.link(program, self.index(dev), place))
        self._stack.callback(os.close, made)

    def tc(self, *arguments: str) -> None:
        """Run `tc`."""
        done = self.namespace.run("tc", *arguments)
        assert done.returncode == 0, done.stderr

    def index(self, dev: str) -> int:
        """The number of a device."""
        return next(it.index for it in self.namespace.links() if it.name == dev)


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with an uplink, which is one end of a veth."""
    with private_namespace() as namespace, ExitStack() as stack:
        namespace.batch(["link add eth0 type veth peer name far"])
        try:
            os.close(bpf.load(bpf.SCHED_CLS))
        except OSError as error:
            pytest.skip(f"this kernel loads no BPF program: {error.strerror}")
        yield Node(namespace, stack)


def test_nothing_there(node: Node) -> None:
    """Without attached programs nothing is found, and nothing is reported as unchecked; other devices do not count."""
    node.link(node.load(bpf.XDP_PROGRAM), "far", bpf.XDP)
    assert node.see() == Programs()


def test_xdp(node: Node) -> None:
    """An XDP program is reported with its number and its name."""
    node.link(node.load(bpf.XDP_PROGRAM, "xdp_first"), "eth0", bpf.XDP)
    assert node.see() == Programs(("XDP program N (xdp_first)",))


def test_tcx(node: Node) -> None:
    """The tcx programs are reported in order; a program without a name by its number alone."""
    for name in ("cil_from_netdev", ""):
        node.link(node.load(bpf.SCHED_CLS, name), "eth0", bpf.TCX_INGRESS)
    assert node.see() == Programs(("tcx program N (cil_from_netdev)", "tcx program N"))


@pytest.mark.parametrize("qdisc", ["clsact", "ingress"])
def test_tc_filters(node: Node, qdisc: str) -> None:
    """A tc filter is reported by its own name, or by its program, with either ingress qdisc."""
    node.tc("qdisc", "add", "dev", "eth0", qdisc)
    program, index = node.load(bpf.SCHED_CLS, "program_name"), node.index("eth0")
    for name in ('cil_from\x1b"netdev', ""):
        node.inside(lambda name=name: bpf.add_filter(index, program, name))  # type: ignore[misc]  # bound at once
    assert node.see() == Programs(
        ("tc filter of BPF program N (program_name)", r'tc filter "cil_from\u001b\"netdev" (bpf)')
    )


def test_classic_and_other_filters(node: Node) -> None:
    """A classic BPF filter is found; other kinds of filter are reported as unknown; a filter at egress does not count."""
    node.tc("qdisc", "add", "dev", "eth0", "clsact")
    u32 = ("u32", "match", "u32", "0", "0")
    node.tc("filter", "add", "dev", "eth0", "egress", "bpf", "bytecode", "1,6 0 0 1,")
    assert node.see() == Programs()
    node.tc("filter", "add", "dev", "eth0", "ingress", "bpf", "bytecode", "1,6 0 0 1,")
    node.tc("filter", "add", "dev", "eth0", "ingress", *u32)
    assert node.see() == Programs(("tc filter (bpf)",), ('what the tc filters of kind "u32" do',))


def test_programs_of_devices_below(node: Node) -> None:
    """A packet that arrives on a macvlan or a bridge arrived on the device below first, and passed its programs."""
    node.namespace.batch(
        [
            "link add br0 type bridge",
            "link set eth0 master br0",
            "link add link br0 name up7 type macvlan",
        ]
    )
    node.link(node.load(bpf.XDP_PROGRAM, "below"), "eth0", bpf.XDP)
    node.link(node.load(bpf.SCHED_CLS, "between"), "br0", bpf.TCX_INGRESS)
    assert node.see("up7") == Programs(("tcx program N (between) on br0", "XDP program N (below) on eth0"))
    assert node.see("br0").found == ("tcx program N (between)", "XDP program N (below) on eth0")
    assert node.see("eth0").found == ("XDP program N (below)",)


def test_a_device_below_in_another_namespace(node: Node) -> None:
    """A lower device in another namespace cannot be checked, and that is reported."""
    with private_namespace() as other:
        node.namespace.batch(["link add link eth0 name up7 type macvlan"])
        node.namespace.batch([f"link set up7 netns {other.path.split('/')[2]}"])
        with open_namespace(other.path) as held:
            found = inside(held, lambda: programs_at("up7"))
    assert found == Programs(
        unseen=("programs at the device below up7 (it is in another network namespace)",),
    )


def test_without_privilege(node: Node) -> None:
    """Without privilege XDP programs and filters are still found, and tcx is reported as unchecked."""
    node.tc("qdisc", "add", "dev", "eth0", "clsact")
    node.tc("filter", "add", "dev", "eth0", "ingress", "bpf", "bytecode", "1,6 0 0 1,")
    node.link(node.load(bpf.XDP_PROGRAM, "nameless"), "eth0", bpf.XDP)
    node.link(node.load(bpf.SCHED_CLS), "eth0", bpf.TCX_INGRESS)

    def look() -> Programs:
        bpf.drop_privileges()
        return programs_at("eth0")

    found = node.inside(look)
    assert re.fullmatch(r"XDP program \d+", found.found[0])
    assert found.found[1:] == ("tc filter (bpf)",)
    assert found.unseen == ("tcx programs (requires root)",)


def test_no_such_device(node: Node) -> None:
    """For a device that does not exist, everything is reported as unchecked."""
    assert node.see("eth9") == Programs(unseen=("every program at eth9 (there is no such device)",))


def test_an_unknown_machine(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine whose bpf(2) number is not known, tcx is reported as unchecked."""
    monkeypatch.setattr(ingress, "_SYSTEM_CALLS", {})
    assert node.see() == Programs(
        unseen=(f"tcx programs (the number of bpf(2) is not known for {os.uname().machine})",)
    )


def test_a_kernel_without_tcx(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel older than 6.6 has no tcx hook, so nothing is attached there."""
    monkeypatch.setattr(ingress, "_TCX_INGRESS", 9999)
    assert node.see() == Programs()


def test_the_double_is_a_function() -> None:
    """A replacement for the real function takes the device's name."""
    double: ProgramsAt = lambda dev: Programs((f"XDP program 1 ({dev})",))  # noqa: E731  it is the point of this test
    assert double("eth0").found == ("XDP program 1 (eth0)",)

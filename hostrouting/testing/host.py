"""FakeHost: a host in memory, for tests of tasks: a fake kernel, files in a dictionary, a manager
that records calls, and asks the gate before it starts a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING

import attrs

from hostrouting.host.host import Host, require_connects
from hostrouting.kernel.programs import NODE_PROGRAMS
from hostrouting.kernel.rights import Rights
from hostrouting.testing.faults import FaultyBackend
from hostrouting.testing.files import FakeFiles
from hostrouting.testing.gate import why_refused
from hostrouting.testing.interpreter import FakeInterpreter
from hostrouting.testing.kernel import FakeKernel
from hostrouting.testing.nftables import FakeNftables
from hostrouting.testing.systemd import FakeManager
from hostrouting.testing.topologies import plain_vm
from phases.arguments import must_be

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.kernel.base import RouteBackend


@attrs.frozen(kw_only=True)
class FakeHost(Host):
    """A host in memory. Tests set its parts before a run, and read them after it.

    For example::

        host = FakeHost(kernel=h200())
        phases.execute(CheckRouteOverlap(config, host=host))
        print(host.kernel)  # as `ip rule` and `ip route` print it
    """

    kernel: FakeKernel = attrs.field(factory=plain_vm)

    faults: FaultyBackend = attrs.field(
        default=attrs.Factory(lambda self: FaultyBackend(self.kernel), takes_self=True), repr=False
    )
    """The kernel as tasks see it, with the faults that a test sets: `host.faults.fail("change",
    errno.ENOBUFS)`.
    """
    backend: Callable[[], AbstractContextManager[RouteBackend]] | None = attrs.field(
        default=attrs.Factory(lambda self: lambda: nullcontext(self.faults), takes_self=True)
    )
    """To test a backend of yours, with faults below it: `faults=faults, backend=lambda:
    nullcontext(Mine(faults))`. If it does not ask `faults`, tasks do not see `kernel`.
    """
    files: FakeFiles = attrs.field(factory=FakeFiles, repr=False)
    manager: FakeManager | None = attrs.field(factory=FakeManager, repr=False)
    interpreter: FakeInterpreter = attrs.field(factory=FakeInterpreter)
    nftables: FakeNftables = attrs.field(factory=FakeNftables)
    missing: Collection[str] = ()
    rights: Callable[[], Rights] = Rights
    """Returns what the process may do. By default it is root and may do everything."""

    @classmethod
    def image(cls) -> Self:
        """An image in memory: files, and no kernel or service manager."""
        return cls(backend=None, manager=None)

    def has_program(self, name: str) -> bool:
        return name not in self.missing

    def __attrs_post_init__(self) -> None:
        must_be(FakeFiles, self.files, "files", "FakeFiles(texts={…})")
        must_be((FakeManager, NoneType), self.manager, "manager", "a FakeManager, or None")
        must_be(FakeInterpreter, self.interpreter, "interpreter", "a FakeInterpreter")
        must_be(Callable, self.rights, "rights", "a function: lambda: Rights(…)")
        must_be(FakeKernel, self.kernel, "kernel", "a FakeKernel, such as h200()")
        if not set(self.missing).issubset(NODE_PROGRAMS):
            raise ValueError(
                f"missing is {self.missing!r:.80}; it must be a collection of programs that "
                f"hostrouting needs: {', '.join(sorted(NODE_PROGRAMS))}"
            )
        must_be(FaultyBackend, self.faults, "faults", "a FaultyBackend around the kernel")
        if self.faults.inner is not self.kernel:
            raise ValueError("faults is around another kernel; give that one as kernel=, too")
        require_connects(self.backend)
        if self.manager is not None:
            self.manager.files = self.files
            self.manager.gate = partial(why_refused, self)
            self.manager.boot()

"""FakeHost: a host in memory, for tests of tasks. It has a fake kernel, files in dictionaries, and
a manager that records calls and asks the gate before it starts a unit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import attrs

from hostrouting.host.host import Host
from hostrouting.testing.faults import FaultyBackend
from hostrouting.testing.files import FakeFiles
from hostrouting.testing.gate import why_refused
from hostrouting.testing.interpreter import FakeInterpreter
from hostrouting.testing.nftables import FakeNftables
from hostrouting.testing.systemd import FakeManager
from hostrouting.testing.topologies import plain_vm

if TYPE_CHECKING:
    from typing_extensions import Self

    from hostrouting.kernel.base import RouteBackend
    from hostrouting.testing.kernel import FakeKernel


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
    """Opens the backend for a task. To test a backend of yours that wraps another one, give
    `faults=faults, backend=lambda: nullcontext(Mine(faults))`: then `kernel` is below it.
    """
    files: FakeFiles = attrs.field(factory=FakeFiles, repr=False)
    manager: FakeManager | None = attrs.field(factory=FakeManager, repr=False)
    interpreter: FakeInterpreter = attrs.field(factory=FakeInterpreter)
    nftables: FakeNftables = attrs.field(factory=FakeNftables)

    @classmethod
    def image(cls) -> Self:
        """An image in memory: files, and no kernel or service manager."""
        return cls(backend=None, manager=None)

    def __attrs_post_init__(self) -> None:
        # Connect the service manager with the files and the gate of this host.
        if self.manager is not None:  # None in an image, where no systemd runs
            self.manager.files = self.files
            self.manager.gate = partial(why_refused, self)  # asked before each start
            self.manager.boot()  # reads the units from these files

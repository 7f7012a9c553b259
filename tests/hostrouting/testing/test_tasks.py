"""The contract of a task holds for hostrouting's own; `tests/examples/test_rail_rules.py` breaks each of its promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hostrouting import CheckRouteOverlap, ConfigureStaticRoutes, HostRoutingConfig, HostTask, RewriteProbeSource
from hostrouting.tasks.cleanup.keep import KeepAzureVnetClean
from hostrouting.tasks.keeping import KeepForeign, KeepKernelRules
from hostrouting.testing import FakeHost, check_task, h200, plain_vm
from tests.support.azure_leftovers import azure_config, azure_kernel
from tests.support.tasks import REPAIR, config

if TYPE_CHECKING:
    from collections.abc import Callable

    from hostrouting.testing import MemoryBackend

REWRITE = HostRoutingConfig(probe_rewrite={"enabled": True, "interfaces": ["eth0"]})


@pytest.mark.parametrize(
    ("task", "wanted", "kernel"),
    [
        (ConfigureStaticRoutes, config(*REPAIR), h200),
        (KeepKernelRules, HostRoutingConfig(kernel_rules="keep"), h200),
        (KeepForeign, HostRoutingConfig(manage_foreign="keep"), h200),
        (KeepAzureVnetClean, azure_config(dry_run=True), azure_kernel),
        (CheckRouteOverlap, config(cidrs=("10.0.0.0/8",)), plain_vm),
        (RewriteProbeSource, REWRITE, plain_vm),
    ],
)
def test_our_own(task: type[HostTask[Any]], wanted: HostRoutingConfig, kernel: Callable[[], MemoryBackend]) -> None:
    """Each of these is planned as done, idempotent, undone, finished after a kill, for images, and guarded."""
    check_task(task, wanted, host=lambda: FakeHost(kernel=kernel()))

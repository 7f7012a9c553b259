"""RewriteProbeSource: load-balancer probes over IPv6 reach the pods; see `probe.table`."""

from __future__ import annotations

from hostrouting.install.install import STEPS
from hostrouting.tasks.task import InstallTask


class RewriteProbeSource(InstallTask):
    """Load the table that rewrites the source of probes, now, at every boot and before any gated
    unit starts.

    The table is stateless and loaded in one transaction; other tables are not touched. The route
    for the replies is one of the static routes, which this task also sets. A unit never waits for
    probes: if the table cannot be loaded at boot, this is logged as a warning.
    """

    name = STEPS["probe_rewrite"]
    section = "probe_rewrite"
    parts = ("static_routes", "probe_rewrite")

"""RewriteProbeSource: load-balancer probes over IPv6 reach the pods. `boot.probe_table` says how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import phases
from hostrouting.boot.probe_table import PROBE_DELETION, TABLE, probe_comment, render_probe_table
from hostrouting.check.examine import read
from hostrouting.errors import ConfigError, Fault, ProgramError
from hostrouting.finding import Finding
from hostrouting.host.effects import Effects, Operation
from hostrouting.tasks.install import SectionTask
from hostrouting.tasks.results import Plan

if TYPE_CHECKING:
    from hostrouting.model.snapshot import Snapshot

_TITLE = f"nftables table ip6 {TABLE}"


class RewriteProbeSource(SectionTask):
    """Load the table that rewrites the source of probes, now, at every boot and before any gated unit starts.

    Stateless and in one transaction; other tables are not touched. The route for the replies is one of the static
    routes. A unit never waits for probes: if the table cannot be loaded at boot, that is a warning.
    """

    name: ClassVar[str] = "rewrite-probe-source"
    section: ClassVar[str] = "probe_rewrite"
    nothing: ClassVar[str] = "the rewrite of probes is not enabled, and its table is not loaded"

    def planned(self) -> Plan:
        """See SectionTask."""
        if self.host.nftables is None or self.host.backend is None:
            return Plan()
        if not self.config.probe_rewrite.enabled and self.host.find_program("nft") is None:
            return Plan()  # without nft, nobody has loaded the table
        operations = tuple(self._operations(self.host.nftables().listing(TABLE)))
        if not self.config.probe_rewrite.enabled:
            return Plan(operations=operations)
        with self.host.backend() as backend:
            return Plan(operations=operations, findings=tuple(self._findings(read(backend)[0])))

    def carry_out(self, ctx: phases.Context) -> Effects | phases.Skip:
        """See SectionTask."""
        if self.host.nftables is None:
            return Effects()
        plan = self.planned()
        if plan.errors:
            raise ConfigError(Fault(finding.target, "", finding.sentence, finding.remedy) for finding in plan.errors)
        for finding in plan.findings:
            ctx.log.log(finding.level, "%s", finding)
        if not plan.operations:
            return Effects() if self.config.probe_rewrite.enabled else phases.Skip(self.nothing)
        is_wanted = self.config.probe_rewrite.enabled
        nftables = self.host.nftables()
        with self.host.locked(ctx):
            nftables.load(render_probe_table(self.config.probe_rewrite) if is_wanted else PROBE_DELETION)
            if any(self._operations(nftables.listing(TABLE))):
                raise ProgramError(
                    f"{_TITLE} is not as it was loaded: another program changes it", program="nft", kind="not-in-force"
                )
        return Effects(operations=plan.operations)

    def _operations(self, listing: str | None) -> Iterator[Operation]:
        """What has to be done, if the table is listed like this (None: not at all)."""
        config = self.config.probe_rewrite
        if not config.enabled:
            if listing is not None:
                yield Operation("delete", _TITLE, "it is no longer wanted")
        elif listing is None:
            yield Operation("create", _TITLE, "it is missing")
        elif f'"{probe_comment(config)}"' not in listing or "flags dormant" in listing:
            yield Operation("replace", _TITLE, "it was loaded by another configuration, or is dormant")

    def _findings(self, snapshot: Snapshot) -> Iterator[Finding]:
        config = self.config.probe_rewrite
        for address in snapshot.addresses:
            if address.ip == config.global_address:
                sentence = (
                    f"{address.ip} is an address of this host, on {address.dev}: replies to probes would not leave it"
                )
                path = self.config.path("probeRewrite", "globalAddress")
                yield Finding("probe-rewrite", "error", sentence, path, "write an address that no host has")
        for dev in config.interfaces:
            link = snapshot.link(dev)
            if link is not None and link.master is not None:
                sentence = (
                    f"{dev} is a port of {link.master}, so its packets arrive on {link.master} and no rule matches them"
                )
                remedy = f"name {link.master} in probeRewrite.interfaces"
                yield Finding("probe-rewrite", "warning", sentence, dev, remedy)
        if snapshot.ipv6_forwarding is False:
            sentence = "net.ipv6.conf.all.forwarding is 0, so no probe is forwarded to a pod"
            remedy = "set it to 1, and accept_ra of the uplink to 2"
            yield Finding("probe-rewrite", "warning", sentence, "net.ipv6.conf.all.forwarding", remedy)

"""The check that a command makes: its configuration, what was found, the host after the repair, and the page of lines.

Here: making the check, and what its two families have in common. Not here: the lines about one family (`family_view`),
and what to do about the findings (`remedy`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from hostrouting.cli.family_view import FamilyView
from hostrouting.cli.page import Painted, line, spoken
from hostrouting.cli.source import (
    expected_of,
    gateway_of,
    installed_config,
    known_devices,
    looked_at,
    quiet_context,
    start_command,
)
from hostrouting.examination import Examination, examine, examine_snapshot
from hostrouting.repaired import repair_routes, with_repair
from hostrouting.sought_marks import marks_of
from hostrouting.wording import candidates_line, check_document

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from hostrouting.cli.page import Line, Style
    from hostrouting.config import HostRoutingConfig, RouteOverlapConfig
    from hostrouting.fib import Fib
    from hostrouting.host import Host
    from hostrouting.model import IP, Route, Snapshot
    from hostrouting.sought_marks import Marks

__all__ = ["LIMITS", "Check", "check_name", "lasting_line", "make_check"]

LIMITS = "Only routing tables and rules are checked, as they are now; not firewalls, IPsec or eBPF programs."

_OPEN = {"undecided", "no-default-route"}


class Check:
    """The configuration, the findings and the tables of a check; everything else is computed when it is needed."""

    def __init__(
        self,
        found: Examination,
        config: HostRoutingConfig,
        installed: HostRoutingConfig | None = None,
        *,
        start: str = "",
        gateway: IP | None = None,
    ) -> None:
        """Keep all of them.

        `installed` is the configuration in the boot files, `start` the command that installs its routes now, and
        `gateway` the router that was given for the repair.
        """
        self.gateway = gateway
        self.found, self.fib, self.config, self.installed, self.start = found, found.fib, config, installed, start

    def document(self) -> dict[str, Any]:
        """The check as the JSON value `hostrouting/check/1`, or `/2` with IPv6 CIDRs."""
        remarks = filter(None, map(candidates_line, self.found.families))
        return check_document(self.found, mode=self.config.route_overlap.mode, remarks=remarks)

    @classmethod
    def of(cls, snapshot: Snapshot, config: HostRoutingConfig, *, gateway: IP | None = None) -> Self:
        """Check a snapshot, without asking a kernel."""
        return cls(examine_snapshot(snapshot, config, gateway=gateway), config, gateway=gateway)

    @property
    def repair_routes(self) -> tuple[Route, ...]:
        """The routes of the repair, with device and gateway filled in."""
        return repair_routes(self.found, protocol=self.config.protocol)

    @cached_property
    def repaired(self) -> Fib | None:
        """The host with the repair applied; None if there is no repair."""
        return with_repair(self.found, protocol=self.config.protocol)

    def answer_lines(self) -> Iterator[Line]:
        """The verdict on each family, in one sentence."""
        return (it.answer_line() for it in self._views)

    @property
    def is_open(self) -> bool:
        """Whether the verdict on a family could become worse: there is no default route, or it is undecided."""
        return any(it.verdict in _OPEN for it in self.found.families)

    def open_lines(self) -> Iterator[Line]:
        """The verdicts that could become worse, each in one sentence."""
        return (it.answer_line() for it in self._views if it.found.verdict in _OPEN)

    def evidence_lines(self, style: Style, *, now: str = "now") -> Iterator[Line]:
        """The findings as tables, and the CIDRs as maps."""
        for it in self._views:
            yield from it.evidence_lines(style, now=now)

    def limit_lines(self, *, advice: str) -> Iterator[Line]:
        """The lines that say which packets the verdict holds for; without a default route also `advice`."""
        for it in self._views:
            yield from it.limit_lines(advice=advice)
        verdicts = {it.verdict for it in self.found.families}
        if "no-default-route" in verdicts and len(verdicts) > 1:
            yield line("A named device is expected in both families, so also name the device of the other family.")
        if any(it.verdict != "no-default-route" for it in self.found.families):
            yield line(Painted(LIMITS, "soft"))

    def marks(self, host: Callable[[], Host] | None) -> Marks:
        """Who sets the marks that the answer depends on; a snapshot has no host to look at."""
        return marks_of(self.found, host)

    @cached_property
    def _views(self) -> tuple[FamilyView, ...]:
        return tuple(FamilyView(it, self.repaired) for it in self.found.families)


def make_check(arguments: argparse.Namespace, host: Callable[[], Host]) -> Check:
    """Make the check that the arguments ask for."""
    here = arguments.config is None and arguments.snapshot is None
    installed = installed_config(host()) if here else None
    start = "" if installed is None else start_command(host())
    config = expected_of(arguments, installed)
    gateway, wait = gateway_of(arguments, config), 0.0 if arguments.snapshot else arguments.wait
    with looked_at(arguments, host) as backend:
        found = examine(quiet_context(), backend, config, wait=wait, gateway=gateway)
        known_devices(arguments, found.fib.snapshot)
        return Check(found, config, installed, start=start, gateway=gateway)


def lasting_line(where: str = "the host") -> Line:
    """Where to find what no check of the routes can say."""
    told = f"To see what is installed on {where}, and whether it survives a reboot: hostrouting status"
    return line(Painted(told, "soft"))


def check_name(check: RouteOverlapConfig) -> str:
    """A phrase that names a check: its CIDRs, devices and mode."""
    devs = f" by {spoken(check.expected_devs, last='or')}" if check.expected_devs else ""
    return f"{spoken(tuple(map(str, check.expected_cidrs)))}{devs} in {check.mode}"

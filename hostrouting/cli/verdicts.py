"""The verdict on a host as it is now, and the one that its last check left: facts, and whether the two agree.

Here: by which check a host is judged, and what is left of the last one. Not here: how it is judged
(`hostrouting.kernel`), and sentences (`status`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.cli.examined import Examined
from hostrouting.cli.source import quiet_context
from hostrouting.errors import FileError
from hostrouting.kernel import examine
from hostrouting.plan import plan_routes
from hostrouting.tasks import wanted_routes

if TYPE_CHECKING:
    from hostrouting.backends.base import RouteBackend
    from hostrouting.config import HostRoutingConfig, RouteOverlapConfig
    from hostrouting.host import Host
    from hostrouting.model import Snapshot

__all__ = ["LastCheck", "Now", "find_last_check", "judge"]

_VERDICTS = {"ok", "overlap", "undecided", "no-default-route"}


@attrs.frozen(kw_only=True)
class Now:
    """The verdict on a host as it is now."""

    checked: Examined
    named: bool
    """Whether it was judged by the configuration that was named; else by what is installed."""
    installed: RouteOverlapConfig | None
    """The check that is installed, if there is one."""
    gated: bool
    """Whether machines wait for that one."""
    heals: bool
    """Whether the installed routes, which come before the check when a machine starts, close what escapes now."""

    @property
    def verdict(self) -> str:
        """As `check` has it."""
        return self.checked.found.verdict

    @property
    def is_installed(self) -> bool:
        """Whether it was judged as the installed check judges."""
        return self.checked.config.route_overlap == self.installed

    @property
    def in_force(self) -> bool:
        """Whether machines wait for this verdict."""
        return self.gated and self.is_installed


@attrs.frozen
class LastCheck:
    """What the last check said: its verdict, its findings as in the JSON of a check, and when it was."""

    verdict: str
    findings: tuple[dict[str, Any], ...]
    at: str

    def is_out_of_date(self, now: Now | None) -> bool | None:
        """Whether the answer is another one now; None where nothing can be compared with it."""
        if now is None or not now.is_installed:
            return None
        return (self.verdict, list(self.findings)) != (now.verdict, now.checked.document()["findings"])


def judge(
    backend: RouteBackend, config: HostRoutingConfig, installed: HostRoutingConfig | None, *, gated: bool
) -> Now | None:
    """Check the host by the configuration that was named, or by what is installed where that expects nothing.

    None where neither expects anything. `gated` is whether machines wait for the installed check.
    """
    settings = None if installed is None else installed.route_overlap
    named = bool(config.route_overlap.expected_cidrs)
    by = config if named else installed
    if by is None or not by.route_overlap.expected_cidrs:
        return None
    found = examine(quiet_context(), backend, by, wait=0.0)
    return Now(
        checked=Examined(found, by),
        named=named,
        installed=settings if settings is not None and settings.expected_cidrs else None,
        gated=gated,
        heals=installed is not None and found.verdict == "overlap" and _heals(found.fib.snapshot, installed, by),
    )


def _heals(snapshot: Snapshot, installed: HostRoutingConfig, by: HostRoutingConfig) -> bool:
    plan = plan_routes(wanted_routes(installed), snapshot, protocol=installed.protocol)
    if not plan.changes or plan.conflicts or plan.pending:
        return False
    return Examined.of(plan.apply_to(snapshot), by).found.verdict != "overlap"


def find_last_check(host: Host) -> LastCheck | None:
    """What the last check left; None where there was none. FileError for what is no report of a check."""
    path = host.layout.report_path
    if (text := host.files.read(path)) is None:
        return None
    if host.files.is_frozen(path):
        reason = "is on a read-only file system, and may be of an earlier check; remount that writable"
        raise FileError(f"{path} {reason}", path=path)
    document = _parsed(text)
    verdict, findings = document.get("verdict"), document.get("findings", [])
    if not isinstance(verdict, str) or verdict not in _VERDICTS or not isinstance(findings, list):
        raise FileError(f"{path} is no report of a check; write it anew with: hostrouting apply", path=path)
    return LastCheck(verdict, tuple(findings), _when(host.files.modified(path)))


def _parsed(text: str) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        if isinstance(document, dict):
            return document
    return {}


def _when(seconds: float | None) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415  only where there was a check

    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""`status`: what of ours is on this host, whether it is in force, and what the last check said. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.cli.changes import counted
from hostrouting.cli.page import SHOWN, Line, Painted, Tone, capped, line, table
from hostrouting.cli.reply import Reply
from hostrouting.cli.source import config_of
from hostrouting.cli.standing import Standing, find_standing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hostrouting.host import Host
    from hostrouting.system import UnitState

__all__ = ["SCHEMA", "run"]

SCHEMA = "hostrouting/status/1"
_TONES: dict[str, Tone] = {"ok": "good", "overlap": "bad"}


def run(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    """See the module."""
    it = find_standing(host(), config_of(arguments), named=arguments.config is not None)
    return Reply(it.code, lambda: _document(it), lambda _style: _page(it, arguments.config))


def _page(it: Standing, config: str | None) -> Iterator[Line]:
    yield _answer(it, config)
    yield line()
    rows: list[tuple[str, str | Painted]] = []
    if it.default is not None or not it.troubles:
        rows.append(("default route", Painted("there is none", "bad") if it.default is None else str(it.default)))
    rows.append(("last check", _told(it)))
    rows += [(unit, _state(state)) for unit, state in it.units]
    if not it.manager:
        rows.append(("systemd", Painted("does not run here: what is installed takes effect at the next boot", "soft")))
    width = max(len(name) for name, _ in rows)
    for name, fact in rows:
        yield line("  ", Painted(f"{name:<{width}}  ", "soft"), fact)
    if it.unfinished:
        yield line()
        yield line("Unfinished:")
        yield from (line("  ", Painted(text, "bad")) for text in it.unfinished)
    if it.missing:
        yield line()
        yield from capped(table(("missing",), [(text,) for text in it.missing[:SHOWN]]), len(it.missing))
    if it.contested:
        yield line()
        yield line("Cannot be had:")
        told = (line("  ", Painted(f"{step.route.prefix}: {step.reason}", "bad")) for step in it.contested[:SHOWN])
        yield from capped(told, len(it.contested))
    if it.routes:
        yield line()
        yield from capped(table(("routes of ours",), [(str(route),) for route in it.routes[:SHOWN]]), len(it.routes))
    if it.files:
        yield line()
        yield from capped(table(("files of ours",), [(path,) for path in it.files[:SHOWN]]), len(it.files))
    if it.troubles:
        yield line()
        yield line("Not everything could be found out:")
        yield from (line("  ", Painted(trouble, "warn")) for trouble in it.troubles)


def _answer(it: Standing, config: str | None) -> Line:
    return _wrong(it, config) or _doubt(it, config) or _well(it)


def _wrong(it: Standing, config: str | None) -> Line | None:
    """What of ours is not as it should be."""
    if it.unfinished:
        end = f"hostrouting apply{f' --config {config}' if config else ' or remove'}"
        told = (
            "failed or was cut short, and no machine starts" if it.shut else "failed, was cut short, or goes on still"
        )
        return line(Painted("UNFINISHED:", "bad"), f" a run {told}; carry it to its end, as root, with: {end}")
    failed = [unit for unit, state in it.units if not state.ok]
    if failed:
        return line(Painted("FAILED:", "bad"), f" {' and '.join(failed)}; see journalctl -u {failed[0]}")
    if it.contested:
        count = f" {len(it.contested):,} of {counted(it.wanted, 'route')}"
        return line(Painted("CONFLICT:", "bad"), f"{count} cannot be had, for somebody else has a route there")
    if it.missing:
        count = f" {len(it.missing):,} of {counted(it.wanted, 'route')}"
        start = f"start them, as root: {it.start}"
        return line(
            Painted("MISSING:", "bad"), f"{count}; {f'see: hostrouting plan --config {config}' if config else start}"
        )
    return None


def _doubt(it: Standing, config: str | None) -> Line | None:
    """What the last check found, and what is not known."""
    check = f"hostrouting check --config {config}" if config else "hostrouting check"
    if it.verdict == "overlap":
        return line(Painted("OVERLAP:", "bad"), f" the last check found one; see: {check}")
    if it.verdict == "no-default-route":
        return line(Painted("NO-DEFAULT-ROUTE:", "warn"), " the last check found none; see: ip route show default")
    if it.verdict == "undecided":
        return line(Painted("UNDECIDED:", "warn"), f" the last check could not answer for all packets; see: {check}")
    if it.troubles:
        return line(Painted("UNKNOWN:", "warn"), " not everything could be found out")
    return None


def _well(it: Standing) -> Line:
    ours = [counted(len(it.routes), "route")] if it.routes else []
    ours += [counted(len(it.files), "file")] if it.files else []
    here = f"{' and '.join(ours)} of ours {'are' if len(it.routes) + len(it.files) > 1 else 'is'} here"
    if not it.installed:
        return line(Painted("NOTHING:", "soft"), " nothing of ours is on this host")
    if it.fleeting:
        told = "is here, and nothing brings it" if len(it.routes) == 1 else "are here, and nothing brings them"
        routes = f"{counted(len(it.routes), 'route')} of ours {told} back; hostrouting apply does"
        return line(Painted("UNTIL THE NEXT BOOT:", "warn"), f" {routes}")
    passed = ", and the last check passed" if it.verdict == "ok" else ""
    unknown = "; no check is on record since this host booted" if it.checking and not it.verdict else ""
    return line(Painted("INSTALLED:", "good"), f" {here}{passed}{unknown}")


def _told(it: Standing) -> Painted:
    if not it.verdict:
        return Painted("none on record since this host booted", "soft")
    count = f" ({counted(it.findings, 'finding')})" if it.findings else ""
    return Painted(
        f"{it.verdict}{count}{f', {it.checked_at}' if it.checked_at else ''}", _TONES.get(it.verdict, "warn")
    )


def _state(state: UnitState) -> Painted:
    if state.ok:
        return Painted(f"{state.active}, its last run ended well" if state.invocation else state.active, "good")
    return Painted(f"{state.active}, its last run ended with {state.result} (exit status {state.status})", "bad")


def _document(it: Standing) -> dict[str, Any]:
    """The status as the JSON value `hostrouting/status/1`."""
    return {
        "schema": SCHEMA,
        "installed": it.installed,
        "routes": [str(route) for route in it.routes],
        "missing": list(it.missing),
        "contested": [str(step.route) for step in it.contested],
        "unfinished": list(it.unfinished),
        "defaultRoute": None if it.default is None else str(it.default),
        "files": list(it.files),
        "units": [
            {"unit": unit, "load": x.load, "active": x.active, "result": x.result, "status": x.status}
            for unit, x in it.units
        ],
        "manager": it.manager,
        "lastCheck": {"verdict": it.verdict, "findings": it.findings, "at": it.checked_at} if it.verdict else None,
        "troubles": list(it.troubles),
    }

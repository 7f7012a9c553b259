"""What node-problem-detector is told: an exit code and one line, from what the guard and the last check have written.

Here: the decision, for each of the questions that a rule of node-problem-detector can ask. Not here: reading the files
(`cli.commands.npd`), and the same decision in a shell (`boot/assets/npd.sh`); a property test compares the two.

node-problem-detector (NPD) takes exit code 0 as fine, 1 as a problem and any other as unknown. Of the line it keeps 80
bytes by default, and cuts in the middle of a character. So a line is ASCII and begins with what it means; a remedy
comes last. NPD updates a condition when its text changes, if it is configured to: so a problem has the same line as
long as it lasts, with the moment when it began and not its age.

A guard looks at the host at least once a minute. After three minutes without a look, its answer is unknown: it has
ended, or it hangs. It also writes when a look has failed. Then the verdict is that of an earlier look, and unknown.
Without a guard, an answer is that of the last check: at a start of a machine, or of the bootstrap. Nothing has looked
since, so after a day it is unknown. A time in the future says that the clock was set back, and that nobody knows how
old the answer is.

If nothing is checked, that is unknown too: the default condition says that the addresses were found to be fine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.check.report import CHECK_SCHEMA, CHECK_SCHEMA_BY_FAMILY, GUARD_SCHEMA, document_in, marked_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FRESH", "MAX_AGE", "QUESTIONS", "PluginResult", "Written", "decide"]

FRESH = 180
"""The seconds for which a look of the guard is new: it looks three times in them."""
MAX_AGE = 86_400
"""The seconds for which the last check is new if no guard runs."""

_FINE, _PROBLEM, _UNKNOWN = 0, 1, 3
_STATUS = {_FINE: "ok", _PROBLEM: "problem", _UNKNOWN: "unknown"}

_FATES = {
    "overlap": "leave by {dev}",
    "no-route": "have no route",
    "unreachable": "are unreachable",
    "blackhole": "are dropped by a blackhole",
    "prohibit": "are refused",
}
"""For each kind of a finding: what happens to the addresses."""


@attrs.frozen(kw_only=True)
class Written:
    """What is in the state directory of the host."""

    directory: str
    """Where it is, as the reader sees it."""
    is_there: bool = True
    """Whether there is such a directory."""
    guard: str | None = None
    """The text of guard.json; None if there is none, and empty if it cannot be read."""
    report: str | None = None
    """The text of route-overlap.json, likewise."""
    marker: str | None = None
    """The text of route-overlap.detected or route-overlap.ok. The check at boot writes no more than that."""
    reported: int = 0
    """When the report, or without one the marker, was written, in seconds since 1970."""


@attrs.frozen
class PluginResult:
    """An exit code and a line."""

    code: int
    line: str

    @property
    def status(self) -> str:
        """What the code means: ok, problem or unknown."""
        return _STATUS[self.code]


def decide(question: str, written: Written, *, now: int, max_age: int = MAX_AGE) -> PluginResult:
    """The answer to one of QUESTIONS. `now` is in seconds since 1970; `max_age` is for a check without a guard."""
    if not written.is_there:
        told = f"there is no directory {written.directory}"
        return _unknown(f"{told}: nothing was checked on this host, or its directory is not mounted here")
    by_guard, by_check = QUESTIONS[question]
    if written.guard is None:
        return by_check(written, now, max_age)
    guard = document_in(written.guard, GUARD_SCHEMA)
    looked = str(guard.get("lastLook"))
    at = _seconds(looked)
    if at is None:
        return _unknown("guard.json cannot be read; on the host, run: hostrouting status")
    if now - at > FRESH:
        told = f"the guard has not looked since {looked}"
        return _unknown(f"{told}; on the host, run: systemctl status hostrouting-guard")
    if at - now > FRESH:
        told = f"the clock was set back: the guard last looked at {looked}"
        return _unknown(f"{told}; on the host, run: systemctl restart hostrouting-guard")
    return by_guard(guard, written, looked)


def _verdict_of_guard(guard: Mapping[str, Any], written: Written, looked: str) -> PluginResult:
    if any(f"; {name}: " in f"; {guard.get('failure') or ''}" for name in ("guard", "check-route-overlap")):
        return _unknown("the guard cannot check the routing; on the host, run: journalctl -u hostrouting-guard")
    verdict = guard.get("verdict")
    if verdict is None:
        told = "nothing is checked, because no expected CIDRs are configured"
        return _unknown(f"{told}; on the host, add routeOverlap.expectedCidrs and run: hostrouting apply --config FILE")
    if verdict not in _VERDICTS:
        return _unknown(
            "guard.json has a verdict that this plugin does not know; install the plugin of the same version"
        )
    report = document_in(written.report, CHECK_SCHEMA, CHECK_SCHEMA_BY_FAMILY)
    # The guard writes the report before guard.json. If they differ, the next answer will have the details.
    when = f"last look: {looked}" if verdict == "ok" else f"since {guard.get('verdictSince')}"
    return _VERDICTS[verdict](report if report.get("verdict") == verdict else {}, when)


def _verdict_of_check(written: Written, now: int, max_age: int) -> PluginResult:
    if written.report is None and written.marker is None:
        told = "there is no result of a check since this host booted"
        return _unknown(f"{told}; on the host, run: hostrouting status")
    report = document_in(written.report, CHECK_SCHEMA, CHECK_SCHEMA_BY_FAMILY)
    verdict = marked_verdict(written.marker or "") if written.report is None else report.get("verdict")
    if verdict not in _VERDICTS:
        return _unknown("route-overlap.json cannot be read; on the host, run: hostrouting status")
    checked = _moment(written.reported)
    if now - written.reported > max_age:
        told = f"no guard runs, and the last check was at {checked}"
        return _unknown(f"{told}; enable the guard, or on the host, run: systemctl start check-route-overlap")
    if written.reported - now > FRESH:
        told = f"the clock was set back: the last check was at {checked}"
        return _unknown(f"{told}; on the host, run: systemctl start check-route-overlap")
    return _VERDICTS[verdict](report, f"checked at {checked}")


def _ok(_report: Mapping[str, Any], when: str) -> PluginResult:
    return PluginResult(_FINE, f"OK: every expected CIDR leaves by an expected device; {when}")


def _overlap(report: Mapping[str, Any], when: str) -> PluginResult:
    return PluginResult(_PROBLEM, f"{_first_finding(report)}; {when}; on the host, run: hostrouting repair")


def _no_default_route(_report: Mapping[str, Any], when: str) -> PluginResult:
    told = "NO-DEFAULT-ROUTE: there is no default route"
    return PluginResult(_PROBLEM, f"{told}; {when}; on the host, run: hostrouting check")


def _undecided(_report: Mapping[str, Any], when: str) -> PluginResult:
    return _unknown(f"the verdict is undecided; {when}; on the host, run: hostrouting check")


_VERDICTS: dict[Any, Callable[[Mapping[str, Any], str], PluginResult]] = {
    "ok": _ok,
    "overlap": _overlap,
    "no-default-route": _no_default_route,
    "undecided": _undecided,
}


def _first_finding(report: Mapping[str, Any]) -> str:
    """The first finding, of the host's own packets or of those that pods send."""
    for found in (report, *report.get("pods", ())):
        for finding in found.get("findings", ()):
            dev = finding["via"]["dev"]
            fate = _FATES[finding["kind"]].format(dev=dev if dev and _is_plain(dev) else "another device")
            return f"{finding['kind'].upper()}: addresses of {finding['cidr']} {fate}"
    return "OVERLAP: addresses of an expected CIDR do not leave by an expected device"


def _repairs_of_guard(guard: Mapping[str, Any], _written: Written, looked: str) -> PluginResult:
    failure, fights = guard.get("failure"), guard.get("fights", ())
    if failure:
        told = failure if _is_plain(failure) else "the guard cannot look or repair"
        return PluginResult(_PROBLEM, f"FAILED: {told}; on the host, run: journalctl -u hostrouting-guard")
    if fights:
        key = fights[0]["key"] if _is_plain(fights[0]["key"]) else "something"
        return PluginResult(_PROBLEM, f"UNDONE: {key} does not stay repaired; on the host, run: hostrouting status")
    for text in guard.get("problems", ()):
        if not _is_about_the_verdict(text):
            told = text if _is_plain(text) else "the guard cannot repair something"
            return PluginResult(_PROBLEM, f"NOT REPAIRED: {told}; on the host, run: journalctl -u hostrouting-guard")
    return PluginResult(_FINE, f"OK: nothing is left to repair; last look: {looked}")


def _repairs_without_guard(_written: Written, _now: int, _max_age: int) -> PluginResult:
    # A rule for an event reports whatever is not 0, again and again.
    return PluginResult(_FINE, "OK: no guard runs on this host, so nothing is repaired")


def _is_about_the_verdict(problem: str) -> bool:
    """Whether it is a finding, such as `OVERLAP: ...`, or the line that counts the findings after the first ones."""
    word, colon, _ = problem.partition(": ")
    return bool(colon and word and not word.strip("ABCDEFGHIJKLMNOPQRSTUVWXYZ-")) or problem.startswith("and ")


def _is_plain(text: str) -> bool:
    """Whether the text is printable ASCII and the same in JSON."""
    return all(" " <= char <= "~" and char not in '"\\' for char in text)


def _unknown(told: str) -> PluginResult:
    return PluginResult(_UNKNOWN, f"UNKNOWN: {told}")


def _seconds(moment: str) -> int | None:
    """The seconds since 1970 of a moment in UTC as the guard writes it; None for any other text."""
    from datetime import datetime  # noqa: PLC0415  a check without a guard does not need it

    if not moment.endswith("Z"):
        return None
    try:
        return int(datetime.fromisoformat(f"{moment[:-1]}+00:00").timestamp())
    except ValueError:
        return None


def _moment(seconds: int) -> str:
    from datetime import datetime, timezone  # noqa: PLC0415  as above

    from phases.text import moment_as_text  # noqa: PLC0415  as above

    return moment_as_text(datetime.fromtimestamp(seconds, timezone.utc))


QUESTIONS: dict[
    str, tuple[Callable[[Mapping[str, Any], Written, str], PluginResult], Callable[[Written, int, int], PluginResult]]
] = {
    "verdict": (_verdict_of_guard, _verdict_of_check),
    "repairs": (_repairs_of_guard, _repairs_without_guard),
}
"""For each question: who answers it if there is a guard, and if there is none."""

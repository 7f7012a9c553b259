"""What programs printed on a node, as outcomes and facts for a tool that manages many nodes.

Here: the meaning of what was printed. Not here: running a program on a node, and any conclusion about routing that the
documents do not contain, except for the check of a snapshot.

Such a tool asks four questions after each run: was anything changed, did it fail, what is the message, and what is
different (a text before and a text after). The documents of the commands have the answers:

    preflight, plan what a run would do, and what would make it fail: for a dry run (in Ansible, check mode)
    plan, apply     a run, with its difference; only the plan knows which of the written files existed before
    apply           a run, without its difference
    remove          a removal; with --dry-run, what it would do

A dry run fails if the run would fail on the node as it is now: because of a conflict, because addresses escape in mode
STRICT, because something is missing that `apply` would wait for, or because of an error that `preflight` has found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from hostrouting.finding import ESCAPES

Document: TypeAlias = "Mapping[str, Any]"

_NAMED = 3  # the number of findings in a message; the document has all of them

_LINES = 20  # at the end of standard error: a traceback ends with the error


@attrs.frozen
class Ran:
    """A program that has ended on a node: its exit code (or minus the signal), and the text of both outputs."""

    code: int
    output: str = ""
    errors: str = ""

    @property
    def ending(self) -> str:
        """How the program ended, and the last lines of its standard error."""
        how = f"was ended by signal {-self.code}" if self.code < 0 else f"ended with exit code {self.code}"
        lines = self.errors.strip().splitlines()[-_LINES:]
        return f"{how}; its message: {chr(10).join(lines)}" if lines else f"{how}, without a message"


@attrs.frozen
class Outcome:
    """What a run did on a node, or would do."""

    message: str
    changed: bool = False
    failed: bool = False
    verdict: str | None = None
    """The verdict of the check afterwards; None if nothing is checked, or the verdict is not known yet."""
    steps: tuple[Document, ...] = ()
    """The steps for the routes, as in the documents."""
    findings: tuple[Document, ...] = ()
    """What the check finds afterwards, as in its document."""
    repair: tuple[Document, ...] = ()
    """The routes that the configuration lacks, as in `staticRoutes.routes`."""
    warnings: tuple[str, ...] = ()
    """What an operator has to know although the run does not fail; each a sentence."""
    before: str = ""
    """The routes and files that the run changes or keeps, one on each line, as they were."""
    after: str = ""
    """The same lines as they are after the run."""
    documents: Mapping[str, Document] = attrs.field(factory=dict)
    """The document of each command that was run."""


def outcome_of(ran: Mapping[str, Ran]) -> Outcome:
    """The outcome of these commands on a node, by name and in the order in which they were run."""
    documents: dict[str, Document] = {}
    for command, one in ran.items():
        document = _parsed(one.output)
        if fault := _fault(command, one, document):
            return Outcome(fault, failed=True, documents=documents)
        documents[command] = document
    if "remove" in documents:
        found = _removal(documents["remove"])
    elif "apply" in documents:
        found = _run(documents["apply"], documents.get("plan"))
    else:
        found = _dry_run(documents["plan"], documents.get("preflight", {}).get("findings", ()))
    return attrs.evolve(found, documents=documents)


def _parsed(text: str) -> Document:
    """The JSON object in the text; empty if it has none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _fault(command: str, ran: Ran, document: Document) -> str:
    """Why the command has no answer; empty if it has one."""
    schema, expected = document.get("schema"), f"hostrouting/{command}/2"
    if schema == expected:
        return ""
    if schema == "hostrouting/error/2":
        return str(document["message"])
    if schema is not None:
        return (
            f"hostrouting {command} printed {schema} on the node, not {expected}: the versions of hostrouting there and"
            " here differ; copy the program to the node again"
        )
    return f"hostrouting {command} did not print its document on the node; it {ran.ending}"


_UNPLANNED = {"azure-vnet", "file", "kernel", "lock", "removal", "systemd", "tool", "unit"}
"""The names of findings of `preflight` about what the plan does not say itself."""


def _dry_run(plan: Document, preflight: Sequence[Document]) -> Outcome:
    """What `apply` would do, and what `preflight` has found."""
    found, counts, verdict = _seen(plan, plan["files"]["rewrite"])
    # A gate that is shut now is no reason for apply to fail.
    errors = [finding for finding in plan["findings"] if finding["severity"] == "error"]
    conflicts = [_text(finding) for finding in errors if finding["name"] != "gate-shut"]
    is_strict = (plan["check"] or {}).get("mode") == "STRICT"
    missing = [finding["sentence"] for finding in plan["findings"] if finding["name"] == "route-waits"]
    strict, waits = found.verdict == "overlap" and is_strict, plan["answer"] == "not-ready"
    lacks = bool(missing) or (waits and is_strict)
    changed = plan["changes"] and found.before != found.after
    if conflicts:
        told = f"CONFLICT: apply would fail: {'; '.join(conflicts)}"
    elif waits:
        missing = missing or ["a default route, which the check needs"]
        told = f"NOT READY: apply would wait for what is missing{', then fail' * lacks}: {'; '.join(missing)}"
    else:
        told = f"TO DO: {counts}" if changed else _SETTLED
    warnings = [*([told] if waits else []), *found.warnings, *_warnings(plan)]
    told += f"; the verdict afterwards would be {verdict}" if verdict else ""
    told += "; apply would fail, because the mode is STRICT" if strict else ""
    fails = bool(conflicts) or strict or lacks
    unplanned = [finding for finding in preflight if finding["name"] in _UNPLANNED]
    faults = [_text(finding) for finding in (unplanned if fails else preflight) if finding["severity"] == "error"]
    warnings += [_text(finding) for finding in unplanned if finding["severity"] == "warning"]
    if faults:
        told += f"; apply would fail, or gated units would not start: {'; '.join(faults)}"
    failed = fails or bool(faults)
    return attrs.evolve(found, message=told, changed=changed, failed=failed, warnings=tuple(warnings))


_SETTLED = "NOTHING TO DO: the host already matches the configuration"


def _run(apply: Document, plan: Document | None) -> Outcome:
    """What `apply` did."""
    found, counts, verdict = _seen(apply, () if plan is None else plan["files"]["rewrite"])
    if not apply["ok"]:
        sentence = "\n".join(failure["message"] for failure in apply["failures"]) or "the run was stopped"
        sentence += f"\nwhat it has changed before it failed: {counts}" if apply["changed"] else ""
    else:
        sentence = f"DONE: {counts}" if apply["changed"] else _SETTLED
        sentence += f"; the verdict is {verdict}" if verdict else ""
    if plan is None:
        found = attrs.evolve(found, before="", after="")
    warnings = (*found.warnings, *_warnings(apply)) if apply["ok"] else ()
    return attrs.evolve(found, message=sentence, changed=apply["changed"], failed=not apply["ok"], warnings=warnings)


def _removal(remove: Document) -> Outcome:
    """What `remove` did, or would do."""
    found, counts, _ = _seen(remove)
    if remove["failures"]:
        sentence = "\n".join(failure["message"] for failure in remove["failures"])
        return Outcome(f"{sentence}\nto see what is left on the node: hostrouting status", failed=True)
    changed = bool(remove["dryRun"] or found.before != found.after)
    is_left = any(finding["name"] == "task" for finding in remove["findings"])
    if changed:
        sentence = f"TO DO: {counts}" if remove["dryRun"] else f"DONE: {counts}"
    else:
        sentence = f"NOTHING TO DO: hostrouting has nothing {'else ' * is_left}installed on this host"
    stays, failed = tuple(map(_text, remove["findings"])), is_left and not remove["dryRun"]
    return attrs.evolve(found, message=sentence, changed=changed, failed=failed, warnings=stays)


def _seen(document: Document, rewritten: Sequence[str] = ()) -> tuple[Outcome, str, str]:
    """What each document has: an outcome without a message, the number of routes and files, and the verdict in words.

    Files in /run are not counted: every run writes them.
    """
    check, steps, operations = document.get("check"), document["steps"], document["operations"]
    written, removed = (
        sorted(path for path in document["files"][verb] if not path.startswith("/run/")) for verb in ("write", "remove")
    )
    named = {
        "routes": [step["action"] for step in steps],
        "others": [operation["verb"] for operation in operations],
        "files": ["write"] * len(written) + ["remove"] * len(removed),
    }
    told = {name: {verb: verbs.count(verb) for verb in verbs} for name, verbs in named.items() if verbs}
    counted = (f"{name}: {', '.join(f'{verb} {n}' for verb, n in each.items())}" for name, each in told.items())
    lines = [
        *map(_step_lines, steps),
        *map(_operation_lines, operations),
        *((f"file {path} (different)" if path in rewritten else "", f"file {path}") for path in written),
        *((f"file {path}", "") for path in removed),
    ]
    before, after = ("".join(f"{pair[side]}\n" for pair in lines if pair[side]) for side in (0, 1))
    found = Outcome("", steps=tuple(steps), before=before, after=after)
    verdict = ""
    if check is not None:
        verdict = verdict_sentence(check)
        findings, repair = tuple(check["findings"]), tuple(check["repair"])
        warnings = () if check["verdict"] == "ok" else (verdict,)
        found = attrs.evolve(found, verdict=check["verdict"], findings=findings, repair=repair, warnings=warnings)
    return found, "; ".join(counted) or "nothing", verdict


def _step_lines(step: Document) -> tuple[str, str]:
    """A route before and after the run; an empty line is absent."""
    route, action = f"route {step['route']}", step["action"]
    if action == "replace":
        return f"route {step['existing']}", route
    if action == "conflict":
        return "", ""
    return "" if action == "add" else route, "" if action == "delete" else route


def _operation_lines(operation: Document) -> tuple[str, str]:
    """The object of an operation, as `_step_lines`."""
    there, known = operation["object"], {"replace": " (different)", "start": " (not started)"}
    if operation["verb"] == "delete":
        return there, ""
    return f"{there}{known[operation['verb']]}" if operation["verb"] in known else "", there


def verdict_sentence(check: Document) -> str:
    """The verdict of a check, the first findings, and what to change in the configuration."""
    verdict, findings = check["verdict"], check["findings"]
    if verdict == "ok":
        return "OK: nothing escapes"
    if verdict == "no-default-route":
        remedy = "check DHCP and the uplink, or name the device in routeOverlap.expectedDevs"
        return f"NO-DEFAULT-ROUTE: there is no default route, so no device is expected; {remedy}"
    if verdict == "undecided":
        told = [_text(finding) for finding in findings if finding["severity"] == "warning"]
        return f"UNDECIDED: {'; '.join(told) or 'see the findings of the check'}"
    escapes = [finding for finding in findings if finding["name"] in ESCAPES]
    told = list(map(_text, escapes[:_NAMED]))
    told += [f"and {len(escapes) - _NAMED} more findings"] if len(escapes) > _NAMED else []
    for name in ("unsafe", "action"):
        named = [finding for finding in findings if finding["name"] == name]
        told += [f"{name.upper()}: {_text(finding)}" for finding in named[:_NAMED]]
    return f"OVERLAP: {'; '.join(told)}"


def _text(finding: Document) -> str:
    """The finding in words."""
    return "; ".join(filter(None, (finding["sentence"], finding["remedy"])))


def _warnings(document: Document) -> Iterator[str]:
    """Warnings about the next boot and the next start of a gated unit, or of a kubelet that is not gated."""
    for finding in document["findings"]:
        # The answer says what a route waits for.
        is_warning = finding["severity"] == "warning" and finding["name"] != "route-waits"
        if is_warning or finding["name"] in {"gate-shut", "not-gated"}:
            yield _text(finding)

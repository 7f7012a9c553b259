"""`apply`: apply the configuration to the host; print progress while it runs, then what changed."""

from __future__ import annotations

from hostrouting.cli.command import Command, Reply, config_option, removal_option, wait_option
from hostrouting.cli.output import Painted, counted, line
from hostrouting.cli.schemas import FAILURES, FORESEEN, GATE, OPERATIONS, STANDINGS, STEPS

TYPE_CHECKING = False  # `typing` costs as much as parsing does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import Any

    from hostrouting.cli.changes import Done
    from hostrouting.cli.output import Line, Style
    from hostrouting.config import HostRoutingConfig
    from hostrouting.host.host import Host

__all__ = ["COMMAND"]


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser, required=True)
    wait_option(parser, installs=True)
    removal_option(parser)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:
    from hostrouting.cli.changes import Done, looked_at_gate, run_task
    from hostrouting.cli.source import config_of, wait_of
    from hostrouting.tasks import Configure

    config, here = config_of(arguments), host()
    configure = Configure(config, host=here, wait=wait_of(arguments, here), allow_removal=arguments.allow_removal)
    run = run_task(configure, here)
    done = Done.of(run, config, looked_at_gate(here))
    failed = None if done.escapes else run.failed  # the page explains escapes in detail
    return Reply(
        run.code, lambda: _document(done), lambda style: _page(done, arguments, style, config, here), failed=failed
    )


def _page(
    done: Done, arguments: argparse.Namespace, style: Style, config: HostRoutingConfig, host: Host
) -> Iterator[Line]:
    from hostrouting.cli.changes import after_a_failure, foreseen_lines, gate_lines
    from hostrouting.cli.remedy import remedy_lines
    from hostrouting.errors import (
        ConfigError,  # nothing was changed: it says nothing about machines
        is_denied,
    )

    check = done.check
    if done.run.ok:
        yield _answer_line(done, arguments.config)
    if check is not None:
        yield from check.answer_lines()
    yield from _changes(done)
    yield from foreseen_lines(done.foreseen, config=arguments.config)
    yield from done.standings.lines()
    if check is not None and done.escapes:
        yield from check.evidence_lines(style)
        again = f"hostrouting repair --config {arguments.config}"
        yield from remedy_lines(check, config=arguments.config, again=again)
        name = f"name the outgoing devices as routeOverlap.expectedDevs in {arguments.config}"
        # The log has said already for which packets the verdict does not hold.
        yield from check.limit_lines(advice=f"Wait longer (--wait 300), or {name}.", again="hostrouting check")
        if not done.run.ok and done.gate.holds:
            yield line()
            yield line("The mode is STRICT: no machine starts on this host until the check passes.")
            return
    if done.run.ok:
        yield from gate_lines(done.gate)
    elif not any(
        is_denied(failure.error) or isinstance(failure.error, ConfigError) for failure in done.run.report.failures
    ):
        yield line()
        yield after_a_failure(host, config, done.gate)


def _answer_line(done: Done, config: str) -> Line:
    from hostrouting.cli.changes import tally

    parts = tally(done.steps, {"add": "{} added", "replace": "{} replaced", "delete": "{} deleted", "keep": "{} kept"})
    parts += [f"{counted(len(done.run.effects.operations), 'operation')}"] if done.run.effects.operations else []
    parts += [f"{counted(len(done.run.wrote), 'file')} written"] if done.run.wrote else []
    parts += [f"{counted(len(done.run.removed), 'file')} removed"] if done.run.removed else []
    if not done.changed:
        return line(Painted("NOTHING TO DO:", "good"), f" the host already matches {config}")
    return line(Painted("DONE:", "good"), f" {', '.join(parts)}")


def _changes(done: Done) -> Iterator[Line]:
    from hostrouting.cli.changes import file_lines, operation_lines, step_lines

    operations = done.run.effects.operations
    changes = [step for step in done.steps if step.action != "keep"]
    if changes or operations or done.run.wrote or done.run.removed:
        yield line()
        if not done.run.ok:
            yield line("What it has changed before it failed:")
    yield from step_lines(changes)
    yield from operation_lines(operations)
    yield from file_lines("wrote", done.run.wrote)
    yield from file_lines("removed", done.run.removed)


def _document(done: Done) -> dict[str, Any]:
    from hostrouting.cli.changes import foreseen_document, gate_document, operation_document, step_document

    return {
        "schema": COMMAND.schema,
        "ok": done.run.ok,
        "changed": done.changed,
        "steps": [step_document(step) for step in done.steps],
        "foreseen": [foreseen_document(foreseen) for foreseen in done.foreseen],
        "operations": [operation_document(operation) for operation in done.run.effects.operations],
        # What is not in force after apply is a failure.
        "standings": [{k: v for k, v in document.items() if k != "faults"} for document in done.standings.documents()],
        "files": {"wrote": list(done.run.wrote), "removed": list(done.run.removed)},
        "check": None if done.check is None else done.check.document(),
        "gate": gate_document(done.gate),
        "failures": done.run.failures,
    }


COMMAND = Command(
    "apply",
    "apply the configuration to the host, now and at every boot",
    answer=_answer,
    options=_options,
    more="""\
Requires root. The file is complete: whatever is installed but not in it is removed. If the gate, the mode STRICT, an
address that STRICT protects or the guard would go, apply changes nothing and exits with 2, unless --allow-removal is
given. Either all routes are applied or none; a running machine is not touched. If an overlap is left afterwards, the
exit code is 1 in mode STRICT; in mode WARN the overlap is only reported.
""",
    examples="""\
# as root: apply it now, and at every boot
hostrouting apply --config agent.json
# for a program, on a host whose default route may take five minutes
hostrouting apply --config agent.json --wait 300 --json
""",
    failing="it failed, or, in mode STRICT, an overlap is left",
    changes=True,
    tells_progress=True,
    keys={
        "ok": "whether everything was done",
        "changed": "whether anything was changed",
        **STEPS,
        **FORESEEN,
        **OPERATIONS,
        **{key: says for key, says in STANDINGS.items() if "faults" not in key},
        "files.wrote[]": "the files that were written",
        "files.removed[]": "the files that were removed",
        "check": "the check that followed, as hostrouting/check/1; null if there was none",
        **GATE,
        **FAILURES,
    },
)

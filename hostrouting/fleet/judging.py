"""From the bytes of a snapshot to the result for its node: the judgement of `hostrouting check --snapshot`.

Here: functions from values to values, which any process can call. Not here: reading files, and who calls this where
(`dispatch`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, get_args

import attrs

from hostrouting.correction import Correction, find_correction
from hostrouting.errors import HostRoutingError, JudgingFailed
from hostrouting.examination import examine_snapshot
from hostrouting.fleet.node import NodeEscape, NodeResult
from hostrouting.named_devices import HOST_OF_A_SNAPSHOT, require_devices
from hostrouting.overlap import Escape
from hostrouting.packet_words import packets_line
from hostrouting.saved_snapshot import snapshot_in
from hostrouting.sought_marks import marks_of
from hostrouting.wording import candidates_line, check_document
from phases.text import describe_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.config import HostRoutingConfig
    from hostrouting.examination import Examination
    from hostrouting.model import IP

__all__ = ["Question", "judge", "judge_each"]

_REFUSED: dict[str, Escape] = {kind: kind for kind in get_args(Escape)}


@attrs.frozen
class Question:
    """What is asked of every node."""

    config: HostRoutingConfig
    gateway: IP | None = None
    """The router that the repair uses, instead of that of the default route."""
    devs: tuple[str, ...] = ()
    """Devices that `--dev` names; they have to exist on every node."""
    is_whole: bool = False
    """Whether this is the configuration of the nodes, and not only what to check on them."""


def judge_each(data: Sequence[bytes], question: Question) -> tuple[NodeResult, ...]:
    """The result for each snapshot. Nothing that is wrong with one of them keeps the others from being judged."""
    return tuple([_judged(it, question) for it in data])


def _judged(data: bytes, question: Question) -> NodeResult:
    try:
        return judge(data, question)
    except HostRoutingError as error:
        return NodeResult(failure=error)
    except MemoryError:
        return NodeResult(failure=JudgingFailed("there is not enough memory to judge this snapshot"))
    except Exception as error:  # noqa: BLE001  the other nodes have to be judged
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        code = None if trace is None else trace.tb_frame.f_code
        where = "" if code is None or trace is None else f" in {code.co_name}, {code.co_filename}:{trace.tb_lineno}"
        told = f"this is a bug in hostrouting, please report it: {describe_error(error)}{where}"
        return NodeResult(failure=JudgingFailed(told))


def judge(data: bytes, question: Question) -> NodeResult:
    """The result for one snapshot, without a name. Raises SnapshotError or ConfigError if there can be no verdict."""
    config = question.config
    snapshot = snapshot_in(data)
    found = examine_snapshot(snapshot, config, gateway=question.gateway)
    require_devices((("--dev", dev) for dev in question.devs), snapshot, host=HOST_OF_A_SNAPSHOT)
    return NodeResult(
        verdict=found.verdict,
        escapes=tuple(_escapes(found)),
        without_default=tuple(it.report.family for it in found.families if it.verdict == "no-default-route"),
        open_repair=found.routes,
        correction=_correction(found, question),
        is_repairable=bool(found.findings) and not found.unsafe,
        answer=_answer(found, config),
    )


def _correction(found: Examination, question: Question) -> Correction | None:
    """What to change in the configuration; None if no route repairs the host as it is."""
    if not found.routes:
        return None
    if not question.is_whole:
        return Correction(found.routes)
    return find_correction(found, question.config, gateway=question.gateway)


def _answer(found: Examination, config: HostRoutingConfig) -> str:
    """The document of the check; a snapshot shows nothing about the other tasks."""
    remarks = filter(None, map(candidates_line, found.families))
    document = check_document(found, mode=config.route_overlap.mode, remarks=remarks)
    return json.dumps({**document, **marks_of(found, None).document(), "standings": []})


def _escapes(found: Examination) -> Iterator[NodeEscape]:
    for family in found.families:
        for it in family.findings:
            packets = "what pods send" if it.senders else ""
            yield NodeEscape(it.cidr, it.first, it.last, it.kind, it.devs, packets)
        if family.verdict != "undecided":
            continue
        for note in family.notes:
            if note.escapes:
                kind = _REFUSED.get(note.decision.kind, "overlap")
                packets = packets_line(note.cases)
                yield NodeEscape(note.cidr, note.first, note.last, kind, note.decision.devs, packets)

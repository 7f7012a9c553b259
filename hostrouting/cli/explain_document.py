"""An explanation as the JSON value `hostrouting/explain/1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.model import protocol_name, table_name

if TYPE_CHECKING:
    from hostrouting.cli.explanation import Explanation
    from hostrouting.fib.trace import Passed, Trace, Tried

__all__ = ["SCHEMA", "explain_document"]

SCHEMA = "hostrouting/explain/1"


def explain_document(it: Explanation) -> dict[str, Any]:
    """The explanation as plain values."""
    trace = it.trace
    return {
        "schema": SCHEMA,
        "address": str(trace.address),
        "kind": trace.kind,
        "devs": list(trace.devs),
        "expected": it.as_expected,
        "expectedDevs": list(it.outbound),
        "rules": [_tried(tried) for tried in trace.tried],
        "rule": None if trace.rule is None else trace.rule.priority,
        "table": None if trace.route is None else table_name(trace.route.table),
        "route": None if trace.route is None else str(trace.route),
        "protocol": None if trace.route is None else protocol_name(trace.route.protocol),
        "legs": _legs(trace),
        "links": [
            {
                "dev": link.name,
                "up": link.up,
                "carrier": link.carrier,
                "infiniband": link.infiniband,
                "rpFilter": link.rp_filter,
            }
            for link in it.links
        ],
        "passed": [_passed(passed) for passed in trace.passed],
        "dropsReplies": list(it.strict),
        "others": [
            {
                "when": [[str(condition) for condition in case] for case in variant.cases],
                "kind": variant.decision.kind,
                "devs": list(variant.decision.devs),
            }
            for variant in it.variants
        ],
    }


def _tried(tried: Tried) -> dict[str, Any]:
    return {
        "priority": tried.rule.priority,
        "rule": str(tried.rule),
        "result": tried.result,
        "route": None if tried.route is None else str(tried.route),
    }


def _passed(passed: Passed) -> dict[str, Any]:
    return {"route": str(passed.route), "devs": list(passed.route.devs), "reason": passed.reason}


def _legs(trace: Trace) -> list[dict[str, Any]]:
    return [
        {"dev": leg.dev, "gateway": None if leg.gateway is None else str(leg.gateway), "weight": leg.weight}
        for leg in trace.legs
    ]

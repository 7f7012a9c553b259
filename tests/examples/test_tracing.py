"""examples/tracing.py: a run as spans of OpenTelemetry."""

import json

import pytest

from tests.support.programs import example

pytestmark = pytest.mark.linux


def test_a_span_for_each_step() -> None:
    """Each is inside that of the task around it, and has the attempts that failed."""
    done = example("tracing.py")
    assert done.returncode == 0, done.stderr
    spans = {}
    for text in done.stdout.split("\n}\n"):
        if text:
            span = json.loads(f"{text}}}")
            spans[span["name"]] = span
    assert set(spans) == {"bootstrap", "download", "unpack"}
    for name in ("download", "unpack"):
        assert spans[name]["parent_id"] == spans["bootstrap"]["context"]["span_id"]
        assert spans[name]["attributes"]["status"] == "ok"
    [failed] = spans["download"]["events"]
    assert failed["attributes"] == {"attempt": 1, "error": "busy", "wait": 1.0}

"""Trace a run with OpenTelemetry: a span for each step, with its failed attempts as events.

It needs opentelemetry-sdk, and prints each span as JSON. An agent has an exporter of its own.
"""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import Span, StatusCode, Tracer, set_span_in_context

import phases
from phases.testing import FakeClock, StubTask


class Tracing:
    """An observer that makes a span of each step that starts."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._spans: dict[tuple[str, tuple[str, ...]], Span] = {}
        """Those that have not ended, by the id of the run and the path of the step."""

    def __call__(self, step: phases.Step) -> None:
        """Begin a span inside that of the task around the step, or end it."""
        key = (step.run, step.path)
        if step.status is phases.Status.RUNNING:
            around = self._spans.get((step.run, step.path[:-1]))
            context = None if around is None else set_span_in_context(around)
            self._spans[key] = self._tracer.start_span(step.name, context)
        elif key in self._spans:  # a step that was passed over has no span
            span = self._spans.pop(key)
            span.set_attributes({"status": str(step.status), "attempts": step.attempts})
            if not step.ok:
                span.set_status(StatusCode.ERROR, step.why)
            span.end()

    def attempt_failed(self, failed: phases.FailedAttempt) -> None:
        """Add an event to the span of the task."""
        span = self._spans[failed.step.run, failed.step.path]
        span.add_event(
            "attempt failed",
            {"attempt": failed.number, "error": str(failed.error), "wait": failed.wait},
        )


def main() -> None:
    """Trace a run with a clock that does not wait."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    download = phases.retry(StubTask("download", errors=[OSError("busy")]), jitter=0)
    bootstrap = phases.serial(download, StubTask("unpack"), name="bootstrap")
    tracing = Tracing(provider.get_tracer("agent"))
    phases.run(bootstrap, observers=[tracing, phases.LogObserver()], clock=FakeClock())


if __name__ == "__main__":
    main()

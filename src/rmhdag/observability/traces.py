"""Traces: one from the call that submits a job to the spans that its handlers open, through all processes.

Spans of jobs and tasks are *announced* before they begin and *recorded* once they have ended: their ids are derived
from the ids of the job or task, so that the last owner of a job records exactly the span that its tasks name as their
parent, and a task whose process was killed still has a span. Without an exporter nothing is imported or done.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

    from rmhdag.observability.span_pipeline import PlannedIds

FLUSH_SECONDS = 2.0
Attributes = Mapping[str, str | int | float | bool]


class ExporterUnusable(Exception):
    """The exporter cannot be created: its package is missing, or its settings are not valid."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Where spans go; nowhere if neither is set. The SDK reads everything else from its own OTEL_ variables."""

    otlp_endpoint: str | None = None
    azure_connection_string: str | None = None

    @property
    def is_wanted(self) -> bool:
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return False
        if os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
            return False
        return bool(self.otlp_endpoint or self.azure_connection_string)

    @classmethod
    def from_variables(cls) -> TraceSettings:
        """For child processes, which get the settings from their parent."""
        return cls(*(os.environ.get(name) or None for name in VARIABLES))

    def as_variables(self) -> dict[str, str]:
        values = (self.otlp_endpoint, self.azure_connection_string)
        return {name: value for name, value in zip(VARIABLES, values, strict=True) if value}


VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "APPLICATIONINSIGHTS_CONNECTION_STRING")


@dataclass(frozen=True, slots=True)
class SpanSeed:
    """The source of a span's ids. `trace` is used if no trace has begun yet."""

    name: str
    trace: str
    span: str
    parent: str | None


class Tracing:
    """The traces of this process."""

    def __init__(self, provider: TracerProvider, ids: PlannedIds) -> None:
        self._provider = provider
        self._ids = ids
        self.tracer: Tracer = provider.get_tracer("rmhdag")

    def announce(self, seed: SpanSeed) -> str:
        """The traceparent of a span that will be recorded; the same in every process."""
        from opentelemetry.sdk.trace.sampling import Decision

        parent = read_trace_parent(seed.parent)
        trace_id = _trace_of(parent, seed)
        decision = self._provider.sampler.should_sample(parent, trace_id, seed.name).decision
        flags = "01" if decision is Decision.RECORD_AND_SAMPLE else "00"
        return f"00-{trace_id:032x}-{_number(seed.span, 8):016x}-{flags}"

    def record(
        self, seed: SpanSeed, start_ns: int, end_ns: int, attributes: Attributes, *, error: str | None = None
    ) -> None:
        """Record a span that has ended. `error` is a kind, never a message: messages may quote users' data."""
        from opentelemetry.trace import SpanKind, StatusCode

        parent = read_trace_parent(seed.parent)
        trace_id = _trace_of(parent, seed)
        with self._ids.planned(trace_id, _number(seed.span, 8)):
            span = self.tracer.start_span(
                seed.name, parent, kind=SpanKind.CONSUMER, attributes=attributes, start_time=start_ns
            )
        if error is not None:
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR)
        span.end(max(start_ns, end_ns))

    def close(self, seconds: float = FLUSH_SECONDS) -> None:
        """Export queued spans, but no longer than this; the rest is dropped."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(seconds)


_active: Tracing | None = None


def active() -> Tracing | None:
    """The configured tracing; None costs nothing."""
    return _active


def configure_traces(service: str, settings: TraceSettings, *, quiet: bool = False) -> Tracing | None:
    """Called once per process. With `quiet`, failed exports are not logged."""
    global _active
    if not settings.is_wanted or _active is not None:
        return _active
    from opentelemetry import trace

    from rmhdag.observability.logs import get_logger
    from rmhdag.observability.span_pipeline import make_provider

    provider, ids = make_provider(service, _exporters(settings), None if quiet else get_logger(__name__))
    trace.set_tracer_provider(provider)
    _active = Tracing(provider, ids)
    return _active


def close_traces() -> None:
    if _active is not None:
        _active.close()


def current_trace_parent() -> str | None:
    """The W3C traceparent of the span that is open in this thread or task."""
    # If the package is not loaded, no span is open.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"


@contextmanager
def inside(trace_parent: str | None) -> Iterator[None]:
    """Spans opened inside the context are children of the named span, which may be in another process."""
    parent = read_trace_parent(trace_parent)
    if parent is None:
        yield
        return
    from opentelemetry import context

    token = context.attach(parent)
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def span(name: str, attributes: Attributes | None = None) -> Iterator[None]:
    if _active is None:
        yield
        return
    with _active.tracer.start_as_current_span(name, attributes=attributes, record_exception=False):
        yield


def read_trace_parent(text: str | None) -> Context | None:
    """None if the text is not a traceparent: it came from outside, and a new trace is always correct."""
    if not text:
        return None
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": text})
    return context if get_current_span(context).get_span_context().is_valid else None


def _trace_of(parent: Context | None, seed: SpanSeed) -> int:
    if parent is None:
        return _number(seed.trace, 16)
    from opentelemetry.trace import get_current_span

    return get_current_span(parent).get_span_context().trace_id


def _number(text: str, size: int) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=size).digest(), "big") or 1


def _exporters(settings: TraceSettings) -> list[SpanExporter]:
    exporters: list[SpanExporter] = []
    if settings.otlp_endpoint:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        # The SDK's own variable contains the whole address.
        whole = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        exporters.append(OTLPSpanExporter(endpoint=whole or f"{settings.otlp_endpoint.rstrip('/')}/v1/traces"))
    if settings.azure_connection_string:
        exporters.append(_azure_exporter(settings.azure_connection_string))
    return exporters


def _azure_exporter(connection_string: str) -> SpanExporter:
    from rmhdag.observability.secrets import mask_text

    # Otherwise it also sends statistics about itself to Microsoft.
    os.environ.setdefault("APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL", "True")
    try:
        from azure.monitor.opentelemetry.exporter import AzureMonitorTraceExporter
    except ImportError as error:
        raise ExporterUnusable(
            "APPLICATIONINSIGHTS_CONNECTION_STRING is set, but the exporter for Azure Monitor is not installed"
        ) from error
    try:
        exporter: SpanExporter = AzureMonitorTraceExporter(
            connection_string=connection_string, disable_offline_storage=True
        )
    except ValueError as error:
        raise ExporterUnusable(
            f"APPLICATIONINSIGHTS_CONNECTION_STRING cannot be used: {mask_text(str(error))}"
        ) from error
    return exporter

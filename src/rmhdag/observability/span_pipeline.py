"""Processes spans between their end and the export: with bounded memory, without secrets, and without blocking.

A full queue drops its oldest spans; the failure of an exporter is logged once, and its recovery once. Imported only
if tracing is on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from structlog.typing import FilteringBoundLogger

from rmhdag.observability.secrets import mask_and_cut

SCHEDULE_MILLISECONDS = 1000


class PlannedIds(RandomIdGenerator):
    """Random ids, except for a span whose ids were announced before."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    @contextmanager
    def planned(self, trace_id: int, span_id: int) -> Iterator[None]:
        self._of_thread.ids = trace_id, span_id
        try:
            yield
        finally:
            self._of_thread.ids = None

    def generate_trace_id(self) -> int:
        planned = getattr(self._of_thread, "ids", None)
        return super().generate_trace_id() if planned is None else int(planned[0])

    def generate_span_id(self) -> int:
        planned = getattr(self._of_thread, "ids", None)
        return super().generate_span_id() if planned is None else int(planned[1])


class Discretion(SpanProcessor):
    """A query may contain a token or a user's search words: only the names of its parameters are kept."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        query = (span.attributes or {}).get("url.query")
        if query:
            names = [part.partition("=")[0] for part in str(query)[:10_000].split("&")]
            span.set_attribute("url.query", mask_and_cut("&".join(names), 500))


class WatchedExporter(SpanExporter):
    """Logs once that exports fail. Runs in the thread of the queue, so nothing waits for it."""

    def __init__(self, exporter: SpanExporter, log: FilteringBoundLogger | None) -> None:
        self._exporter = exporter
        self._log = log
        self._is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
            why = "refused or not reached"
        except Exception as error:
            result, why = SpanExportResult.FAILURE, type(error).__name__
        is_failing = result is not SpanExportResult.SUCCESS
        if self._log is not None and is_failing is not self._is_failing:
            exporter = type(self._exporter).__name__
            if is_failing:
                self._log.warning("traces_not_exported", exporter=exporter, error=why, remedy="spans are dropped")
            else:
                self._log.info("traces_exported_again", exporter=exporter)
        self._is_failing = is_failing
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def make_provider(
    service: str, exporters: Sequence[SpanExporter], log: FilteringBoundLogger | None
) -> tuple[TracerProvider, PlannedIds]:
    ids = PlannedIds()
    # The sampler comes from OTEL_TRACES_SAMPLER. The owner closes the provider: its own exit hook would wait too long.
    provider = TracerProvider(resource=_resource(service), id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(Discretion())
    delay = None if os.environ.get("OTEL_BSP_SCHEDULE_DELAY") else SCHEDULE_MILLISECONDS
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(WatchedExporter(exporter, log), schedule_delay_millis=delay))
    return provider, ids


def _resource(service: str) -> Resource:
    import rmhdag

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    ours = {"service.version": rmhdag.__version__}
    return Resource.create(ours if named else {"service.name": service, **ours})

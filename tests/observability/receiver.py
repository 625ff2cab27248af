"""A collector on loopback that takes spans by OTLP or as Azure Monitor does, or takes nothing and answers nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.store.waiting import wait_until

# As Azure Monitor answers; who sends OTLP does not look at it.
ACCEPTED = b'{"itemsReceived": 1, "itemsAccepted": 1, "errors": []}'


class ReceivedSpan(NamedTuple):
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    seconds: float
    is_error: bool
    attributes: dict[str, Any]

    @property
    def trace_parent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"


class Receiver:
    """`url` is what OTEL_EXPORTER_OTLP_ENDPOINT is set to. One that `hangs` holds every call until it is closed."""

    def __init__(self, *, hangs: bool = False, status: int = 200) -> None:
        self.spans: list[ReceivedSpan] = []
        self.bodies: list[bytes] = []
        self.calls = threading.Event()
        self._closing = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.calls.set()
                if hangs:
                    receiver._closing.wait()
                    return
                if status == 200 and self.path == "/v1/traces":
                    receiver.take(body)
                elif self.path == "/v2.1/track":
                    receiver.bodies.append(body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(ACCEPTED)))
                self.end_headers()
                self.wfile.write(ACCEPTED)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _attributes(resource_spans.resource.attributes)["service.name"]
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans:
                    self.spans.append(
                        ReceivedSpan(
                            service,
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                            span.status.code == span.status.STATUS_CODE_ERROR,
                            _attributes(span.attributes),
                        )
                    )

    def wait_for(self, is_wanted: Callable[[ReceivedSpan], bool]) -> ReceivedSpan:
        return wait_until(lambda: next((span for span in list(self.spans) if is_wanted(span)), None), 60)

    def named(self, name: str) -> ReceivedSpan:
        return self.wait_for(lambda span: span.name == name)

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _attributes(given: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in given}

"""Figures of the services for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rmhdag.serving.health import State
from rmhdag.serving.service_kinds import Service

BOUNDARIES = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Measures:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "rmhdag_serve_requests_total",
            "Requests by service and status",
            ["service", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "rmhdag_serve_request_seconds",
            "Time until an answer begins",
            ["service"],
            buckets=BOUNDARIES,
            registry=self._registry,
        )
        self._up = Gauge("rmhdag_serve_up", "Whether a service answers", ["service"], registry=self._registry)
        self._restarts = Gauge("rmhdag_serve_restarts", "Restarts of a service", ["service"], registry=self._registry)

    def count(self, service: str, status: int, seconds: float) -> None:
        self._requests.labels(service, str(status)).inc()
        self._seconds.labels(service).observe(seconds)

    def text(self, states: Mapping[Service, State]) -> bytes:
        for name, state in states.items():
            self._up.labels(name).set(state.is_up)
            self._restarts.labels(name).set(state.restarts)
        return generate_latest(self._registry)

"""Logs and traces of a process, as its settings say; what waits to be sent is sent at its end, within two seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.settings import Settings
from rmhdag.observability.traces import ExporterUnusable, TraceSettings, close_traces, configure_traces


@contextmanager
def observed(settings: Settings, service: str) -> Iterator[None]:
    """For processes that run long: their lines in one form, their spans sent."""
    from rmhdag.observability.logs import logging_as

    with logging_as(settings.log_format, settings.log_level), traced(settings, service):
        yield


@contextmanager
def traced(settings: Settings, service: str) -> Iterator[None]:
    try:
        configure_traces(service, trace_settings(settings))
    except ExporterUnusable as error:
        raise CommandFailed(
            str(error),
            remedy="Install it with `pip install 'rmhdag[azure-monitor]'`, or correct or unset the variable.",
            code=ExitCode.INVALID,
        ) from error
    try:
        yield
    finally:
        close_traces()


def trace_settings(settings: Settings) -> TraceSettings:
    return TraceSettings(settings.otlp_endpoint, settings.applicationinsights_connection_string)

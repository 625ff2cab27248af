"""The log of a process: one line per event on stderr, as key=value or JSON, without secrets.

Log records of libraries take the same way. A line that cannot be written is lost without further effect.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import sys
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from rmhdag.observability.repeated_lines import RepeatedLines
from rmhdag.observability.secrets import mask_value

LogFormat = Literal["logfmt", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
Fields = MutableMapping[str, Any]

MOST_CHARACTERS = 16 * 1024
FIRST_KEYS = ["timestamp", "level", "event", "job_id", "node_id", "task_id", "worker_id"]
# These log every request or retry; we log what matters ourselves.
TALKATIVE = {
    "opentelemetry": logging.CRITICAL,
    "azure": logging.CRITICAL,
    "urllib3": logging.ERROR,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
}
# Characters that would end a line or move the cursor of a terminal; both formats write \n as \n.
_UNPRINTABLE = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x0A}
_UNPRINTABLE |= {0x2028: "\\u2028", 0x2029: "\\u2029"}

_process_fields: dict[str, str] = {}


def get_logger(name: str = "") -> FilteringBoundLogger:
    """Events are words with underscores; ids have the names of their columns."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def identify(**fields: str) -> None:
    """Add fields to every further line of this process, such as its worker_id, in all threads."""
    _process_fields.update(fields)


def configure_logs(log_format: LogFormat = "logfmt", level: LogLevel = "info", stream: TextIO | None = None) -> None:
    number = getattr(logging, level.upper())
    lines = _Lines(stream)
    render = _renderer(log_format)
    _configure_structlog(lines, number, render, cache=True)
    handler = _LibraryHandler(lines, render)
    logging.basicConfig(handlers=[handler], level=number, force=True)
    for name, least in TALKATIVE.items():
        logging.getLogger(name).setLevel(max(least, number))


@contextmanager
def logging_as(log_format: LogFormat, level: LogLevel, stream: TextIO | None = None) -> Iterator[None]:
    """The same for the duration of the context; then the previous configuration is restored."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, root_level = root.handlers[:], root.level
    root.handlers.clear()  # the old handlers must not be closed
    configure_logs(log_format, level, stream)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(root_level)
        structlog.configure(**before)


class _Lines:
    """The destination of lines. `sys.stderr` is looked up each time, because it may be replaced."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        # A full disk or a closed pipe must not end the work that is being logged.
        with self._lock, suppress(OSError, ValueError):
            stream = self._stream or sys.stderr
            stream.write(line + "\n")
            stream.flush()

    debug = info = warning = error = critical = exception = msg = write


class _LibraryHandler(logging.Handler):
    """Converts records of the standard library's logging to the same form."""

    def __init__(self, lines: _Lines, render: Processor) -> None:
        super().__init__()
        self._lines = lines
        self._chain = [*SHARED, render]

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields: Any = {"event": record.getMessage(), "logger": record.name, "exc_info": record.exc_info}
            for process in self._chain:
                fields = process(None, record.levelname.lower(), fields)
            self._lines.write(fields)
        except structlog.DropEvent:
            pass
        except Exception:
            self.handleError(record)


def _configure_structlog(lines: _Lines, level: int, render: Processor, *, cache: bool) -> None:
    structlog.configure(
        processors=[*SHARED, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *names: lines,
        cache_logger_on_first_use=cache,
    )


def _add_process_fields(logger: Any, method: str, fields: Fields) -> Fields:
    for name, value in _process_fields.items():
        fields.setdefault(name, value)
    return fields


def _add_trace(logger: Any, method: str, fields: Fields) -> Fields:
    """Adds the trace id, so that the lines of a request can be found from its trace, and vice versa."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            fields.setdefault("trace_id", f"{context.trace_id:032x}")
    return fields


def _clean(logger: Any, method: str, fields: Fields) -> Fields:
    """The last processor before rendering, so that all added fields are masked too."""
    return {_as_key(name): _clean_value(mask_value(value, str(name))) for name, value in fields.items()}


def _as_key(name: Any) -> str:
    return "".join(letter if letter.isprintable() and letter not in ' ="' else "_" for letter in mask_value(str(name)))


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        text = value.translate(_UNPRINTABLE).encode("utf-8", "backslashreplace").decode()
        # The end of a traceback is the most useful part.
        return text if len(text) <= MOST_CHARACTERS else f"…{text[-MOST_CHARACTERS:]}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {_clean_value(key): _clean_value(inner) for key, inner in value.items()}
    return [_clean_value(inner) for inner in value] if isinstance(value, list) else value


def _renderer(log_format: LogFormat) -> Processor:
    if log_format == "json":
        return structlog.processors.JSONRenderer(serializer=json.dumps, default=str)
    return structlog.processors.LogfmtRenderer(key_order=FIRST_KEYS, drop_missing=True, bool_as_flag=False)


def _tell_repeated(event: str, code: str | None, count: int) -> None:
    get_logger(__name__).warning(event, repeated=count, **({} if code is None else {"code": code}))


REPEATED_LINES = RepeatedLines(_tell_repeated)
atexit.register(REPEATED_LINES.flush)
SHARED: list[Processor] = [
    REPEATED_LINES,
    structlog.contextvars.merge_contextvars,
    _add_process_fields,
    _add_trace,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    _clean,
]
# Programs that use a package without the command line get warnings and errors only.
if not structlog.is_configured():
    _configure_structlog(_Lines(), logging.INFO, _renderer("logfmt"), cache=False)

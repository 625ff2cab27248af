"""What long-running processes say of themselves: one line per event on stderr, as key=value."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="timestamp=%(asctime)s level=%(levelname)s event=%(message)r"
    )

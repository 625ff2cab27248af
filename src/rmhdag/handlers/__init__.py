"""The contract between the platform and the code that a task runs."""

from __future__ import annotations

from rmhdag.handlers.contract import (
    Checkpoint,
    HandlerContext,
    LeaseLost,
    NonRetryableError,
    RetryLater,
    StopReason,
    TaskInterrupted,
)
from rmhdag.handlers.registry import HandlerSpec, Registry, handler, load_handlers, shared_registry
from rmhdag.models.error_codes import ErrorCategory
from rmhdag.models.handler_result import DataWarning, HandlerError, HandlerResult

__all__ = [
    "Checkpoint",
    "DataWarning",
    "ErrorCategory",
    "HandlerContext",
    "HandlerError",
    "HandlerResult",
    "HandlerSpec",
    "LeaseLost",
    "NonRetryableError",
    "Registry",
    "RetryLater",
    "StopReason",
    "TaskInterrupted",
    "handler",
    "load_handlers",
    "shared_registry",
]

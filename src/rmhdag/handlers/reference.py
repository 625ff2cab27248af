"""The reference for authors of handlers as Markdown, made from the code: `python -m rmhdag.handlers.reference`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from rmhdag.handlers import contract
from rmhdag.handlers.contract import HandlerContext
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.handler_result import DataWarning, HandlerResult
from rmhdag.models.records import Zone
from rmhdag.storage import errors
from rmhdag.storage.root import GdalSource
from rmhdag.storage.zones import BlobInfo, Storage

INTRODUCTION = """\
# Handler reference

<!-- Made by `python -m rmhdag.handlers.reference > docs/handler-reference.md`; a test keeps it up to date. -->

[architecture/handlers.md](architecture/handlers.md) explains how to declare a handler, [testing.md](testing.md) how to
test one, and [architecture/storage.md](architecture/storage.md) how storage behaves.

Import the context, results and exceptions from `rmhdag.handlers`, storage and its errors from `rmhdag.storage`,
`BlobAddress` and `BlobRef` from `rmhdag.models.blobs`, and `Zone` from `rmhdag.models.records`.
"""

# The plain fields of a context, which have no docstrings. A test compares them with the class.
FIELDS = {
    "params": "The parameters: the declared model, or a plain dict.",
    "job_id": "The id of the task's job.",
    "node_id": "The name of the node, or of the child of a fan-out (`tiles__3`).",
    "task_id": "The id of this attempt of the node.",
    "attempt": "1 for the first attempt.",
    "lease_epoch": "The number of this run of the attempt; a run after a lost worker has a higher number.",
    "timeout_seconds": "The time limit of the node.",
    "namespace": "The namespace of the job.",
    "trace_parent": "The W3C `traceparent` of the task's span, or None.",
    "resume": "The last checkpoint of an earlier run (`phase`, `data`), or None.",
}
# For the worker, not for handlers.
NOT_FOR_HANDLERS = frozenset({"used_scratch", "note_interruption", "cut_short_by"})
EXCEPTIONS = (contract.NonRetryableError, contract.RetryLater, contract.TaskInterrupted, contract.LeaseLost)
STORAGE_ERRORS = (errors.StorageError, errors.BlobNotFound, errors.BlobConflict, errors.OutsideStorage)


def reference() -> str:
    reasons = ", ".join(f"`{reason}`" for reason in contract.StopReason)
    lines = [
        INTRODUCTION,
        "## The context\n",
        *(f"- `ctx.{name}`: {text}" for name, text in FIELDS.items()),
        *members(HandlerContext, "ctx"),
        f"\nReasons to stop (`StopReason`): {reasons}.\n",
        "## Storage\n",
        "A `BlobAddress` names a blob. All methods may be called from several threads.\n",
        f"Zones (`Zone`): {', '.join(f'`{zone}`' for zone in Zone)}.\n",
        *members(Storage, "ctx.storage"),
        "",
        *(line for cls in (BlobAddress, BlobRef, BlobInfo, GdalSource) for line in fields(cls)),
        "## What a handler returns\n",
        "A `HandlerResult`, a dict (the output) or None.\n",
        *fields(HandlerResult),
        *fields(DataWarning),
        "## What a handler may raise\n",
        *(f"- `{error.__name__}{parameters(error)}`: {paragraph(error)}" for error in EXCEPTIONS),
        "- anything else: this attempt fails, and the node's retry rule decides.",
        "\nErrors of storage:\n",
        *(f"- `{error.__name__}`: {paragraph(error)}" for error in STORAGE_ERRORS),
    ]
    return "\n".join(lines) + "\n"


def members(cls: type, owner: str) -> Iterator[str]:
    """Public methods and properties, in the order of the source."""
    for name, member in vars(cls).items():
        if name.startswith("_") or name in NOT_FOR_HANDLERS:
            continue
        if isinstance(member, property):
            yield f"- `{owner}.{name}`: {paragraph(member)}"
        elif inspect.isfunction(member):
            yield f"- `{owner}.{name}{signature_of(member)}`: {paragraph(member)}"


def fields(cls: Any) -> list[str]:
    """The fields of a model or a named tuple."""
    names = getattr(cls, "model_fields", None) or cls._fields
    listed = ", ".join(f"`{name}`" for name in names)
    text = f" {paragraph(cls)}" if has_own_text(cls) else ""
    return [f"**`{cls.__name__}`**: {listed}.{text}\n"]


def has_own_text(cls: type) -> bool:
    """A named tuple without a docstring gets one that only repeats its fields."""
    return bool(cls.__doc__) and not str(cls.__doc__).startswith(f"{cls.__name__}(")


def paragraph(thing: object) -> str:
    """The whole docstring in one paragraph; a member without one has no place in a reference."""
    text = inspect.getdoc(thing)
    if not text:
        raise ValueError(f"{thing!r} has no docstring")
    return " ".join(text.split())


def signature_of(function: Any) -> str:
    """Without `self`, and with annotations as they are written."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=Written(parameter.annotation))
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    return str(signature.replace(parameters=parameters, return_annotation=Written(signature.return_annotation)))


class Written:
    """An annotation that shows itself without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def parameters(error: type[BaseException]) -> str:
    has_own = "__init__" in vars(error)
    return signature_of(vars(error)["__init__"]).removesuffix(" -> None") if has_own else ""


if __name__ == "__main__":
    sys.stdout.write(reference())

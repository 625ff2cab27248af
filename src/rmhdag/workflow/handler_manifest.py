"""Handlers described by others, as JSON: a list of `{name, aliases, queue, params_schema, output_schema}`.

The list is checked before it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rmhdag.workflow.definition import HandlerName, QueueName
from rmhdag.workflow.known_handlers import HandlerEntry


class WrittenHandler(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: HandlerName
    aliases: tuple[HandlerName, ...] = ()
    queue: QueueName | None = None
    params_schema: dict[str, Any] = Field(default_factory=dict)
    output_schema: dict[str, Any] = Field(default_factory=dict)


_MANIFEST = TypeAdapter(list[WrittenHandler])


def read_handlers(text: str | bytes) -> list[HandlerEntry]:
    """Raises a ValueError that names the place."""
    written = _MANIFEST.validate_json(text)
    return [
        HandlerEntry(entry.name, entry.aliases, entry.queue, entry.params_schema, entry.output_schema)
        for entry in written
    ]


def handlers_from_file(path: Path) -> list[HandlerEntry]:
    return read_handlers(path.read_bytes())

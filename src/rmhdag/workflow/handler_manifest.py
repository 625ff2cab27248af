"""Handlers that somebody else describes, as JSON: a list of `{name, aliases, queue, params_schema, output_schema}`.

They are checked before they are believed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rmhdag.workflow.catalogue import HandlerEntry
from rmhdag.workflow.definition import HandlerName, QueueName


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
    return [HandlerEntry(one.name, one.aliases, one.queue, one.params_schema, one.output_schema) for one in written]


def handlers_from_file(path: Path) -> list[HandlerEntry]:
    return read_handlers(path.read_bytes())

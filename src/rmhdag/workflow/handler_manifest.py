"""Handlers that somebody else describes: a list of `{name, aliases, queue}` as JSON, checked before it is believed."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from rmhdag.workflow.catalogue import HandlerEntry
from rmhdag.workflow.definition import HandlerName, QueueName


class WrittenHandler(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: HandlerName
    aliases: tuple[HandlerName, ...] = ()
    queue: QueueName | None = None


_MANIFEST = TypeAdapter(list[WrittenHandler])


def read_handlers(text: str | bytes) -> list[HandlerEntry]:
    """Raises a ValueError that names the place."""
    return [HandlerEntry(entry.name, entry.aliases, entry.queue) for entry in _MANIFEST.validate_json(text)]


def handlers_from_file(path: Path) -> list[HandlerEntry]:
    return read_handlers(path.read_bytes())

"""Which handlers exist: the list that comes with rmhdag, and what installations add to it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

MANIFEST = Path(__file__).parents[1] / "handlers" / "manifest.json"


class HandlerEntry(NamedTuple):
    """One handler; `queue` is its own, used if neither the node nor the child task names one.

    The schemas describe its parameters and its output; an empty one allows everything.
    """

    name: str
    aliases: tuple[str, ...] = ()
    queue: str | None = None
    params_schema: Mapping[str, Any] = MappingProxyType({})
    output_schema: Mapping[str, Any] = MappingProxyType({})
    description: str = ""

    @classmethod
    def from_manifest(cls, manifest: dict[str, Any]) -> HandlerEntry:
        """An entry as a worker registers it."""
        schemas = manifest.get("params_schema") or {}, manifest.get("output_schema") or {}
        return cls(
            manifest["handler"],
            tuple(manifest["aliases"]),
            manifest["queue"],
            *schemas,
            manifest.get("description", ""),
        )


class KnownHandlers:
    """Handlers by name and alias. A later entry of the same name replaces an earlier one.

    `reserved` are names that rmhdag keeps for handlers that do not exist yet.
    """

    def __init__(self, entries: Iterable[HandlerEntry] = (), reserved: Collection[str] = ()) -> None:
        self.reserved = frozenset(reserved)
        self._entries: dict[str, HandlerEntry] = {}
        for entry in entries:
            for name in (entry.name, *entry.aliases):
                self._entries[name] = entry

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        return sorted(self._entries)

    def entries(self) -> list[HandlerEntry]:
        """Each handler once, by name."""
        by_name = {entry.name: entry for entry in self._entries.values()}
        return [by_name[name] for name in sorted(by_name)]

    def find(self, name: str) -> HandlerEntry | None:
        return self._entries.get(name)

    def queue_of(self, name: str) -> str | None:
        entry = self._entries.get(name)
        return entry.queue if entry else None

    def with_entries(self, entries: Iterable[HandlerEntry]) -> KnownHandlers:
        by_name = {entry.name: entry for entry in self.entries()}
        return KnownHandlers({**by_name, **{entry.name: entry for entry in entries}}.values(), self.reserved)


@cache
def shipped_handlers() -> KnownHandlers:
    """The handlers that come with rmhdag, known even if their libraries are not installed."""
    manifest = json.loads(MANIFEST.read_bytes())
    return KnownHandlers(map(HandlerEntry.from_manifest, manifest["handlers"]), manifest["reserved"])

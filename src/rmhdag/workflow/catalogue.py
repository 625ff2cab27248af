"""Which handlers exist: the list that comes with rmhdag, and what installations add to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple


class HandlerEntry(NamedTuple):
    """One handler; `queue` is its own, used where neither node nor child task names one."""

    name: str
    aliases: tuple[str, ...] = ()
    queue: str | None = None


class HandlerCatalogue:
    """Handlers by name and alias. A later entry of the same name replaces an earlier one."""

    def __init__(self, entries: Iterable[HandlerEntry] = ()) -> None:
        self._entries: dict[str, HandlerEntry] = {}
        for entry in entries:
            for name in (entry.name, *entry.aliases):
                self._entries[name] = entry

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        return sorted(self._entries)

    def entries(self) -> list[HandlerEntry]:
        """Each once, by name."""
        return sorted(set(self._entries.values()))

    def queue_of(self, name: str) -> str | None:
        entry = self._entries.get(name)
        return entry.queue if entry else None

    def with_entries(self, entries: Iterable[HandlerEntry]) -> HandlerCatalogue:
        known = {entry.name: entry for entry in self.entries()}
        return HandlerCatalogue({**known, **{entry.name: entry for entry in entries}}.values())


@cache
def shipped_handlers() -> HandlerCatalogue:
    """The handlers that rmhdag itself brings, known even where their libraries are not installed."""
    shipped = json.loads(Path(__file__).with_name("handlers.json").read_bytes())
    manifest = json.loads((Path(__file__).parents[1] / "handlers" / "manifest.json").read_bytes())
    return HandlerCatalogue(
        HandlerEntry(entry["name"], tuple(entry.get("aliases", ())), entry.get("queue")) for entry in shipped
    ).with_entries(HandlerEntry(entry["handler"], tuple(entry["aliases"]), entry["queue"]) for entry in manifest)

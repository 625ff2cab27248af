"""Whether a URL is that of a file which a namespace may have in blob storage. Nothing is asked of the store for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from rmhdag.storage.errors import StorageError
from rmhdag.storage.settings import StorageSettings
from rmhdag.storage.zones import Storage, open_storage

MOST_OPEN = 64


class OwnFiles:
    """Opened when the first such URL is met. An orchestrator without storage settings knows no file as its own."""

    def __init__(self, settings: StorageSettings) -> None:
        self._open = lru_cache(MOST_OPEN)(partial(open_storage, settings))

    def of(self, namespace: str) -> Callable[[str], bool]:
        return partial(self._owns, namespace)

    def _owns(self, namespace: str, url: str) -> bool:
        try:
            storage: Storage = self._open(namespace)
            return storage.owns(url)
        except StorageError:
            # Unusable settings: the code that writes files reports what is wrong with them.
            return False

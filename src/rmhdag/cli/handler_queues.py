"""The queues that handlers name themselves, for a process that lives long."""

from __future__ import annotations

from typing import Any

from rmhdag.cli.database import open_connection
from rmhdag.cli.settings import Settings
from rmhdag.services.registrations import handler_queues


class FreshHandlerQueues(dict[str, str]):
    """A handler that is not known yet may have come with a new worker."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        super().__init__()
        self._dsn = dsn
        self._settings = settings
        self.refresh()

    def __bool__(self) -> bool:
        """True even when it is empty: its holder must look queues up in it."""
        return True

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self.refresh()
        return super().get(name, default)

    def refresh(self) -> None:
        with open_connection(self._dsn, self._settings) as conn:
            self.update(handler_queues(conn))

"""A job of a database, looked at again and again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from rmhdag.api.views.pictures import JobOrder, order_of
from rmhdag.cli.platform import PlatformLost, Watch
from rmhdag.messaging.doorbell import Doorbell
from rmhdag.models.api.overviews import JobOverview
from rmhdag.store.channels import JOBS_ENDED

if TYPE_CHECKING:
    from rmhdag.cli.local_platform import LocalPlatform


class LocalWatch(Watch):
    """Woken when jobs end; a database that restarts is waited for."""

    pace_seconds = 0.2

    def __init__(self, platform: LocalPlatform, job_id: str) -> None:
        settings = platform.settings
        self._platform = platform
        self._job_id = job_id
        self._order: JobOrder | None = None
        self._bell = Doorbell(platform.dsn, settings.schema_name, [JOBS_ENDED], settings.notify)

    def look(self) -> JobOverview:
        platform = self._platform
        try:
            self._order = self._order or order_of(platform.conn, platform.job_row(self._job_id))
            return platform.overview(self._job_id, order=self._order)
        except psycopg.OperationalError as error:
            with suppress(psycopg.OperationalError):
                platform.reconnect()
            raise PlatformLost("the database", error) from error

    def wait(self, seconds: float) -> None:
        self._bell.wait(seconds)

    def close(self) -> None:
        self._bell.close()

"""What maps need, for both sides of the client: places, items with their files, and files to choose from."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rmhdag.client import calls
from rmhdag.client.sides import Iteration, Operation
from rmhdag.client.steps import Items, Steps, ask, pages
from rmhdag.models.api.assets import BlobView
from rmhdag.models.api.maps import FolderView, Footprint, ItemView


class MapOperations:
    @Iteration
    def footprints(
        self,
        of: str = "assets",
        *,
        bbox: tuple[float, float, float, float] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        approval_state: str | None = None,
        status: str | None = None,
    ) -> Items[Footprint]:
        """Where assets or jobs lie, newest first, as GeoJSON features. `bbox` is west, south, east, north in degrees;
        across the antimeridian west is above east. `approval_state` is for assets, `status` for jobs.
        """
        filters: dict[str, Any] = {
            "of": of,
            "bbox": None if bbox is None else ",".join(str(side) for side in bbox),
            "since": since,
            "until": until,
            "approval_state": approval_state,
            "status": status,
        }
        yield from pages(lambda cursor: calls.list_footprints(cursor, **filters), lambda page: page.features)

    @Iteration
    def items(self, asset_id: str, revision: int) -> Items[ItemView]:
        """The STAC items of a revision, each with its files."""
        yield from pages(lambda cursor: calls.list_revision_items(asset_id, revision, cursor), lambda page: page.items)

    @Iteration
    def job_items(self, job_id: str) -> Items[ItemView]:
        """The STAC items that a job has published until now, each with its files."""
        yield from pages(lambda cursor: calls.list_job_items(job_id, cursor), lambda page: page.items)

    @Iteration
    def job_files(self, job_id: str) -> Items[BlobView]:
        """The files that a job has published until now."""
        yield from pages(lambda cursor: calls.list_job_files(job_id, cursor), lambda page: page.blobs)

    @Operation
    def read_file(self, blob_id: str) -> Steps[bytes]:
        """A published file, whole and in memory; parts of a large one are served to range requests."""
        answer = yield from ask(calls.get_file(blob_id))
        return answer.content

    @Operation
    def containers(self, zone: str) -> Steps[list[str]]:
        """The containers of a zone of storage."""
        answer = yield from ask(calls.list_containers(zone))
        return answer.containers

    @Operation
    def folder(self, zone: str, container: str, folder: str = "") -> Steps[FolderView]:
        """The files and folders in one folder of a container."""
        return (yield from ask(calls.list_folder(zone, container, folder)))

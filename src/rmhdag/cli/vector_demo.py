"""The second part of `rmhdag demo`: a vector layer becomes a table, where the platform has PostGIS."""

from __future__ import annotations

import sys

from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.operations import Operations
from rmhdag.cli.output import paint, say
from rmhdag.cli.sample_data import CONTAINER
from rmhdag.cli.submit import tell_review
from rmhdag.cli.waiting import watch_to_end
from rmhdag.models.api.assets import WorkOrderBody
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.sampledata.stations import stations
from rmhdag.storage import Storage

WORKFLOW, TABLE = "vector_etl", "stations"
NEEDS = "PostGIS"


def show_vectors(platform: Operations, storage: Storage, seed: int) -> None:
    """Order the layer as a data platform would; without PostGIS, say what to do."""
    source = storage.write(BlobAddress(Zone.BRONZE, CONTAINER, f"{TABLE}.geojson"), stations(seed))
    order = WorkOrderBody(
        platform_id="ddh",
        platform_refs={"dataset_id": "rmhdag-samples", "resource_id": TABLE, "version_id": str(seed)},
        workflow_id=WORKFLOW,
        input_params={
            "container_name": source.container,
            "blob_name": source.path,
            "table_name": TABLE,
            "indexes": ["river"],
            "temporal_property": "opened",
            "properties": {"title": "Gauging stations"},
        },
    )
    try:
        accepted = platform.order(order)
    except CommandFailed as error:
        if NEEDS not in error.message:
            raise
        say(f"{paint('no table was loaded:', '33', sys.stderr)} {error.message.strip().splitlines()[-1].strip()}")
        return
    say(f"a vector layer comes in: {source.address}")
    ended = watch_to_end(platform, str(accepted.job_id))
    tables = (ended.result_data or {}).get("tables") or []
    rows = [f"  {table['collection']}: {table['row_count']:,} rows, {table['geometry_type']}" for table in tables]
    assert accepted.asset_id is not None
    assert accepted.revision is not None
    is_waiting = tell_review(platform, accepted.asset_id, accepted.revision)
    say("\n".join(["the tables will be:" if is_waiting else "loaded into these tables:", *rows]))

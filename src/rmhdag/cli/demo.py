"""`rmhdag demo`: process a sample raster and show the results."""

from __future__ import annotations

from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.operations import Operations
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json, say
from rmhdag.cli.raster_results import results_of, show_results, wait_for_catalogue
from rmhdag.cli.sample_data import CONTAINER, SeedOption, SizeOption, in_storage, require_geo, storage_of, wanted
from rmhdag.cli.submit import require_orchestrator
from rmhdag.cli.tables import show_bytes
from rmhdag.cli.vector_demo import show_vectors
from rmhdag.cli.waiting import watch_to_end
from rmhdag.models.api.assets import OrderAccepted, WorkOrderBody
from rmhdag.models.blobs import BlobRef
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.sampledata.kinds import DEFAULT_SEED, Kind

WORKFLOW = "raster_processing"
COLLECTION = "samples"


def register(app: typer.Typer) -> None:
    app.command(short_help="Process a sample raster and show the result.")(demo)


def demo(
    kind: Annotated[
        Kind, typer.Option("--kind", "-k", help="Which sample; for a tile-set, its first file.")
    ] = Kind.DEM,
    size: SizeOption = None,
    seed: SeedOption = DEFAULT_SEED,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Write a sample raster into blob storage, run `raster_processing` on it, and show the COG, the STAC item, the
    thumbnail and the asset's revision. With PostGIS, a vector layer then becomes a table by `vector_etl`. Needs a
    running platform: `rmhdag up`.

    \b
    Examples:
      rmhdag demo
      rmhdag demo --kind multiband --size 4096 --seed 7
      rmhdag demo --size 8192      large enough for the tiled branch
    """
    require_geo()
    if kind is Kind.VECTOR:
        raise CommandFailed(
            "this command processes a raster, and `vector` is none",
            remedy="Choose another kind; `rmhdag sample-data --to-storage --kind vector` writes vector layers.",
            code=ExitCode.USAGE,
        )
    with connected(url, database_url, schema, namespace=namespace) as platform:
        require_orchestrator(platform)
        storage = storage_of(platform.settings, platform.namespace)
        (source, *_) = in_storage(storage, CONTAINER, wanted([kind], size)[:1], seed)
        say(f"a raster comes in: {source.address}, {show_bytes(source.size_bytes)}")
        ordered = order_raster(platform, source, kind, seed)
        ended = watch_to_end(platform, str(ordered.job_id))
        results = results_of(platform, ended, ordered)
        if platform.settings.catalogue is CatalogueKind.STATIC:
            wait_for_catalogue(results, storage)
        if as_json:
            emit_json({"job_id": ordered.job_id, **results.as_facts()})
            return
        show_results(results, storage)
        show_vectors(platform, storage, seed)


def order_raster(platform: Operations, source: BlobRef, kind: Kind, seed: int) -> OrderAccepted:
    """As a data platform orders it: the same references are the same asset, so each time makes its next revision."""
    if platform.workflow(WORKFLOW, None) is None:
        raise CommandFailed(
            f"there is no workflow {WORKFLOW}",
            remedy="`rmhdag up` registers those that come with rmhdag.",
            code=ExitCode.NOT_FOUND,
        )
    return platform.order(
        WorkOrderBody(
            platform_id="ddh",
            platform_refs={"dataset_id": "rmhdag-samples", "resource_id": kind.value, "version_id": str(seed)},
            workflow_id=WORKFLOW,
            input_params={
                "container_name": source.container,
                "blob_name": source.path,
                "zone": str(source.zone),
                "item_id": f"{kind.value}-{seed}",
                "collection_id": COLLECTION,
            },
        )
    )

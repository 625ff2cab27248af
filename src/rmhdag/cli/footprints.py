"""`rmhdag footprints`: where assets and jobs lie on Earth."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from rmhdag.cli.doors import connected
from rmhdag.cli.listing import show_listing
from rmhdag.cli.options import JsonOption, NamespaceOption, SchemaOption, ServerOption, UrlOption
from rmhdag.cli.output import emit_json


def register(app: typer.Typer) -> None:
    app.command(short_help="Show where assets and jobs lie on the map.")(footprints)


def footprints(
    jobs: Annotated[bool, typer.Option("--jobs", help="Of jobs instead of assets.")] = False,
    bbox: Annotated[
        str | None,
        typer.Option("--bbox", metavar="W,S,E,N", help="Only in this area; across the antimeridian W is above E."),
    ] = None,
    geojson: Annotated[bool, typer.Option("--geojson", help="Print a GeoJSON FeatureCollection.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Maximum number of places.")] = 50,
    namespace: NamespaceOption = None,
    as_json: JsonOption = False,
    url: ServerOption = None,
    database_url: UrlOption = None,
    schema: SchemaOption = None,
) -> None:
    """Show where assets or jobs lie, newest first: their outputs, or the box that a job was given.

    \b
    Examples:
      rmhdag footprints
      rmhdag footprints --jobs --bbox 5.9,45.8,10.5,47.8
      rmhdag footprints --geojson > assets.geojson
    """
    box = None if bbox is None else _box(bbox)
    with connected(url, database_url, schema, namespace=namespace) as platform:
        places = platform.client.footprints("jobs" if jobs else "assets", bbox=box)
        lines = list(islice(places, limit))
    if geojson:
        emit_json({"type": "FeatureCollection", "features": [line.model_dump(mode="json") for line in lines]})
        return
    show_listing(
        "footprints",
        lines,
        ("ID", "TITLE", "STATUS", "WEST", "SOUTH", "EAST", "NORTH"),
        lambda line: (line.id, line.properties.title, line.properties.status, *(f"{side:.4f}" for side in line.bbox)),
        as_json=as_json,
        nothing="nothing lies there",
        right=("WEST", "SOUTH", "EAST", "NORTH"),
    )


def _box(text: str) -> tuple[float, float, float, float]:
    try:
        west, south, east, north = (float(side) for side in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not four numbers: write west,south,east,north in degrees", param_hint="--bbox"
        ) from None
    return west, south, east, north

"""The services: under which path each is found, and what it is for. Imports nothing heavy."""

from __future__ import annotations

from enum import StrEnum

# The only schema of which OGC features may see tables.
FEATURES_SCHEMA = "geo"
FILES = "files"


class Service(StrEnum):
    """The value is the first part of the path."""

    STAC = "stac"
    FEATURES = "features"
    TILES = "tiles"


TITLES = {
    Service.STAC: "STAC API (stac-fastapi-pgstac)",
    Service.FEATURES: "OGC API Features and vector tiles (tipg)",
    Service.TILES: "Raster tiles (titiler)",
}
# Paths on which each service itself says whether it works.
HEALTH = {Service.STAC: "/_mgmt/ping", Service.FEATURES: "/healthz", Service.TILES: "/healthz"}


def templates_at(base: str, *, stac: bool) -> dict[str, dict[str, str]]:
    """Addresses of the services, as the gateway's templates; of the STAC API only if it is served."""
    item = f"{base}/{Service.TILES}/collections/{{catalogue_id}}/items/{{item_id}}/assets/data"
    table = f"{base}/{Service.FEATURES}/collections/{FEATURES_SCHEMA}.{{table_name}}"
    catalogue = {
        "stac_collection": f"{base}/{Service.STAC}/collections/{{catalogue_id}}",
        "stac_item": f"{base}/{Service.STAC}/collections/{{catalogue_id}}/items/{{item_id}}",
    }
    return {
        "raster": {
            "service_url": f"{item}/WebMercatorQuad/tilejson.json",
            "preview": f"{item}/preview.png?max_size=512",
            "viewer": f"{item}/WebMercatorQuad/map.html",
            "tiles": f"{item}/tiles/WebMercatorQuad/{{z}}/{{x}}/{{y}}.png",
            **(catalogue if stac else {}),
        },
        "vector": {
            "service_url": table,
            "preview": f"{table}/tiles/WebMercatorQuad/map.html",
            "viewer": f"{table}/tiles/WebMercatorQuad/map.html",
            "tiles": f"{table}/tiles/WebMercatorQuad/{{z}}/{{x}}/{{y}}",
            **(catalogue if stac else {}),
        },
    }

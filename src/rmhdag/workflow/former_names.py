"""Names from files of the original system that rmhdag does not have, and what to write instead.

Only data: a name is looked up here after it was found to be unknown, so the real names of a handler always win.
Outputs are looked up even if a handler declares none, because reading them would give null when the job runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_NOTHING: Mapping[str, str] = MappingProxyType({})


class FormerNames(NamedTuple):
    """Remedies for one handler, by former name."""

    params: Mapping[str, str] = _NOTHING
    output: Mapping[str, str] = _NOTHING


_BY_NAME = "Write `container_name` and `blob_name` of the file in storage: no copy in a mounted folder is needed"
_BY_PATH = "Write its first part as `container_name` and the rest as `blob_name`"
_SOURCE = 'Write `source: "{{ nodes.NAME.output.source }}"`, where NAME is the node of `raster.validate`'
_IN_SOURCE = "Remove it: `source` from the output of `raster.validate` says all that is needed"
_PROFILE = "Write `profile` with `jpeg` for visualization, `deflate` for analysis or `lzw` for archive"
_PROFILE_LATER = "Remove it here: the compression is `profile` of `raster.create_cog`"
_PLACE_LATER = "Remove it here: the place of the COG is `container` of `raster.create_cog`"
_CRS_OF_FILE = "Remove it: the CRS is read from the file; one that lacks it gets it by `gdal_edit.py -a_srs EPSG:4326`"
_REPROJECT = (
    "Remove it, or add a node of `raster.reproject` with `crs` before this one and write "
    '`source: "{{ nodes.NAME.output.raster }}"` with its name'
)
_REPROJECT_BEFORE = "Remove it, or add a node of `raster.reproject` with `crs` before `raster.generate_tiling_scheme`"
_EXTENT = "Remove it: the extent of a collection is that of its items"
_REFERENCE = (
    "Remove it: references of a data platform belong to the order, "
    "as in `rmhdag submit NAME --platform ddh --ref dataset_id=a1`"
)
_ACCESS = "Remove it: no handler sets who may see the data"
_REFERENCES = {
    "dataset_id": _REFERENCE,
    "resource_id": _REFERENCE,
    "version_id": _REFERENCE,
    "access_level": _ACCESS,
}
_ITEM = (
    'Write `item: "{{ nodes.NAME.output.item }}"`, where NAME is a node of `raster.extract_stac_metadata` '
    "behind that of `raster.create_cog`"
)
_ITEM_ID = "Write it as `item_id` of the node of `raster.extract_stac_metadata`"
_ITEM_TITLE = "Write it as `properties: {title: …}` of the node of `raster.extract_stac_metadata`"
_ITEM_TAGS = "Write it as `properties: {keywords: …}` of the node of `raster.extract_stac_metadata`"
_GATHERED = (
    'Write `gathered: "{{ nodes.NAME.output }}"`, where NAME is a fan-in of outputs with an `item`; '
    "tiles of one raster are joined by `raster.mosaic` and become one COG with one item"
)
_SCHEME = (
    'Write `scheme: "{{ nodes.NAME.output.scheme }}"` and `batch: "{{ item }}"` '
    "in a fan-out over `nodes.NAME.output.batches`, where NAME is the node of `raster.generate_tiling_scheme`"
)
_SOURCE_OF_SCHEME = (
    'Write `source: "{{ nodes.NAME.output.source }}"`, where NAME is the node of `raster.generate_tiling_scheme`'
)
_NO_OVERLAP = "Remove it: tiles do not overlap, and `raster.mosaic` joins them"

HANDLERS: Mapping[str, FormerNames] = {
    "raster.blob_to_mount": FormerNames(
        output={
            "local_path": "Read `path`; handlers of rmhdag take `container_name` and `blob_name` instead of it",
            "size_mb": "Read `size_bytes`",
        },
    ),
    "raster.validate": FormerNames(
        params={
            "local_path": _BY_NAME,
            "blob_path": _BY_PATH,
            "source_path": _BY_PATH,
            "storage_account": "Remove it: where files are stored is a setting of the platform",
            "input_crs": _CRS_OF_FILE,
            "output_tier": _PROFILE_LATER,
        },
        output={
            "valid": "Remove it: the node fails if the file is not valid",
            "source_crs": "Read `crs`",
            "shape": "Read `height` and `width`",
            "band_count": "Read `bands`",
            "size_mb": "Read `file_size_mb`",
            "estimated_compressed_mb": "Read `file_size_mb`, the size of the file as it came, or `pixels`",
            "compression_profile": "Name the `profile` of `raster.create_cog` yourself",
            "applicable_tiers": "Name the `profile` of `raster.create_cog` yourself",
            "raster_type": "Read `bands` and `dtype`",
        },
    ),
    "raster.create_cog": FormerNames(
        params={
            "local_path": _SOURCE,
            "source_path": _BY_PATH,
            "source_url": _SOURCE,
            "validation": _IN_SOURCE,
            "target_crs": _REPROJECT,
            "output_tier": _PROFILE,
            "output_folder": "Write `container` for a container of your own; in it the file is named by `item_id`",
            "collection_id": "Remove it here: it belongs to the node of `raster.extract_stac_metadata`",
            "use_mount": "Remove it: files are read where they are",
        },
        output={
            "cog_blob": "Read `cog.path`, or hand on `cog` as a whole",
            "cog_container": "Read `cog.container`, or hand on `cog` as a whole",
            "cog_url": "Hand on `cog` as a whole",
            "size_mb": "Read `cog.size_bytes`",
            "file_checksum": "Read `cog.sha256`",
            "metadata": "Read `item` of a node of `raster.extract_stac_metadata`",
        },
    ),
    "raster.generate_tiling_scheme": FormerNames(
        params={"local_path": _SOURCE, "validation": _IN_SOURCE, "tile_overlap": _NO_OVERLAP},
        output={
            "grid_dimensions": "Read `scheme.width`, `scheme.height`, `scheme.tile_width` and `scheme.tile_height`"
        },
    ),
    "raster.process_tile_batch": FormerNames(
        params={
            "local_path": _SOURCE_OF_SCHEME,
            "validation": _SOURCE_OF_SCHEME,
            "tiling_scheme": _SCHEME,
            "target_crs": _REPROJECT_BEFORE,
            "output_tier": _PROFILE_LATER,
            "output_folder": _PLACE_LATER,
        },
        output={
            "tile_cogs": "Hand the output of a fan-in over the batches to `results` of `raster.mosaic`",
            "cog_container": "Hand the output of a fan-in over the batches to `results` of `raster.mosaic`",
            "collection_bounds": _EXTENT,
        },
    ),
    "raster.stac_ensure_collection": FormerNames(
        params={"bounds": _EXTENT, "grid_dimensions": _EXTENT, "is_tiled": _EXTENT, **_REFERENCES},
    ),
    "raster.stac_register_item": FormerNames(
        params={
            "cog_blob": _ITEM,
            "cog_container": _ITEM,
            "validation": _ITEM,
            "item_id": _ITEM_ID,
            "title": _ITEM_TITLE,
            "tags": _ITEM_TAGS,
            **_REFERENCES,
        },
    ),
    "raster.stac_register_items": FormerNames(
        params={
            "tile_cogs": _GATHERED,
            "cog_container": _GATHERED,
            "validation": _GATHERED,
            "tags": _ITEM_TAGS,
            **_REFERENCES,
        },
    ),
}

# Handlers that had another name, or whose work is no longer a separate step.
FORMER_HANDLERS: Mapping[str, str] = {
    "blob_upload": "Remove the node: `raster.create_cog` keeps its file in storage itself",
    "raster_cog_functionapp": "Write `raster.create_cog`",
    "stac_publish": "Write `raster.stac_register_item`, behind a node of `raster.extract_stac_metadata`",
    "stac_register": "Write `raster.stac_register_item`, behind a node of `raster.extract_stac_metadata`",
}

# Former roots of templates.
FORMER_ROOTS: Mapping[str, str] = {
    "upstream": (
        "Write `nodes.NAME` with the node that runs before; of several, "
        "`nodes.a.output.x | default(nodes.b.output.x)` takes the one that ran"
    ),
}

_NONE = FormerNames()


def former_names_of(handler: str) -> FormerNames:
    """By the handler's name, not by an alias."""
    return HANDLERS.get(handler, _NONE)

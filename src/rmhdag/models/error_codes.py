"""Every code that an error or a warning about data may have: one table, which docs/error-codes.md is made from.

    python -m rmhdag.models.error_codes > docs/error-codes.md

A code keeps its meaning for ever: clients compare it, and results of years ago carry it. Handlers outside this package
may use codes of their own, with a category; they cannot give a code of this table another one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

CODE_PATTERN = r"^[A-Z][A-Z0-9_]{0,63}$"


class ErrorCategory(StrEnum):
    """Who can do something about it."""

    DATA_MISSING = "data_missing"
    DATA_QUALITY = "data_quality"
    DATA_INCOMPATIBLE = "data_incompatible"
    PARAMETER = "parameter"
    SYSTEM = "system"
    SERVICE_UNAVAILABLE = "service_unavailable"
    CONFIGURATION = "configuration"


USER_FIXABLE = frozenset(
    {
        ErrorCategory.DATA_MISSING,
        ErrorCategory.DATA_QUALITY,
        ErrorCategory.DATA_INCOMPATIBLE,
        ErrorCategory.PARAMETER,
    }
)
RETRIED = frozenset({ErrorCategory.SYSTEM, ErrorCategory.SERVICE_UNAVAILABLE})

CATEGORY_MEANINGS: dict[ErrorCategory, str] = {
    ErrorCategory.DATA_MISSING: "Something that was ordered is not where the order says.",
    ErrorCategory.DATA_QUALITY: "The data is there, but damaged, incomplete or contradictory.",
    ErrorCategory.DATA_INCOMPATIBLE: "The data is sound, but not of a kind that this workflow takes.",
    ErrorCategory.PARAMETER: "A parameter of the order is missing or wrong.",
    ErrorCategory.SYSTEM: "The platform failed at it. It tries again by itself.",
    ErrorCategory.SERVICE_UNAVAILABLE: "Something the platform needs did not answer. It tries again by itself.",
    ErrorCategory.CONFIGURATION: "The platform is not set up for it. An operator has to act.",
}


class ErrorCode(NamedTuple):
    category: ErrorCategory
    meaning: str
    remediation: str


_MISSING = ErrorCategory.DATA_MISSING
_QUALITY = ErrorCategory.DATA_QUALITY
_INCOMPATIBLE = ErrorCategory.DATA_INCOMPATIBLE
_PARAMETER = ErrorCategory.PARAMETER
_SYSTEM = ErrorCategory.SYSTEM
_UNAVAILABLE = ErrorCategory.SERVICE_UNAVAILABLE
_CONFIGURATION = ErrorCategory.CONFIGURATION

_WAIT = "Nothing to do: it is tried again. If it still fails, report it to the operator."
_SPLIT = "Split the collection, or convert the files so that they agree."

ERROR_CODES: dict[str, ErrorCode] = {
    # Files and what is in them
    "CONTAINER_NOT_FOUND": ErrorCode(_MISSING, "The container does not exist.", "Check the container's name."),
    "FILE_NOT_FOUND": ErrorCode(
        _MISSING, "The file does not exist in its container.", "Upload the file, or check its path."
    ),
    "RESOURCE_NOT_FOUND": ErrorCode(
        _MISSING, "Something that the order names does not exist.", "Check the identifiers in the order."
    ),
    "FILE_UNREADABLE": ErrorCode(_QUALITY, "The file cannot be read.", "Export the file again and upload it anew."),
    "CORRUPTED_FILE": ErrorCode(
        _QUALITY, "The file is damaged or incomplete.", "Upload the file again and compare its size."
    ),
    "INVALID_FORMAT": ErrorCode(
        _INCOMPATIBLE, "The file is not of a format that is accepted.", "Convert the file to an accepted format."
    ),
    "CRS_MISSING": ErrorCode(
        _QUALITY,
        "The data names no coordinate reference system, and none was given.",
        "Add it to the file (gdal_edit.py -a_srs EPSG:…), or give it with the order.",
    ),
    "CRS_MISMATCH": ErrorCode(
        _INCOMPATIBLE,
        "The data and the order name different coordinate reference systems.",
        "Leave the parameter out to use that of the file, or correct the file.",
    ),
    "VALIDATION_ERROR": ErrorCode(
        _QUALITY, "The data did not pass a check.", "Correct what the message names and order it again."
    ),
    "INVALID_PARAMETER": ErrorCode(
        _PARAMETER, "A parameter has a value that is not allowed.", "Correct the parameter and order it again."
    ),
    "MISSING_PARAMETER": ErrorCode(
        _PARAMETER, "A parameter that is required is missing.", "Give the parameter and order it again."
    ),
    # Rasters
    "RASTER_UNREADABLE": ErrorCode(
        _QUALITY, "GDAL cannot open the raster.", "Check the file with gdalinfo and export it again."
    ),
    "RASTER_TOO_LARGE": ErrorCode(
        _INCOMPATIBLE, "The raster is larger than can be processed.", "Cut it into smaller files."
    ),
    "GEOTRANSFORM_MISSING": ErrorCode(
        _QUALITY,
        "The raster does not say where on Earth it lies.",
        "Set its corners: gdal_edit.py -a_ullr ULX ULY LRX LRY.",
    ),
    "RASTER_BAND_INVALID": ErrorCode(
        _INCOMPATIBLE, "The raster has no band, or too many.", "Select the bands that are needed."
    ),
    "RASTER_64BIT_REJECTED": ErrorCode(
        _INCOMPATIBLE, "The raster has 64-bit values.", "Convert it: gdal_translate -ot Float32 (or Int32)."
    ),
    "BIT_DEPTH_POLICY_VIOLATION": ErrorCode(
        _INCOMPATIBLE, "The data type of the pixels is not accepted here.", "Convert the raster to an accepted type."
    ),
    "RASTER_EMPTY": ErrorCode(
        _QUALITY, "The raster has no pixel with data, or next to none.", "Check the nodata value, and the export."
    ),
    "RASTER_NODATA_CONFLICT": ErrorCode(
        _QUALITY,
        "The nodata value also occurs as a value of the data.",
        "Choose a nodata value outside the range of the data.",
    ),
    "RASTER_EXTREME_VALUES": ErrorCode(
        _QUALITY,
        "The raster has values that no measurement has, such as 3.4e38.",
        "Declare that value as nodata: gdal_edit.py -a_nodata VALUE.",
    ),
    "RASTER_TYPE_MISMATCH": ErrorCode(
        _INCOMPATIBLE, "The raster is not of the type that the order names.", "Correct the type, or leave it out."
    ),
    "COG_TRANSLATE_FAILED": ErrorCode(_SYSTEM, "The raster could not be written as a COG.", _WAIT),
    "REPROJECTION_FAILED": ErrorCode(
        _INCOMPATIBLE,
        "The data cannot be transformed into the target coordinate reference system.",
        "Check that the data lies where both systems are defined.",
    ),
    # Vectors
    "VECTOR_UNREADABLE": ErrorCode(_QUALITY, "The vector file cannot be read.", "Check it with ogrinfo."),
    "VECTOR_NO_FEATURES": ErrorCode(_QUALITY, "The layer has no features.", "Check the export and the layer's name."),
    "VECTOR_GEOMETRY_INVALID": ErrorCode(
        _QUALITY, "Geometries are invalid and cannot be repaired.", "Repair them, for example with ST_MakeValid."
    ),
    "VECTOR_GEOMETRY_EMPTY": ErrorCode(_QUALITY, "Features have no geometry.", "Remove them, or add the geometry."),
    "VECTOR_COORDINATE_ERROR": ErrorCode(
        _QUALITY, "Coordinates cannot be read or lie outside the valid range.", "Check columns and axis order."
    ),
    "VECTOR_ENCODING_ERROR": ErrorCode(_QUALITY, "Text is not in the encoding it claims.", "Export it as UTF-8."),
    "VECTOR_ATTRIBUTE_ERROR": ErrorCode(
        _QUALITY, "Attributes cannot be stored as they are.", "Correct the columns that the message names."
    ),
    "VECTOR_TABLE_NAME_INVALID": ErrorCode(
        _PARAMETER, "The name of the table is not allowed.", "Use lower-case letters, digits and underscores."
    ),
    "VECTOR_FORMAT_MISMATCH": ErrorCode(
        _INCOMPATIBLE, "The content is not what the file's extension says.", "Rename or convert the file."
    ),
    "VECTOR_MIXED_GEOMETRY": ErrorCode(
        _INCOMPATIBLE, "The layer mixes kinds of geometry.", "Split it into one layer per kind."
    ),
    "TABLE_EXISTS": ErrorCode(
        _PARAMETER, "The table exists already.", "Choose another name, or order it with overwrite."
    ),
    # Collections of files
    "COLLECTION_BAND_MISMATCH": ErrorCode(_INCOMPATIBLE, "The files have different numbers of bands.", _SPLIT),
    "COLLECTION_DTYPE_MISMATCH": ErrorCode(_INCOMPATIBLE, "The files have different data types.", _SPLIT),
    "COLLECTION_CRS_MISMATCH": ErrorCode(
        _INCOMPATIBLE, "The files have different coordinate reference systems.", _SPLIT
    ),
    "COLLECTION_RESOLUTION_MISMATCH": ErrorCode(_INCOMPATIBLE, "The files have different resolutions.", _SPLIT),
    "COLLECTION_TYPE_MISMATCH": ErrorCode(_INCOMPATIBLE, "The files are of different types of raster.", _SPLIT),
    "HREF_REFUSED": ErrorCode(
        _PARAMETER,
        "A STAC item or collection links to something that must not be published.",
        "Link to http(s) without credentials, or to files of your own in our storage.",
    ),
    # The platform's own
    "DATABASE_ERROR": ErrorCode(_SYSTEM, "The data database refused or broke off a statement.", _WAIT),
    "DATABASE_UNAVAILABLE": ErrorCode(_UNAVAILABLE, "The data database does not answer.", _WAIT),
    "STORAGE_ERROR": ErrorCode(_SYSTEM, "Blob storage refused or broke off an operation.", _WAIT),
    "STORAGE_UNAVAILABLE": ErrorCode(_UNAVAILABLE, "Blob storage does not answer.", _WAIT),
    "STORAGE_NOT_CONFIGURED": ErrorCode(
        _CONFIGURATION,
        "The worker has no blob storage.",
        "Set RMHDAG_STORAGE where the worker is started, then retry the node.",
    ),
    "UPLOAD_FAILED": ErrorCode(_SYSTEM, "A file could not be stored.", _WAIT),
    "DOWNLOAD_FAILED": ErrorCode(_SYSTEM, "A file could not be fetched.", _WAIT),
    "QUEUE_ERROR": ErrorCode(_SYSTEM, "The queue of tasks did not work.", _WAIT),
    "MEMORY_ERROR": ErrorCode(
        _SYSTEM,
        "The task needed more memory than it may use.",
        "Give tasks more memory (RMHDAG_TASK_MEMORY_MB), or process smaller files.",
    ),
    "DISK_FULL": ErrorCode(_SYSTEM, "The disk of the worker is full or read-only.", "Free space on the worker's disk."),
    "TIMEOUT": ErrorCode(
        _SYSTEM, "The task took longer than it may.", "Raise timeout_seconds of the node, or process smaller files."
    ),
    "THROTTLED": ErrorCode(_UNAVAILABLE, "A service asked for fewer requests.", _WAIT),
}

WARNING_CODES: dict[str, str] = {
    "CRS_OVERRIDE": "The file names no coordinate reference system; the one that was given is used.",
    "SUSPICIOUS_BOUNDS": "The data lies outside the range of its coordinate reference system.",
    "INEFFICIENT_BIT_DEPTH": "A smaller data type would hold the same values.",
    "TIER_INCOMPATIBLE": "The output tier does not fit the data; another one was used.",
    "RASTER_EMPTY": "The raster has next to no pixel with data.",
    "RASTER_NODATA_CONFLICT": "The nodata value also occurs as a value of the data.",
    "RASTER_EXTREME_VALUES": "The raster has values that no measurement has, such as 3.4e38.",
    "MORE_WARNINGS": "Warnings of further kinds, which are only counted: at most 100 kinds are kept.",
}


def render_page() -> str:
    lines = [
        "# Error and warning codes",
        "",
        "What a failed task says about its cause, besides a sentence: a code that never changes its meaning, a",
        "category that says who can do something about it, and what to do. `job`, `job --node`, the API and the",
        "Python client show them; [handlers](architecture/handlers.md) says how a handler of your own reports them.",
        "",
        "Made from `src/rmhdag/models/error_codes.py` by `python -m rmhdag.models.error_codes > docs/error-codes.md`.",
        "",
        "## Categories",
        "",
        "| category | meaning | fixed by | tried again |",
        "|---|---|---|---|",
    ]
    for category, meaning in CATEGORY_MEANINGS.items():
        fixed_by = "whoever ordered" if category in USER_FIXABLE else "operator"
        if category in RETRIED:
            fixed_by = "the platform"
        again = "yes, by the node's retry rule" if category in RETRIED else "no"
        lines.append(f"| `{category}` | {meaning} | {fixed_by} | {again} |")
    lines += [
        "",
        "A handler may say otherwise for one error (`retryable`, `user_fixable`).",
        "",
        "## Errors",
        "",
        "| code | category | meaning | what to do |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{code}` | `{of.category}` | {of.meaning} | {of.remediation} |" for code, of in ERROR_CODES.items()]
    lines += [
        "",
        "## Warnings",
        "",
        "A task that succeeded may warn. Warnings are kept with its result and summed per job, by code.",
        "",
        "| code | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{code}` | {meaning} |" for code, meaning in WARNING_CODES.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render_page(), end="")

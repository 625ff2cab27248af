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
    ErrorCategory.DATA_MISSING: "Data named in the order does not exist there.",
    ErrorCategory.DATA_QUALITY: "The data exists, but is damaged, incomplete or contradictory.",
    ErrorCategory.DATA_INCOMPATIBLE: "The data is valid, but this workflow does not accept this kind of data.",
    ErrorCategory.PARAMETER: "A parameter of the order is missing or wrong.",
    ErrorCategory.SYSTEM: "The platform failed. It retries by itself.",
    ErrorCategory.SERVICE_UNAVAILABLE: "A service that the platform needs did not answer. The platform retries by "
    "itself.",
    ErrorCategory.CONFIGURATION: "The platform is not configured for this. An operator has to act.",
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

_WAIT = "Nothing: the platform retries. If it still fails, report it to the operator."
_SPLIT = "Split the collection, or convert the files so that they agree."

ERROR_CODES: dict[str, ErrorCode] = {
    # Files and what is in them
    "CONTAINER_NOT_FOUND": ErrorCode(_MISSING, "The container does not exist.", "Check the container's name."),
    "FILE_NOT_FOUND": ErrorCode(
        _MISSING, "The file does not exist in its container.", "Upload the file, or check its path."
    ),
    "RESOURCE_NOT_FOUND": ErrorCode(
        _MISSING, "An object named in the order does not exist.", "Check the identifiers in the order."
    ),
    "FILE_UNREADABLE": ErrorCode(_QUALITY, "The file cannot be read.", "Export the file again and upload it again."),
    "CORRUPTED_FILE": ErrorCode(
        _QUALITY, "The file is damaged or incomplete.", "Upload the file again and compare its size."
    ),
    "FILE_TOO_LARGE": ErrorCode(
        _INCOMPATIBLE, "The file is larger than the workflow accepts.", "Cut it into smaller files."
    ),
    "INVALID_FORMAT": ErrorCode(
        _INCOMPATIBLE, "The file format is not accepted.", "Convert the file to an accepted format."
    ),
    "CRS_MISSING": ErrorCode(
        _QUALITY,
        "The data has no coordinate reference system, and the order names none.",
        "Add it to the file (gdal_edit.py -a_srs EPSG:…, ogr2ogr -a_srs EPSG:…) and order again.",
    ),
    "CRS_MISMATCH": ErrorCode(
        _INCOMPATIBLE,
        "The data and the order name different coordinate reference systems.",
        "Leave out the parameter to use the file's system, or correct the file.",
    ),
    "VALIDATION_ERROR": ErrorCode(
        _QUALITY, "The data did not pass a check.", "Correct what the message names and order again."
    ),
    "INVALID_PARAMETER": ErrorCode(
        _PARAMETER, "A parameter has a value that is not allowed.", "Correct the parameter and order again."
    ),
    "MISSING_PARAMETER": ErrorCode(
        _PARAMETER, "A required parameter is missing.", "Pass the parameter and order again."
    ),
    # Rasters
    "RASTER_UNREADABLE": ErrorCode(
        _QUALITY, "GDAL cannot open the raster.", "Check the file with gdalinfo and export it again."
    ),
    "RASTER_TOO_LARGE": ErrorCode(
        _INCOMPATIBLE, "The raster is too large to be processed.", "Cut it into smaller files."
    ),
    "GEOTRANSFORM_MISSING": ErrorCode(
        _QUALITY,
        "The raster has no position on Earth.",
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
        _QUALITY, "The raster has no or hardly any pixels with data.", "Check the nodata value, and the export."
    ),
    "RASTER_NODATA_CONFLICT": ErrorCode(
        _QUALITY,
        "The nodata value also occurs as a value of the data.",
        "Choose a nodata value outside the range of the data.",
    ),
    "RASTER_EXTREME_VALUES": ErrorCode(
        _QUALITY,
        "The raster has implausible values, such as 3.4e38.",
        "Declare that value as nodata: gdal_edit.py -a_nodata VALUE.",
    ),
    "RASTER_TYPE_MISMATCH": ErrorCode(
        _INCOMPATIBLE, "The raster type differs from the one in the order.", "Correct the type, or leave it out."
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
    "VECTOR_ENCODING_ERROR": ErrorCode(_QUALITY, "Text is not in the declared encoding.", "Export it as UTF-8."),
    "VECTOR_ATTRIBUTE_ERROR": ErrorCode(
        _QUALITY, "Attributes cannot be stored.", "Correct the columns that the message names."
    ),
    "VECTOR_TABLE_NAME_INVALID": ErrorCode(
        _PARAMETER, "The name of the table is not allowed.", "Use lower-case letters, digits and underscores."
    ),
    "VECTOR_FORMAT_MISMATCH": ErrorCode(
        _INCOMPATIBLE, "The content does not match the file extension.", "Rename or convert the file."
    ),
    "VECTOR_MIXED_GEOMETRY": ErrorCode(
        _INCOMPATIBLE, "The layer mixes kinds of geometry.", "Split it into one layer per kind."
    ),
    "ROW_COUNT_MISMATCH": ErrorCode(
        _SYSTEM, "A table does not have the rows that were prepared for it.", "Run the job again from the beginning."
    ),
    "TABLE_EXISTS": ErrorCode(_PARAMETER, "The table already exists.", "Choose another name, or order with overwrite."),
    # Collections of files
    "COLLECTION_BAND_MISMATCH": ErrorCode(_INCOMPATIBLE, "The files have different numbers of bands.", _SPLIT),
    "COLLECTION_DTYPE_MISMATCH": ErrorCode(_INCOMPATIBLE, "The files have different data types.", _SPLIT),
    "COLLECTION_CRS_MISMATCH": ErrorCode(
        _INCOMPATIBLE, "The files have different coordinate reference systems.", _SPLIT
    ),
    "COLLECTION_RESOLUTION_MISMATCH": ErrorCode(_INCOMPATIBLE, "The files have different resolutions.", _SPLIT),
    "COLLECTION_TYPE_MISMATCH": ErrorCode(_INCOMPATIBLE, "The files have different raster types.", _SPLIT),
    "HREF_REFUSED": ErrorCode(
        _PARAMETER,
        "A STAC item or collection contains a link that must not be published.",
        "Use http(s) links without credentials, or links to your own files in the platform's storage.",
    ),
    # The platform's own
    "DATABASE_ERROR": ErrorCode(_SYSTEM, "The data database refused or aborted a statement.", _WAIT),
    "DATABASE_UNAVAILABLE": ErrorCode(_UNAVAILABLE, "The data database does not answer.", _WAIT),
    "STORAGE_ERROR": ErrorCode(_SYSTEM, "Blob storage refused or aborted an operation.", _WAIT),
    "STORAGE_UNAVAILABLE": ErrorCode(_UNAVAILABLE, "Blob storage does not answer.", _WAIT),
    "STORAGE_NOT_CONFIGURED": ErrorCode(
        _CONFIGURATION,
        "The worker has no blob storage.",
        "Set RMHDAG_STORAGE where the worker is started, then retry the node.",
    ),
    "POSTGIS_NOT_CONFIGURED": ErrorCode(
        _CONFIGURATION,
        "There is no data database (PostGIS) for vector tables.",
        "Install postgresql-15-postgis-3 for the embedded PostgreSQL, or set RMHDAG_POSTGIS_URL; files alone are "
        "written with `target: geoparquet`.",
    ),
    "MOUNT_UNUSABLE": ErrorCode(
        _CONFIGURATION,
        "The folder that the worker copies files to is not configured, or cannot be used.",
        "Do what the message says where the worker runs, then retry the node.",
    ),
    "UPLOAD_FAILED": ErrorCode(_SYSTEM, "A file could not be stored.", _WAIT),
    "DOWNLOAD_FAILED": ErrorCode(_SYSTEM, "A file could not be downloaded.", _WAIT),
    "QUEUE_ERROR": ErrorCode(_SYSTEM, "The task queue failed.", _WAIT),
    "MEMORY_ERROR": ErrorCode(
        _SYSTEM,
        "The task exceeded its memory limit.",
        "Give tasks more memory (RMHDAG_TASK_MEMORY_MB), or process smaller files.",
    ),
    "DISK_FULL": ErrorCode(_SYSTEM, "The disk of the worker is full or read-only.", "Free space on the worker's disk."),
    "TIMEOUT": ErrorCode(
        _SYSTEM, "The task exceeded its time limit.", "Raise timeout_seconds of the node, or process smaller files."
    ),
    "THROTTLED": ErrorCode(_UNAVAILABLE, "A service rejected requests because there were too many.", _WAIT),
}

WARNING_CODES: dict[str, str] = {
    "CRS_OVERRIDE": "The file has no coordinate reference system; the one in the order is used.",
    "SUSPICIOUS_BOUNDS": "The data is outside the range of its coordinate reference system.",
    "INEFFICIENT_BIT_DEPTH": "A smaller data type would hold the same values.",
    "TIER_INCOMPATIBLE": "The output tier does not suit the data; another one was used.",
    "RASTER_EMPTY": "The raster has hardly any pixels with data.",
    "RASTER_NODATA_CONFLICT": "The nodata value also occurs as a value of the data.",
    "RASTER_EXTREME_VALUES": "The raster has implausible values, such as 3.4e38.",
    "RASTER_NODATA_UNDECLARED": "Pixels are not a number (NaN), and the file does not declare NaN as nodata.",
    "RASTER_NODATA_SUSPECTED": "A value that looks like nodata is frequent, and is not declared as nodata.",
    "NODATA_OVERRIDE": "The nodata value of the order is used instead of that of the file.",
    "RASTER_SOUTH_UP": "The raster is stored from south to north.",
    "RASTER_ROTATED": "The raster is rotated.",
    "RASTER_IMAGES_IGNORED": "The file holds several images, and only the first is used.",
    "CRS_ASSUMED": "The coordinate reference system has no code; the one that it resembles is used.",
    "CRS_HEIGHT_DROPPED": "The heights of the coordinate reference system are not kept.",
    "DATETIME_ASSUMED": "The file names no date; the time at which it was stored is used.",
    "NULL_GEOMETRY_DROPPED": "Features without a geometry are left out.",
    "GEOMETRY_UNREADABLE_DROPPED": "Rows whose geometry cannot be read are left out.",
    "GEOMETRY_REPAIRED": "Invalid geometries were repaired.",
    "GEOMETRY_PARTS_DROPPED": "Parts of another kind of geometry, which the repair has made, are left out.",
    "GEOMETRY_COLLAPSED_DROPPED": "Features of which the repair or the simplification left nothing are left out.",
    "GEOMETRY_HEIGHTS_DROPPED": "Heights and measures are left out.",
    "ANTIMERIDIAN_SPLIT": "Features that cross 180 degrees of longitude are cut there.",
    "GEOMETRY_TYPE_SPLIT": "The layer mixes kinds of geometry, so that it becomes several tables.",
    "EMPTY_COLUMNS_DROPPED": "Columns without any value are left out.",
    "EMPTY_ROWS_DROPPED": "Rows without any value are left out.",
    "COLUMNS_RENAMED": "Columns were renamed; the result lists old and new names.",
    "RESERVED_COLUMNS_RENAMED": "Columns with names that every table has (id, geom) are kept as source_….",
    "FEATURE_IDS_DROPPED": "The `id`s of GeoJSON features are left out: not all have one, or one comes twice.",
    "DATES_RESET": "Dates outside of the years 1 to 9999 became null.",
    "TEXT_CHANGED": "Characters that the database cannot store were removed from text.",
    "HEADER_SUSPICIOUS": "Names of columns look like data: the header may be missing.",
    "LAYERS_WITHOUT_GEOMETRY_IGNORED": "Layers without geometries are not loaded.",
    "MORE_WARNINGS": "Warnings with other codes, which are only counted: at most 100 codes are kept.",
}


def render_page() -> str:
    lines = [
        "# Error and warning codes",
        "",
        "A failed task reports its cause as a sentence and a code that never changes its meaning. The category of the",
        "code says who can fix it. `job`, `job --node`, the API and the Python client show both;",
        "[handlers](architecture/handlers.md) explains how your own handler reports them.",
        "",
        "Made from `src/rmhdag/models/error_codes.py` by `python -m rmhdag.models.error_codes > docs/error-codes.md`.",
        "",
        "## Categories",
        "",
        "| category | meaning | fixed by | tried again |",
        "|---|---|---|---|",
    ]
    for category, meaning in CATEGORY_MEANINGS.items():
        fixed_by = "the client who ordered" if category in USER_FIXABLE else "operator"
        if category in RETRIED:
            fixed_by = "the platform"
        again = "yes, by the node's retry rule" if category in RETRIED else "no"
        lines.append(f"| `{category}` | {meaning} | {fixed_by} | {again} |")
    lines += [
        "",
        "A handler may override both for a single error (`retryable`, `user_fixable`).",
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
        "A successful task may report warnings. They are stored with its result and summed per job, by code.",
        "",
        "| code | meaning |",
        "|---|---|",
    ]
    lines += [f"| `{code}` | {meaning} |" for code, meaning in WARNING_CODES.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render_page(), end="")

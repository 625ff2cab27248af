"""The order form of the Data Distribution Hub, translated into an order of ours.

A pure function: a form goes in, an order or all that is wrong with the form comes out. Nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ValidationError

from rmhdag.gateway import ddh_names as names
from rmhdag.gateway.ddh_forms import (
    MANY_FILES,
    ONE_FILE,
    OPTIONS,
    SENTENCES,
    CollectionOptions,
    DataType,
    DdhForm,
    Options,
    RasterOptions,
    VectorOptions,
)
from rmhdag.models.api.assets import WorkOrderBody
from rmhdag.models.assets import Classification
from rmhdag.models.json_values import json_pointer
from rmhdag.models.refusals import Kind, Place, Refusal

PLATFORM = "ddh"
WORKFLOWS = {
    DataType.RASTER: "raster_processing",
    DataType.VECTOR: "vector_etl",
    DataType.COLLECTION: "raster_collection",
}
# What a partner learns if the platform has no such workflow: what it does not process, and what to do instead.
NOT_OFFERED = {
    DataType.RASTER: ("rasters", "Ask the operator of the platform which data it processes."),
    DataType.VECTOR: ("vector files", "Ask the operator of the platform which data it processes."),
    DataType.COLLECTION: ("collections of several rasters", "Order each file by itself, as a resource of its own."),
}
RASTER_EXTENSIONS = frozenset({".tif", ".tiff", ".geotiff"})
VECTOR_EXTENSIONS = frozenset({".csv", ".geojson", ".json", ".gpkg", ".kml", ".kmz", ".zip", ".fgb", ".parquet"})
# What people send nevertheless, and what to do about it.
REFUSED_EXTENSIONS = {
    ".shp": "a shapefile is several files: put its .shp, .shx, .dbf and .prj into one .zip",
    ".gdb": "a File Geodatabase is a folder: put the whole folder into one .zip",
    ".zarr": "Zarr stores are not processed here: convert it to GeoTIFF (.tif)",
    ".nc": "NetCDF is not processed here: convert it to GeoTIFF (.tif)",
    **dict.fromkeys((".img", ".hdf", ".hdf5", ".jp2", ".ecw", ".vrt"), "rasters are accepted as GeoTIFF (.tif) only"),
}
PROFILES = {"visualization": "jpeg", "analysis": "deflate", "archive": "lzw"}
# How overviews of each type are made; `auto` leaves that to the platform.
OVERVIEWS = {
    **dict.fromkeys(("rgb", "rgba", "nir"), "cubic"),
    **dict.fromkeys(("dem", "multispectral", "continuous", "vegetation_index", "population", "hydrology"), "average"),
    **dict.fromkeys(("flood_depth", "flood_probability"), "average"),
    "categorical": "mode",
    "temporal": "nearest",
}
# Where a form has what is a place in the order that is made of it.
GIVEN_IN_FORM = {
    "/input_params/container_name": "/container_name",
    "/input_params/blob_name": "/file_name",
    "/input_params/profile": "/processing_options/output_tier",
    **{
        f"/input_params/{name}": f"/processing_options/{name}"
        for name in (
            *("collection_id", "crs", "raster_type", "table_name", "layer_name", "layer_names", "lat_column"),
            *("lon_column", "wkt_column", "indexes", "temporal_property", "create_stac", "split_column", "target"),
        )
    },
    "/platform_refs/dataset_id": "/dataset_id",
    "/platform_refs/resource_id": "/resource_id",
    "/platform_refs/version_id": "/version_id",
    "/previous_version": "/previous_version_id",
    "/workflow_id": "/file_name",
}
# The words of DDH, for the properties of the item.
DDH_ACCESS = {Classification.PUBLIC: "public", Classification.RESTRICTED: "ouo"}


class InvalidDdhOrder(Refusal):
    """All that is wrong with a form, each with its place."""

    def __init__(self, places: list[Place]) -> None:
        message = places[0].detail if len(places) == 1 else f"{len(places)} things are wrong with the order"
        super().__init__(Kind.INVALID, "invalid_order", message, places=places)


class DataTypeNotOffered(Refusal):
    """The platform has no workflow for files of this kind."""

    def __init__(self, data_type: DataType) -> None:
        what, remedy = NOT_OFFERED[data_type]
        super().__init__(
            Kind.NOT_OFFERED,
            "data_type_not_offered",
            f"{what} are not processed here",
            remedy=remedy,
            pointer="/file_name",
        )


class OperationNotOffered(Refusal):
    """UPDATE and DELETE."""

    def __init__(self, operation: str) -> None:
        super().__init__(
            Kind.NOT_OFFERED,
            "operation_not_offered",
            f"the operation {operation} is not offered",
            remedy="Order a new version with CREATE; to withdraw content, ask for it to be unpublished.",
            pointer="/operation",
        )


@dataclass(frozen=True, slots=True)
class TranslatedOrder:
    """`previous_version` must be the served version; `clearance` is the wish of the client, decided at approval."""

    body: WorkOrderBody
    data_type: DataType
    clearance: Classification
    previous_version: str | None


def translate(order: Any) -> TranslatedOrder:
    """Raises InvalidDdhOrder with all problems, or OperationNotOffered."""
    if not isinstance(order, Mapping):
        raise InvalidDdhOrder([Place("", "an order is an object with dataset_id, resource_id and file_name")])
    _check_operation(order.get("operation", "CREATE"))
    fields = {name: value for name, value in order.items() if name not in ("operation", "processing_options")}
    places: list[Place] = []
    form = _read(DdhForm, fields, "", places)
    data_type = _data_type(order, places)
    options = _read_options(order.get("processing_options", {}), data_type, places)
    if form is not None:
        places += _form_faults(form)
    if options is not None:
        places += _option_faults(order, options, data_type)
    if places or form is None or options is None or data_type is None:
        raise InvalidDdhOrder(places)
    return TranslatedOrder(
        body=_body(form, options, data_type),
        data_type=data_type,
        clearance=form.access_level,
        previous_version=form.previous_version_id,
    )


def _check_operation(operation: Any) -> None:
    if operation in ("UPDATE", "DELETE"):
        raise OperationNotOffered(operation)
    if operation != "CREATE":
        raise InvalidDdhOrder([Place("/operation", "the operation is CREATE")])


def _read(model: type[Any], fields: Any, pointer: str, places: list[Place]) -> Any:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        for fault in error.errors():
            path = [step for step in fault["loc"] if step not in (ONE_FILE, MANY_FILES)]
            places.append(Place(pointer + json_pointer(*path), _sentence(fault, model)))
        return None


def _sentence(fault: Any, model: type[BaseModel]) -> str:
    if fault["type"] == "extra_forbidden":
        return f"there is no such field; there are {', '.join(model.model_fields)}"
    if fault["type"] == "missing":
        return f"{fault['loc'][-1]} is missing"
    if fault["type"] == "string_pattern_mismatch":
        return SENTENCES.get(fault["ctx"]["pattern"], str(fault["msg"]))
    return str(fault["msg"]).removeprefix("Value error, ")


def _data_type(order: Mapping[str, Any], places: list[Place]) -> DataType | None:
    """By the extension; None if it is unknown or the field has no usable value, which is reported elsewhere."""
    file_name = order.get("file_name")
    if isinstance(file_name, list):
        for index, name in enumerate(file_name):
            if isinstance(name, str) and extension_of(name) not in RASTER_EXTENSIONS:
                sentence = f"{_shown(name)} is no GeoTIFF: a collection has .tif files only"
                places.append(Place(f"/file_name/{index}", sentence))
        return DataType.COLLECTION
    if not isinstance(file_name, str) or not file_name:
        return None
    extension = extension_of(file_name)
    if extension in RASTER_EXTENSIONS:
        return DataType.RASTER
    if extension in VECTOR_EXTENSIONS:
        return DataType.VECTOR
    accepted = ", ".join(sorted(RASTER_EXTENSIONS | VECTOR_EXTENSIONS))
    reason = REFUSED_EXTENSIONS.get(extension, f"accepted are {accepted}")
    places.append(Place("/file_name", f"{_shown(file_name)} is not accepted: {reason}"))
    return None


def _read_options(options: Any, data_type: DataType | None, places: list[Place]) -> Any:
    """Without a data type nobody can say which options there are; those of all orders are still checked."""
    if not isinstance(options, Mapping):
        places.append(Place("/processing_options", "processing_options is an object"))
        return None
    if data_type is not None:
        return _read(OPTIONS[data_type], dict(options), "/processing_options", places)
    common = {name: value for name, value in options.items() if name in Options.model_fields}
    return _read(Options, common, "/processing_options", places)


def _form_faults(form: DdhForm) -> list[Place]:
    places = []
    if form.source_url is not None:
        places.append(Place("/source_url", f"{REFUSED_EXTENSIONS['.zarr']}, and name it by file_name"))
    elif form.file_name is None:
        places.append(Place("/file_name", "file_name is missing: name the file in its container"))
    if isinstance(form.file_name, list) and len(set(form.file_name)) != len(form.file_name):
        places.append(Place("/file_name", "a file is named twice"))
    if form.previous_version_id is not None and form.previous_version_id == form.version_id:
        places.append(Place("/previous_version_id", "the previous version is the ordered one: name the version before"))
    return places


def _option_faults(order: Mapping[str, Any], options: Options, data_type: DataType | None) -> list[Place]:
    expected, pointer = options.expected_data_type, "/processing_options"
    places = []
    if data_type is not None and expected is not None and expected != data_type:
        sentence = f"the file is a {data_type} by its name, and a {expected} is expected"
        places.append(Place(f"{pointer}/expected_data_type", sentence))
    if not isinstance(options, VectorOptions):
        return places
    if options.table_name is not None and (fault := names.table_name_fault(options.table_name)) is not None:
        places.append(Place(f"{pointer}/table_name", fault))
    if options.layer_name is not None and options.layer_names is not None:
        places.append(Place(f"{pointer}/layer_names", "give layer_name or layer_names, not both"))
    columns = (options.lat_column, options.lon_column, options.wkt_column)
    if (options.lat_column is None) != (options.lon_column is None):
        places.append(Place(pointer, "lat_column and lon_column go together"))
    elif options.wkt_column is not None and options.lat_column is not None:
        places.append(Place(pointer, "give lat_column and lon_column, or wkt_column, not both"))
    elif extension_of(str(order.get("file_name"))) == ".csv" and not any(columns):
        places.append(Place(pointer, "a CSV file needs its geometry columns: lat_column and lon_column, or wkt_column"))
    return places


def _body(form: DdhForm, options: Any, data_type: DataType) -> WorkOrderBody:
    ids = (form.dataset_id, form.resource_id, form.version_id)
    refs = {"dataset_id": form.dataset_id, "resource_id": form.resource_id}
    if form.version_id is not None:
        refs["version_id"] = form.version_id
    inputs: dict[str, Any] = {"container_name": form.container_name}
    if data_type is DataType.VECTOR:
        inputs |= _vector_inputs(form, options)
    else:
        inputs |= _raster_inputs(form, options)
    return WorkOrderBody(
        # An overwriting order is another one each time; its sender repeats it safely with an idempotency key.
        request_id=None if options.overwrite else names.request_id(*ids),
        platform_id=PLATFORM,
        platform_refs=refs,
        workflow_id=WORKFLOWS[data_type],
        input_params=inputs | {"properties": _properties(form)},
        supersede=options.overwrite,
    )


def _raster_inputs(form: DdhForm, options: RasterOptions) -> dict[str, Any]:
    ids = (form.dataset_id, form.resource_id)
    files: dict[str, Any] = (
        {"blob_names": form.file_name} if isinstance(form.file_name, list) else {"blob_name": form.file_name}
    )
    inputs = {
        **files,
        "item_id": names.item_id(*ids, form.version_id),
        "collection_id": options.collection_id or names.collection_id(*ids),
        "profile": PROFILES[options.output_tier],
        "crs": options.crs,
        "raster_type": None if options.raster_type == "auto" else options.raster_type,
        "resampling": OVERVIEWS.get(options.raster_type),
    }
    if isinstance(options, CollectionOptions):
        inputs |= options.model_dump(include={"input_crs", "jpeg_quality", "license", "strict_mode"})
    return _without_nulls(inputs)


def _vector_inputs(form: DdhForm, options: VectorOptions) -> dict[str, Any]:
    table = (
        names.table_name(form.dataset_id, form.resource_id, form.version_id)
        if options.table_name is None
        else names.table_slug(options.table_name)
    )
    plain = options.model_dump(exclude={"overwrite", "expected_data_type", "table_name"})
    return _without_nulls({"blob_name": form.file_name, "table_name": table, **plain})


def _properties(form: DdhForm) -> dict[str, Any]:
    """What the STAC item says about its origin."""
    return _without_nulls(
        {
            "title": form.title,
            "description": form.description,
            "keywords": form.tags or None,
            "ddh:dataset_id": form.dataset_id,
            "ddh:resource_id": form.resource_id,
            "ddh:version_id": form.version_id,
            "ddh:access_level": DDH_ACCESS[form.access_level],
        }
    )


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def extension_of(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else name[:99] + "…")

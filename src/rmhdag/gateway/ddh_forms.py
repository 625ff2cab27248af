"""The order form of the Data Distribution Hub: which fields it has, and what each of them may be."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
)

from rmhdag.models.assets import Classification
from rmhdag.models.blobs import check_path
from rmhdag.models.plain_text import refuse_deceiving, refuse_deceiving_lines

MOST_FILES = 20
MOST_LAYERS = 10
ONE_FILE, MANY_FILES = "<one file>", "<files>"
ACCESS_LEVELS = {
    "public": Classification.PUBLIC,
    "ouo": Classification.RESTRICTED,
    "official use only": Classification.RESTRICTED,
}
# What is wrong with a text that does not match.
SENTENCES = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "it begins with a letter or digit and has letters, digits, `.`, `_` and `-` only",
    r"^[a-z0-9]+(-[a-z0-9]+)*$": "a container has lower-case letters, digits and single hyphens between them",
    r"^EPSG:[1-9][0-9]{3,5}$": "write the coordinate reference system as EPSG:n, such as EPSG:4326",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": "it begins with a letter or digit and has at most 128 letters, digits, "
    "`.`, `_` and `-`",
}


class DataType(StrEnum):
    RASTER = "raster"
    VECTOR = "vector"
    COLLECTION = "collection"


def _access_level(value: Any) -> Any:
    """Any case; `_` and `-` count as spaces."""
    if not isinstance(value, str):
        raise ValueError("access_level is text: public or OUO")
    word = " ".join(re.split(r"[\s_-]+", value.strip().lower()))
    if word == "restricted":
        raise ValueError("restricted data is not accepted over this interface: use public or OUO")
    if word not in ACCESS_LEVELS:
        raise ValueError(f"{value[:40]!r} is not an access level: use public or OUO (Official Use Only)")
    return ACCESS_LEVELS[word]


def _file_path(value: str) -> str:
    if value.startswith("/"):
        raise ValueError("a file is named from its container down, without a leading /")
    return check_path(value)


def _not_blank(value: str) -> str:
    if value != value.strip():
        raise ValueError("it begins or ends with a space: remove it")
    return value


Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=255)]
Version = Annotated[
    str,
    StringConstraints(min_length=1, max_length=50),
    AfterValidator(refuse_deceiving),
    AfterValidator(_not_blank),
]
ContainerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", min_length=3, max_length=63)]
FileName = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_file_path)]
# By what is there, so that a wrong name is not also reported as no list.
FileNames = Annotated[
    Annotated[FileName, Tag(ONE_FILE)]
    | Annotated[list[FileName], Field(min_length=1, max_length=MOST_FILES), Tag(MANY_FILES)],
    Discriminator(lambda value: MANY_FILES if isinstance(value, list) else ONE_FILE),
]
Line = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(refuse_deceiving)]
Text = Annotated[str, StringConstraints(max_length=20_000), AfterValidator(refuse_deceiving_lines)]
ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=128), AfterValidator(refuse_deceiving)]
Crs = Annotated[str, StringConstraints(pattern=r"^EPSG:[1-9][0-9]{3,5}$")]
CollectionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
RasterType = Literal[
    "auto",
    "rgb",
    "rgba",
    "nir",
    "dem",
    "categorical",
    "multispectral",
    "continuous",
    "vegetation_index",
    "flood_depth",
    "flood_probability",
    "hydrology",
    "population",
    "temporal",
]


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class DdhForm(Form):
    """The fields of an order but for `operation`, which comes first, and `processing_options`, which depend on them."""

    dataset_id: Identifier
    resource_id: Identifier
    version_id: Version | None = None
    previous_version_id: Version | None = None
    container_name: ContainerName
    file_name: FileNames | None = None
    source_url: Annotated[str, StringConstraints(min_length=1, max_length=2048)] | None = None
    title: Line | None = None
    description: Text | None = None
    tags: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(refuse_deceiving)]],
        Field(max_length=50),
    ] = Field(default_factory=list)
    access_level: Annotated[Classification, BeforeValidator(_access_level)] = Classification.RESTRICTED
    client_id: Literal["ddh"] = "ddh"


class Options(Form):
    overwrite: bool = False
    collection_id: CollectionId | None = None
    expected_data_type: Literal["raster", "vector", "collection"] | None = None


class RasterOptions(Options):
    crs: Crs | None = None
    raster_type: RasterType = "auto"
    output_tier: Literal["visualization", "analysis", "archive"] = "analysis"


class VectorOptions(Options):
    table_name: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    lat_column: ColumnName | None = None
    lon_column: ColumnName | None = None
    wkt_column: ColumnName | None = None
    layer_name: ColumnName | None = None
    layer_names: Annotated[list[ColumnName], Field(min_length=1, max_length=MOST_LAYERS)] | None = None
    indexes: Annotated[list[ColumnName], Field(max_length=20)] | None = None
    temporal_property: ColumnName | None = None
    create_stac: bool | None = None
    split_column: ColumnName | None = None
    # Ours: files without a table, also where the platform has no PostGIS.
    target: Literal["postgis", "geoparquet"] | None = None


class CollectionOptions(RasterOptions):
    input_crs: Crs | None = None
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = None
    license: Line | None = None
    strict_mode: bool | None = None


OPTIONS: dict[DataType, type[Options]] = {
    DataType.RASTER: RasterOptions,
    DataType.VECTOR: VectorOptions,
    DataType.COLLECTION: CollectionOptions,
}

"""The `checks` of a workflow as models: what must hold before a job is created."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_CHECKS = 50
MOST_BLOBS = 1_000
Template = Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
SizeMb = Annotated[float, Field(gt=0, le=1e9)]
Sentence = Annotated[str, StringConstraints(pattern=r"^[^{}]+$", max_length=200)]
Extension = Annotated[str, StringConstraints(pattern=r"^\.[a-z0-9][a-z0-9.]{0,15}$")]


class CheckType(StrEnum):
    BLOB_EXISTS = "blob_exists"
    BLOB_LIST = "blob_list"
    CONTAINER_NOT_EMPTY = "container_not_empty"
    EXTENSION = "extension"
    CRS = "crs"
    DATA_DATABASE = "data_database"


class Check(BaseModel):
    """A check is skipped if `when` is false, or if the input that it is about has no value."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    when: Template | None = Field(default=None, description="An expression; the check is skipped unless it is true")


class BlobCheck(Check):
    container: Template = Field(description="The container of the file; may be a template")
    zone: Template = Field(default="bronze", description="The zone: bronze, silver or gold; may be a template")
    max_size_mb: SizeMb | None = Field(default=None, description="The largest accepted file, in MB of 1,000,000 bytes")
    too_large: Sentence | None = Field(default=None, description="What to do about a file that is too large")


class BlobExists(BlobCheck):
    """A file exists, and is not too large."""

    model_config = ConfigDict(title="Check blob_exists")

    type: Literal[CheckType.BLOB_EXISTS]
    path: Template = Field(description="The path of the file in its container; may be a template")


class BlobList(BlobCheck):
    """Files exist, are not too many, and none is too large."""

    model_config = ConfigDict(title="Check blob_list")

    type: Literal[CheckType.BLOB_LIST]
    paths: Template = Field(description="A template that gives the list of paths")
    max_count: Annotated[int, Field(ge=1, le=MOST_BLOBS, strict=True)] = Field(
        default=MOST_BLOBS, description="The most files"
    )


class ContainerNotEmpty(Check):
    """A container has a file, below the prefix if one is given."""

    model_config = ConfigDict(title="Check container_not_empty")

    type: Literal[CheckType.CONTAINER_NOT_EMPTY]
    container: Template = Field(description="The container; may be a template")
    zone: Template = Field(default="bronze", description="The zone: bronze, silver or gold; may be a template")
    prefix: Template | None = Field(default=None, description="How paths begin; may be a template")


class ExtensionCheck(Check):
    """A file name ends with one of the listed extensions, in upper or lower case."""

    model_config = ConfigDict(title="Check extension")

    type: Literal[CheckType.EXTENSION]
    path: Template = Field(description="A path, or a list of paths; may be a template")
    allowed: Annotated[list[Extension], Field(min_length=1, max_length=50)] = Field(
        description="Accepted extensions, such as .tif"
    )


class CrsCheck(Check):
    """A coordinate reference system is written as EPSG:n."""

    model_config = ConfigDict(title="Check crs")

    type: Literal[CheckType.CRS]
    value: Template = Field(description="The value; may be a template")


class DataDatabaseCheck(Check):
    """The platform has a data database (PostGIS)."""

    model_config = ConfigDict(title="Check data_database")

    type: Literal[CheckType.DATA_DATABASE]


CHECK_MODELS: dict[CheckType, type[Check]] = {
    CheckType.BLOB_EXISTS: BlobExists,
    CheckType.BLOB_LIST: BlobList,
    CheckType.CONTAINER_NOT_EMPTY: ContainerNotEmpty,
    CheckType.EXTENSION: ExtensionCheck,
    CheckType.CRS: CrsCheck,
    CheckType.DATA_DATABASE: DataDatabaseCheck,
}
AnyCheck = Annotated[
    BlobExists | BlobList | ContainerNotEmpty | ExtensionCheck | CrsCheck | DataDatabaseCheck,
    Field(discriminator="type"),
]


def check_type_of(check: Any) -> CheckType | None:
    """The type of a check as it is written; None if there is no such type."""
    written = check.get("type") if isinstance(check, dict) else None
    return CheckType(written) if isinstance(written, str) and written in set(CheckType) else None

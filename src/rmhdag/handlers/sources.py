"""How parameters name the input file of a handler: by container and path, or as the output of an earlier node."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from rmhdag.models.blobs import BlobAddress, BlobRef, Container, SafePath
from rmhdag.models.records import Zone
from rmhdag.storage import BlobNotFound, Storage


class NamedBlob(BaseModel):
    """An address as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    zone: Zone = Zone.BRONZE
    container: Container
    path: SafePath

    @property
    def address(self) -> BlobAddress:
        return BlobAddress(self.zone, self.container, self.path)


def kind_of(value: Any) -> str:
    """Chooses the model, so that an error message is about the intended form only."""
    is_ref = isinstance(value, BlobRef) or (isinstance(value, dict) and value.keys() & {"sha256", "size_bytes"})
    return "ref" if is_ref else "name"


Source = Annotated[
    Annotated[BlobRef, Tag("ref")] | Annotated[NamedBlob, Tag("name")],
    Discriminator(kind_of),
]


def is_unchanged(storage: Storage, file: BlobRef) -> bool:
    """Whether the blob exists with unchanged content."""
    try:
        return storage.info(file.address).size_bytes == file.size_bytes and storage.sha256(file.address) == file.sha256
    except BlobNotFound:
        return False


class SourceParams(BaseModel):
    """Either `container_name` and `blob_name`, or `source`."""

    model_config = ConfigDict(extra="forbid")

    container_name: Container | None = Field(default=None, description="The container in which the file lies")
    blob_name: SafePath | None = Field(default=None, description="The file's path in its container")
    zone: Zone = Field(
        default=Zone.BRONZE, description="bronze is what came in, silver is processed, gold is published"
    )
    source: Source | None = Field(default=None, description="The file as an earlier node has named it")

    @model_validator(mode="after")
    def _check_source(self) -> SourceParams:
        by_name = self.container_name is not None and self.blob_name is not None
        one_name = (self.container_name is None) != (self.blob_name is None)
        if one_name or by_name == (self.source is not None):
            raise ValueError("name one file: give container_name and blob_name, or source")
        return self

    @property
    def address(self) -> BlobAddress | BlobRef:
        """A BlobRef if one was given, so that a change of the file can be detected on opening."""
        if isinstance(self.source, BlobRef):
            return self.source
        if self.source is not None:
            return self.source.address
        assert self.container_name is not None
        assert self.blob_name is not None
        return BlobAddress(self.zone, self.container_name, self.blob_name)

    @property
    def place(self) -> BlobAddress:
        """The address only."""
        address = self.address
        return address.address if isinstance(address, BlobRef) else address

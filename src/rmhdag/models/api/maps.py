"""What maps show: items of revisions and jobs with their files, places of assets and jobs, and files to choose from."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.assets import BlobView
from rmhdag.models.assets import ApprovalState, AssetKind
from rmhdag.models.records import Zone

Subject = Literal["assets", "jobs"]


class ItemView(ApiModel):
    """A STAC item that a revision or a job has published."""

    collection_id: str
    item_id: str
    node_id: str | None
    created_at: datetime
    item: dict[str, Any] = Field(
        description="The item; `proj:code` and `proj:wkt2` of its properties define the coordinate system of its files"
    )
    files: dict[str, BlobView] = Field(
        description="The files of its assets, by the name of the asset; `GET /api/v1/files/{blob_id}` serves them"
    )


class ItemPage(ApiModel):
    items: list[ItemView]
    next_cursor: str | None


class FootprintFacts(ApiModel):
    """`status` is that of the job, or of the revision whose place is shown."""

    title: str = Field(description="The references of an asset, or the workflow of a job")
    status: str
    created_at: datetime
    asset_id: str | None = None
    revision: int | None = None
    job_id: str | None = None
    kind: AssetKind | None = None
    approval_state: ApprovalState | None = None
    thumbnail: str | None = Field(default=None, description="The path of a picture, if there is one")
    place: Literal["outputs", "inputs"] = Field(
        description="`outputs`: where the published items lie. `inputs`: the `bbox` that the job was given"
    )


class Footprint(ApiModel):
    """A GeoJSON feature. Its geometry stays within ±180 degrees: it is cut at the antimeridian, and closed around a
    pole.
    """

    type: Literal["Feature"] = "Feature"
    id: str
    bbox: list[float] = Field(description="West, south, east, north; across the antimeridian west is above east")
    geometry: dict[str, Any]
    properties: FootprintFacts


class FootprintPage(ApiModel):
    """A GeoJSON FeatureCollection. A page may have few features, or none, and a `next_cursor` all the same: it has
    looked at `examined` assets or jobs.
    """

    type: Literal["FeatureCollection"] = "FeatureCollection"
    features: list[Footprint] = Field(description="Newest first")
    examined: int
    next_cursor: str | None


class FileContent(ApiModel):
    """The bytes of a file, for the client, which reads every answer by its model."""

    content: bytes

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """The answer is the content itself."""
        return cls(content=json_data.encode() if isinstance(json_data, str) else bytes(json_data))


class ContainerList(ApiModel):
    zone: Zone
    containers: list[str]


class StoredFile(ApiModel):
    path: str
    size_bytes: int
    modified_at: datetime
    media_type: str


class FolderView(ApiModel):
    """One folder of a container: what lies in it, not below."""

    zone: Zone
    container: str
    folder: str = Field(description="Empty for the container itself")
    folders: list[str] = Field(description="Names of the folders in it")
    files: list[StoredFile]
    is_complete: bool = Field(description="False if it has more than are listed")

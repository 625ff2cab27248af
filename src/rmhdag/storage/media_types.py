"""What kind of content a file has, by its name."""

from __future__ import annotations

import mimetypes
from pathlib import Path

MEDIA_TYPES = {
    ".tif": "image/tiff; application=geotiff",
    ".tiff": "image/tiff; application=geotiff",
    ".geojson": "application/geo+json",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
    ".png": "image/png",
    ".webp": "image/webp",
}
DEFAULT_MEDIA_TYPE = "application/octet-stream"
MOST_MEDIA_TYPE_CHARACTERS = 64


def media_type_of(path: str) -> str:
    suffix = Path(path).suffix.lower()
    media_type = MEDIA_TYPES.get(suffix) or mimetypes.guess_type(f"x{suffix}")[0] or DEFAULT_MEDIA_TYPE
    # Those of office programs are longer than a record may name.
    return media_type if len(media_type) <= MOST_MEDIA_TYPE_CHARACTERS else DEFAULT_MEDIA_TYPE

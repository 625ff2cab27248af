"""Raster tiles by titiler: assets of published items, by their names; there is no way to name a file or a URL.

Runs in the services' environment, under uvicorn, and imports nothing of rmhdag. It has no credentials: it reads the
bytes of an asset over a socket from the process that started it, which gives out published files only.
"""

from __future__ import annotations

import http.client
import io
import os
import re
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import attr
import rasterio
from fastapi import FastAPI, Path, Request
from rasterio.errors import RasterioIOError
from rio_tiler.io import Reader
from starlette.responses import JSONResponse
from titiler.core.dependencies import PartFeatureParams
from titiler.core.errors import DEFAULT_STATUS_CODES, add_exception_handlers
from titiler.core.factory import TilerFactory

SOURCE = os.environ["RMHDAG_SOURCE_SOCKET"]
FILES_PATH = os.environ["RMHDAG_FILES_PATH"]
SECONDS = float(os.environ["RMHDAG_REQUEST_SECONDS"])
# With another driver, a file could name other files.
DRIVER = "GTiff"
# Metadata in which a TIFF can name other files that GDAL would then open, with any driver.
POINTING_DOMAINS = ("OVERVIEWS", "GEOLOCATION")
BUFFER_BYTES = 64 * 1024
PREFIX = "/collections/{collection_id}/items/{item_id}/assets/{asset}"
# Pixels along a side of an answer.
MOST_PIXELS = 4096
SIZES = frozenset({"width", "height", "max_size", "tilesize", "buffer", "padding", "histogram_bins"})
SIZE_IN_PATH = re.compile(r"/(\d{1,9})x(\d{1,9})\.")
# PROJ opens files that a longer text may name.
CRS_CODE = re.compile(r"\[?([A-Za-z0-9_]+:[A-Za-z0-9_.]+|https?://www\.opengis\.net/def/crs/[A-Za-z0-9_./]+)\]?")


class AssetUnavailable(Exception):
    """The message is for the caller."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class SourceConnection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS)
        self.sock.connect(SOURCE)


class Asset(io.RawIOBase):
    """The bytes of a published file, by ranges."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection = SourceConnection("source")
        self._offset = 0
        self._etag: str | None = None
        self.size = 0
        # Also finds out whether it is there.
        self._read(0, 1)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self.size}[whence]
        self._offset = start + offset
        return self._offset

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), max(0, self.size - self._offset))
        content = self._read(self._offset, length) if length else b""
        buffer[: len(content)] = content
        self._offset += len(content)
        return len(content)

    def close(self) -> None:
        self._connection.close()
        super().close()

    def _read(self, offset: int, length: int) -> bytes:
        self._connection.request("GET", self._path, headers={"Range": f"bytes={offset}-{offset + length - 1}"})
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 206:
            raise AssetUnavailable(404 if answer.status in (400, 404, 416) else 503, "there is no such raster")
        if self._etag not in (None, answer.headers["ETag"]):
            raise AssetUnavailable(503, "the raster was replaced; try again")
        self._etag = answer.headers["ETag"]
        self.size = int(answer.headers["Content-Range"].rpartition("/")[2])
        return content


@attr.s
class AssetReader(Reader):
    """Opens nothing but the one asset, as a TIFF, whatever its content claims to be."""

    def __attrs_post_init__(self) -> None:
        path = self.input
        asset = self._ctx_stack.enter_context(io.BufferedReader(Asset(path), BUFFER_BYTES))

        def opener(name: str, mode: str = "rb") -> Any:
            if name != "asset.tif" or "r" not in mode or "+" in mode:
                raise FileNotFoundError(name)
            return asset

        dataset = self._ctx_stack.enter_context(rasterio.open("asset.tif", driver=DRIVER, opener=opener))
        if any(dataset.tags(ns=domain) for domain in POINTING_DOMAINS):
            raise AssetUnavailable(422, "the raster names other files")
        self.dataset = dataset
        super().__attrs_post_init__()


def asset_path(
    collection_id: str = Path(description="Collection of the catalogue", max_length=512),
    item_id: str = Path(description="Item of the collection", max_length=512),
    asset: str = Path(description="Asset of the item", max_length=128),
) -> str:
    return f"{FILES_PATH}/" + "/".join(quote(part, safe="") for part in (collection_id, item_id, asset))


@dataclass
class BoundedPartParams(PartFeatureParams):
    """A part of a raster is not given out in full resolution, unless it is asked for and small enough."""

    max_size: int | None = 1024


tiler = TilerFactory(
    reader=AssetReader,
    path_dependency=asset_path,
    img_part_dependency=BoundedPartParams,
    router_prefix=PREFIX,
)
app = FastAPI(
    title="rmhdag: raster tiles",
    openapi_url="/api",
    docs_url="/api.html",
)
app.include_router(tiler.router, prefix=PREFIX, tags=["raster tiles"])
add_exception_handlers(app, DEFAULT_STATUS_CODES | {RasterioIOError: 422})


@app.exception_handler(AssetUnavailable)
async def answer_unavailable(request: Request, error: AssetUnavailable) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, error.status)


@app.middleware("http")
async def check_parameters(request: Request, call_next: Any) -> Any:
    sizes = SIZE_IN_PATH.search(request.url.path)
    if sizes is not None and max(map(int, sizes.groups())) > MOST_PIXELS:
        return JSONResponse({"detail": f"an image has at most {MOST_PIXELS} pixels along a side"}, 400)
    for name, value in request.query_params.multi_items():
        if name in SIZES and not (value.isdigit() and int(value) <= MOST_PIXELS):
            return JSONResponse({"detail": f"`{name}` is a number from 0 to {MOST_PIXELS}"}, 400)
        if name.replace("-", "_").endswith("crs") and not CRS_CODE.fullmatch(value):
            return JSONResponse({"detail": f"`{name}` is a code such as EPSG:3857"}, 400)
    return await call_next(request)


@app.get("/healthz", include_in_schema=False)
async def healthz() -> dict[str, str]:
    return {"gdal": rasterio.__gdal_version__}

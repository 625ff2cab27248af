"""Files of revisions and jobs over HTTP: bytes from storage, in pieces, never opened as anything.

What is served is decided before: a row of the caller's namespace names the file. Types that a browser would run are
served as bytes to download.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from rmhdag.api.blob_looks import BlobLooks
from rmhdag.api.byte_ranges import ByteRange, is_known, requested_range
from rmhdag.api.problems import RETRY_SECONDS, Problem
from rmhdag.api.processor_time import Semaphores, charged, wait_for_share
from rmhdag.models.api.assets import BlobView
from rmhdag.models.assets import BlobState
from rmhdag.models.blobs import BlobAddress
from rmhdag.observability.logs import get_logger
from rmhdag.storage.errors import BlobNotFound, OutsideStorage, StorageError
from rmhdag.storage.media_types import DEFAULT_MEDIA_TYPE, media_type_of
from rmhdag.storage.zones import Storage

PIECE_BYTES = 1024 * 1024
# Of one namespace at the same time: storage that does not answer must not take all threads.
MOST_READS = 8
PATIENCE_SECONDS = 10.0
PICTURES = frozenset({"image/png", "image/webp", "image/jpeg"})
# All others are served as bytes: HTML and SVG would run in our own origin.
SERVED_TYPES = PICTURES | {
    "image/tiff",
    "application/geo+json",
    "application/json",
    "application/vnd.apache.parquet",
    "text/csv",
}
CLOSED_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"

T = TypeVar("T")
log = get_logger(__name__)


class StoredFiles:
    """Reads for requests; each namespace has its own turns."""

    def __init__(self, looks: BlobLooks) -> None:
        self._looks = looks
        self._reads = Semaphores()

    def storage_of(self, namespace: str) -> Storage:
        """Raises a Problem (404) if this API has no storage."""
        if not self._looks.is_possible:
            raise Problem(
                404,
                "no_storage",
                "this API has no storage, so that it cannot serve files",
                remedy="Set RMHDAG_STORAGE for the API, as it is set for the workers.",
            )
        return self._looks.storage_of(namespace)

    def address_of(self, namespace: str) -> Callable[[str], BlobAddress | None]:
        """The address of a URL in storage; None if it leads elsewhere."""
        storage = self._looks.storage_of(namespace) if self._looks.is_possible else None

        def address(url: str) -> BlobAddress | None:
            try:
                return None if storage is None else storage.address_of(url)
            except StorageError:
                return None

        return address

    async def run(self, namespace: str, function: Callable[[Storage], T]) -> T:
        """Ask the storage in a thread. Raises a Problem (404, 422, 503) instead of an error of storage."""
        storage = self.storage_of(namespace)
        try:
            async with self._turn(namespace):
                return await run_in_threadpool(charged(lambda: function(storage)))
        except BlobNotFound:
            raise gone() from None
        except OutsideStorage as error:
            raise Problem(422, "invalid_request", str(error)) from None
        except StorageError as error:
            log.warning("storage_unavailable", namespace=namespace, error=str(error))
            raise busy("storage does not answer") from None

    async def respond(self, namespace: str, file: BlobView, headers: Mapping[str, str], *, head: bool) -> Response:
        """The file or the range of it that the headers ask for."""
        if file.state is not BlobState.PRESENT:
            raise gone()
        address = BlobAddress(file.zone, file.container, file.path)
        info = await self.run(namespace, lambda storage: storage.info(address))
        if info.size_bytes != file.size_bytes:
            raise Problem(
                409,
                "file_changed",
                "the file in storage is not the one that was published: it has another size",
                remedy="Process it again; files of revisions must not be replaced in storage.",
            )
        etag = f'"{file.sha256}"'
        answer = {**described(file), "ETag": etag, "Accept-Ranges": "bytes"}
        if is_known(headers, etag):
            return Response(status_code=304, headers=answer)
        part = requested_range(headers, file.size_bytes, etag)
        whole = part or ByteRange(0, file.size_bytes)
        if part is not None:
            answer["Content-Range"] = f"bytes {part.first}-{part.first + part.length - 1}/{file.size_bytes}"
        answer["Content-Length"] = str(whole.length)
        status = 200 if part is None else 206
        if head or not whole.length:
            return Response(status_code=status, headers=answer)
        first = await self._piece(namespace, address, whole)
        if len(first) == whole.length:
            return Response(first, status, headers=answer)
        return StreamingResponse(self._pieces(namespace, address, whole, first), status, headers=answer)

    async def _pieces(
        self, namespace: str, address: BlobAddress, whole: ByteRange, first: bytes
    ) -> AsyncIterator[bytes]:
        """A reader that is slow holds one piece, and no thread."""
        piece, rest = first, whole
        while True:
            yield piece
            rest = ByteRange(rest.first + len(piece), rest.length - len(piece))
            if rest.length <= 0:
                return
            await wait_for_share()
            piece = await self._piece(namespace, address, rest)

    async def _piece(self, namespace: str, address: BlobAddress, rest: ByteRange) -> bytes:
        length = min(rest.length, PIECE_BYTES)
        piece = await self.run(namespace, lambda storage: storage.read_range(address, rest.first, length))
        if len(piece) != length:
            raise gone()
        return piece

    @asynccontextmanager
    async def _turn(self, namespace: str) -> AsyncIterator[None]:
        with self._reads.one(namespace, MOST_READS) as semaphore:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await semaphore.acquire()
            except TimeoutError:
                raise busy("too many files are being read") from None
            try:
                yield
            finally:
                semaphore.release()


def described(file: BlobView) -> dict[str, str]:
    """What the file is to a browser."""
    named = file.media_type or media_type_of(file.path)
    plain = named.partition(";")[0].strip().lower()
    is_picture = plain in PICTURES
    name = quote(file.path.rpartition("/")[2])
    return {
        "Content-Type": plain if plain in SERVED_TYPES else DEFAULT_MEDIA_TYPE,
        "Content-Disposition": "inline" if is_picture else f"attachment; filename*=UTF-8''{name}",
        "Content-Security-Policy": CLOSED_POLICY,
        "Cross-Origin-Resource-Policy": "same-origin",
        # Kept by the browser of the caller alone, and asked for again each time: files can be unpublished.
        "Cache-Control": "private, no-cache",
    }


def gone() -> Problem:
    return Problem(
        404,
        "file_gone",
        "the file is not in storage any more",
        remedy="It was unpublished or removed; process the data again to have it back.",
    )


def busy(reason: str) -> Problem:
    return Problem(
        503,
        "storage_unavailable",
        reason,
        remedy="Try again after the time in Retry-After.",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )

"""A published file over HTTP: whole or a range of it, in pieces."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping

import anyio.to_thread
from starlette.responses import Response, StreamingResponse

from rmhdag.serving.answers import problem
from rmhdag.serving.published import PublishedFile

PIECE_BYTES = 1024 * 1024
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def answer_file(file: PublishedFile, method: str, headers: Mapping[str, str]) -> Response:
    etag = f'"{re.sub("[^A-Za-z0-9._:-]", "_", file.etag)}"'
    common = {"ETag": etag, "Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff"}
    common |= {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-cache", "Content-Type": file.media_type}
    if etag in headers.get("if-none-match", ""):
        return Response(status_code=304, headers=common)
    text = headers.get("range")
    if text is None or headers.get("if-range", etag) != etag:
        start, end, status = 0, file.size_bytes - 1, 200
    else:
        section = section_of(text, file.size_bytes)
        if section is None:
            refusal = problem(416, "range_not_satisfiable", f"the file has {file.size_bytes} bytes")
            refusal.headers["Content-Range"] = f"bytes */{file.size_bytes}"
            return refusal
        (start, end), status = section, 206
        common["Content-Range"] = f"bytes {start}-{end}/{file.size_bytes}"
    common["Content-Length"] = str(end - start + 1)
    if method == "HEAD":
        return Response(status_code=status, headers=common)
    return StreamingResponse(pieces(file, start, end + 1), status, common)


def section_of(text: str, size: int) -> tuple[int, int] | None:
    """First and last byte of one range; of several, which nobody needs here, none."""
    match = RANGE.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size - int(last)), size - 1
    else:
        start, end = int(first), min(size - 1, int(last)) if last else size - 1
    return (start, end) if start <= end else None


async def pieces(file: PublishedFile, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        piece = await anyio.to_thread.run_sync(
            file.storage.read_range, file.address, start, min(PIECE_BYTES, end - start)
        )
        if not piece:
            raise EOFError("the file has become shorter while it was read")
        yield piece
        start += len(piece)

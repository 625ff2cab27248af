"""Where a file lies in blob storage, and which file exactly."""

import unicodedata
from typing import Annotated, NamedTuple
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, ConfigDict

from rmhdag.models.columns import Name, Number
from rmhdag.models.records import BlobPath, BlobRecord, ContentHash, Zone

MOST_BYTES_IN_SEGMENT = 255


def check_path(path: str) -> str:
    """A path inside a container, or ValueError. Whatever two systems might understand differently is refused."""
    if unicodedata.normalize("NFC", path) != path:
        raise ValueError("the path is not in Unicode's composed form (NFC): normalise it")
    if "\\" in path or any(unicodedata.category(character) in ("Cc", "Cs") for character in path):
        raise ValueError("the path has a backslash or a control character: use / and printable characters")
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            raise ValueError(
                "the path has an empty segment, `.` or `..`: write it from the container down, without these"
            )
        if is_encoded(segment):
            raise ValueError("the path has an encoded `.`, `..`, slash, backslash or NUL (as %2e): write it as it is")
        if len(segment.encode()) > MOST_BYTES_IN_SEGMENT:
            raise ValueError(f"a name in the path has more than {MOST_BYTES_IN_SEGMENT} bytes: shorten it")
    return path


def is_encoded(segment: str) -> bool:
    """Whether decoding the segment, even repeatedly, gives another path."""
    text = segment
    while "%" in text:
        decoded = unquote(text, errors="replace")
        if decoded == text:
            break
        if decoded in ("", ".", "..") or any(character in decoded for character in "/\\\0"):
            return True
        text = decoded
    return False


def check_container(name: str) -> str:
    if "/" in check_path(name):
        raise ValueError("a container's name has no /")
    return name


Container = Annotated[Name, AfterValidator(check_container)]
SafePath = Annotated[BlobPath, AfterValidator(check_path)]


class BlobAddress(NamedTuple):
    """Not validated: storage validates it in every call."""

    zone: Zone
    container: str
    path: str

    def __str__(self) -> str:
        return f"{self.zone}/{self.container}/{self.path}"


class BlobRef(BaseModel):
    """A file as named in outputs and parameters of handlers; size and hash show whether it is still the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    zone: Zone
    container: Container
    path: SafePath
    size_bytes: Number
    sha256: ContentHash
    media_type: Name | None = None

    @property
    def address(self) -> BlobAddress:
        return BlobAddress(self.zone, self.container, self.path)

    def record(self, role: str) -> BlobRecord:
        return BlobRecord(
            zone=self.zone,
            container=self.container,
            path=self.path,
            size_bytes=self.size_bytes,
            sha256=self.sha256,
            role=role,
            media_type=self.media_type,
        )

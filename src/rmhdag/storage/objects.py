"""Blobs as objects in Azure Blob Storage or S3, by obstore. Messages of libraries stay here: they may quote secrets.

A multipart upload becomes visible when its last part is confirmed, so an aborted one leaves nothing visible. The
content's hash is kept as metadata, which saves reading the content again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from obstore import exceptions, open_writer
from obstore.store import AzureStore, S3Store

from rmhdag.storage.errors import BlobConflict, BlobNotFound, StorageError
from rmhdag.storage.gdal import CLOSED
from rmhdag.storage.root import PIECE_BYTES, Condition, Entry, GdalSource, Head, Level, is_usable

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ClientConfig, RetryConfig

PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 4
# S3 accepts 10,000 parts.
MOST_PARTS = 9_000
LIST_CHUNK = 1_000
HASH_NAME = "sha256"
RETRIES: RetryConfig = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}


class Service(NamedTuple):
    """The differences between the kinds of stores."""

    store: Callable[[str], AzureStore | S3Store]
    gdal_prefix: str
    gdal_options: dict[str, str]


class ObjectRoot:
    """A container or bucket, or a folder in it. Without a bucket our containers are the account's own."""

    def __init__(self, url: str, bucket: str | None, prefix: str, service: Service) -> None:
        self.url = url
        self._bucket = bucket
        self._prefix = prefix
        self._service = service

    def head(self, key: str) -> Head:
        store, path = self._at(key)
        with told(key):
            result = store.get(path, options={"head": True})
            return head_of(result.meta, result.attributes.get(HASH_NAME))

    def pieces(self, key: str) -> Iterator[bytes]:
        store, path = self._at(key)
        with told(key):
            content = store.get(path).stream(min_chunk_size=PIECE_BYTES)
        while True:
            with told(key):
                piece = next(content, None)
            if piece is None:
                return
            yield bytes(piece)

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        store, path = self._at(key)
        with told(key):
            size_bytes = store.head(path)["size"]
            length = min(length, size_bytes - offset)
            return bytes(store.get_range(path, start=offset, length=length)) if length > 0 else b""

    def write(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        size_bytes: int | None,
        sha256: str | None,
        media_type: str | None,
        condition: Condition,
    ) -> None:
        store, path = self._at(key)
        attributes = {"Content-Type": media_type} if media_type else {}
        if sha256 is not None:
            attributes[HASH_NAME] = sha256
        mode: PutMode = "overwrite"
        if condition.if_absent:
            mode = "create"
        elif condition.if_match is not None:
            mode = {"e_tag": condition.if_match}
        if mode != "overwrite" or (size_bytes is not None and size_bytes <= PART_BYTES):
            content = b"".join(pieces)
            with told(key):
                store.put(path, content, attributes=attributes, mode=mode, use_multipart=False)
            return
        part_bytes = max(PART_BYTES, -(-(size_bytes or 0) // MOST_PARTS))
        with told(key):
            writer = open_writer(
                store, path, attributes=attributes, buffer_size=part_bytes, max_concurrency=PARTS_AT_ONCE
            )
        # Only closing makes it visible: not used as a context manager, which would close it after an error too.
        for piece in pieces:
            with told(key):
                writer.write(piece)
        with told(key):
            writer.close()

    def take(self, key: str, local: Path, before_visible: Callable[[], None]) -> bool:
        return False

    def delete(self, key: str) -> None:
        store, path = self._at(key)
        with told(key):
            store.delete(path)

    def entries(self, folder: str) -> Iterator[Entry]:
        """Both services list in the order of names."""
        store, path = self._at(folder)
        before = "" if self._bucket is not None else folder.partition("/")[0] + "/"
        with told(folder):
            chunks = store.list(path or None, chunk_size=LIST_CHUNK)
        while True:
            with told(folder):
                chunk = next(chunks, None)
            if chunk is None:
                return
            for meta in chunk:
                key = before + meta["path"][len(self._prefix) :]
                if is_usable(key, folder):
                    yield Entry(key, head_of(meta, None))

    def folders(self, above: str = "") -> Iterator[str]:
        if self._bucket is None and not above:
            raise StorageError(
                "the containers of an Azure account cannot be listed: name one, or give the zone a container to itself"
            )
        store, path = self._at(above)
        with told(above or "the zone"):
            prefixes = store.list_with_delimiter(path.rstrip("/") or None)["common_prefixes"]
        yield from sorted(
            name for prefix in prefixes if is_usable(name := prefix.rstrip("/").rpartition("/")[2], above)
        )

    def level(self, folder: str, most: int) -> Level:
        store, path = self._at(folder)
        before = "" if self._bucket is not None else folder.partition("/")[0] + "/"
        with told(folder):
            listing = store.list_with_delimiter(path.rstrip("/") or None)
        names = sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in listing["common_prefixes"])
        folders = [name for name in names if is_usable(name, folder)]
        metas = sorted(listing["objects"], key=lambda meta: meta["path"])
        entries = [Entry(before + meta["path"][len(self._prefix) :], head_of(meta, None)) for meta in metas]
        files = [entry for entry in entries if is_usable(entry.key, folder)]
        return Level(files[:most], folders[:most], len(files) <= most and len(folders) <= most)

    def gdal_path(self, key: str) -> str:
        bucket, path = self._named(key)
        return f"{self._service.gdal_prefix}/{bucket}/{path}"

    @contextmanager
    def gdal_source(self, key: str) -> Iterator[GdalSource]:
        yield GdalSource(self.gdal_path(key), self.gdal_options(key))

    def gdal_options(self, key: str) -> dict[str, str]:
        """Allows GDAL to reach the store, for this blob only."""
        way = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy") or ""
        ours = {"GDAL_HTTP_PROXY": way, "GDAL_HTTPS_PROXY": way, "GDAL_HTTP_MAX_RETRY": "3"}
        return CLOSED | ours | self._service.gdal_options | {"CPL_VSIL_CURL_ALLOWED_FILENAME": self.gdal_path(key)}

    def _named(self, key: str) -> tuple[str, str]:
        if self._bucket is not None:
            return self._bucket, self._prefix + key
        bucket, _, path = key.partition("/")
        return bucket, path

    def _at(self, key: str) -> tuple[AzureStore | S3Store, str]:
        bucket, path = self._named(key)
        return self._service.store(bucket), path


def open_azure(url: str, options: Mapping[str, str]) -> ObjectRoot:
    """`az://account/container/folder`; `az://account` has the account's containers as ours."""
    parts = urlsplit(url)
    account, (container, _, folder) = parts.netloc, unquote(parts.path).strip("/").partition("/")
    if not account:
        raise StorageError("an Azure storage URL names the account: az://account/container")
    endpoint = options.get("azure_endpoint")
    names = {
        "account_key": "azure_account_key",
        "sas_key": "azure_sas_token",
        "client_id": "azure_client_id",
        "client_secret": "azure_client_secret",
        "tenant_id": "azure_tenant_id",
        "endpoint": "azure_endpoint",
    }
    config = {"account_name": account} | renamed(options, names)

    @cache
    def store(name: str) -> AzureStore:
        with told(url):
            return AzureStore(name, config=config, client_options=client_options(endpoint), retry_config=RETRIES)  # type: ignore[arg-type]

    gdal = {"AZURE_STORAGE_ACCOUNT": account} | renamed(
        options, {"AZURE_STORAGE_ACCESS_KEY": "azure_account_key", "AZURE_STORAGE_SAS_TOKEN": "azure_sas_token"}
    )
    if endpoint is not None:
        secrets = {"AccountKey": "azure_account_key", "SharedAccessSignature": "azure_sas_token"}
        fields = {
            "DefaultEndpointsProtocol": urlsplit(endpoint).scheme,
            "AccountName": account,
            **renamed(options, secrets),
            "BlobEndpoint": endpoint,
        }
        gdal = {"AZURE_STORAGE_CONNECTION_STRING": "".join(f"{name}={value};" for name, value in fields.items())}
    folder = f"{folder.strip('/')}/" if folder.strip("/") else ""
    return ObjectRoot(rebuilt(url), container or None, folder, Service(store, "/vsiaz", gdal))


def open_s3(url: str, options: Mapping[str, str]) -> ObjectRoot:
    """`s3://bucket/folder`."""
    parts = urlsplit(url)
    bucket, folder = parts.netloc, unquote(parts.path).strip("/")
    if not bucket:
        raise StorageError("an S3 storage URL names the bucket: s3://bucket/folder")
    endpoint = options.get("aws_endpoint")
    names = {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
        "region": "aws_region",
        "endpoint": "aws_endpoint",
    }
    config = renamed(options, names)

    @cache
    def store(name: str) -> S3Store:
        with told(url):
            return S3Store(name, config=config, client_options=client_options(endpoint), retry_config=RETRIES)  # type: ignore[arg-type]

    # GDAL accepts any case; rasterio accepts upper-case names only from Amazon's own library.
    gdal = {
        name.title(): value for name, value in options.items() if name.startswith("aws_") and name != "aws_endpoint"
    }
    if endpoint is not None:
        is_plain = urlsplit(endpoint).scheme == "http"
        gdal |= {"AWS_S3_ENDPOINT": endpoint.split("://", 1)[-1].rstrip("/"), "AWS_VIRTUAL_HOSTING": "FALSE"}
        gdal["AWS_HTTPS"] = "NO" if is_plain else "YES"
    return ObjectRoot(rebuilt(url), bucket, f"{folder}/" if folder else "", Service(store, "/vsis3", gdal))


def renamed(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {theirs: options[ours] for theirs, ours in names.items() if ours in options}


def rebuilt(url: str) -> str:
    """Quotes the path as `Storage.url` does."""
    parts = urlsplit(url)
    path = unquote(parts.path).strip("/")
    return f"{parts.scheme}://{parts.netloc}" + (f"/{quote(path)}" if path else "")


def client_options(endpoint: str | None) -> ClientConfig:
    """No limit for a whole transfer, whose time depends on the file size, but one for a stalled connection."""
    return {
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
        "timeout": timedelta(days=1),
        "read_timeout": timedelta(seconds=60),
        "connect_timeout": timedelta(seconds=10),
    }


@contextmanager
def told(key: str) -> Iterator[None]:
    """Translates errors of the library into errors of storage: its own messages quote URLs with signatures."""
    try:
        yield
    except Exception as error:
        raise retold(key, error) from None


def retold(key: str, error: Exception) -> Exception:
    if isinstance(error, FileNotFoundError):
        if "ContainerNotFound" in str(error) or "NoSuchBucket" in str(error):
            return StorageError(f"{key}: the container or bucket of this zone does not exist: create it")
        return BlobNotFound(f"there is no {key}")
    if isinstance(error, exceptions.AlreadyExistsError):
        return BlobConflict(f"{key} already exists")
    if isinstance(error, exceptions.PreconditionError):
        return BlobConflict(f"{key} was replaced by another writer")
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return StorageError(f"{key}: the store refuses our credentials: check RMHDAG_STORAGE_OPTIONS and its rights")
    if not isinstance(error, exceptions.BaseError):
        return error
    status = re.search(r"status code: (\d{3}(?: [A-Z][A-Za-z ]{2,40})?)", str(error))
    reason = f"it answered {status[1]}" if status else "it cannot be reached"
    return StorageError(f"{key}: the store is not available, {reason}: check its URL and the network")


def head_of(meta: Any, sha256: str | None) -> Head:
    return Head(meta["size"], str(meta["e_tag"] or ""), meta["last_modified"], sha256)

"""Blob storage for files of any size, used by handlers and by the platform."""

from rmhdag.storage.errors import BlobConflict, BlobNotFound, OutsideStorage, StorageError
from rmhdag.storage.root import GdalSource
from rmhdag.storage.settings import StorageSettings
from rmhdag.storage.zones import BlobInfo, Storage, open_storage

__all__ = [
    "BlobConflict",
    "BlobInfo",
    "BlobNotFound",
    "GdalSource",
    "OutsideStorage",
    "Storage",
    "StorageError",
    "StorageSettings",
    "open_storage",
]

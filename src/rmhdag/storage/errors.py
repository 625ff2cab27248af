"""Errors of blob storage. Their messages are for people and never contain credentials."""

from __future__ import annotations


class StorageError(Exception):
    """Storage is not configured correctly, cannot be reached, or refuses the operation."""


class BlobNotFound(StorageError):
    """There is nothing at this address."""


class BlobConflict(StorageError):
    """Another writer was first: the current content is not the expected one."""


class OutsideStorage(StorageError):
    """The name leads outside the configured zones, or could be understood that way."""

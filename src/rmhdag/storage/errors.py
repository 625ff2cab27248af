"""What can be wrong with a blob, as sentences for people. None of them names a credential."""

from __future__ import annotations


class StorageError(Exception):
    """Storage is not configured as it should be, cannot be reached, or refuses."""


class BlobNotFound(StorageError):
    """There is nothing at this address."""


class BlobConflict(StorageError):
    """Somebody else has written there: what was there before is not what was expected."""


class OutsideStorage(StorageError):
    """The name leads out of the configured zones, or could be understood so by somebody."""

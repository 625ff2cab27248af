"""The catalogue is tried in the same stores as blob storage itself."""

from tests.storage.conftest import azure_settings, azurite, s3_server, s3_settings

__all__ = ["azure_settings", "azurite", "s3_server", "s3_settings"]

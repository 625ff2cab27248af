"""Every kind of store that there is, behind the same fixture."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage
from tests.storage.azurite import ACCOUNT, KEY, create_container, running_azurite
from tests.storage.s3_server import S3_OPTIONS, create_bucket, running_s3


def at(path: str, container: str = "rasters", zone: Zone = Zone.BRONZE) -> BlobAddress:
    return BlobAddress(zone, container, path)


@pytest.fixture(scope="session")
def azurite() -> Iterator[str]:
    with running_azurite() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    with running_s3() as endpoint:
        yield endpoint


@pytest.fixture
def azure_settings(azurite: str) -> StorageSettings:
    """A container of the test's own."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    create_container(azurite, name)
    options = {"azure_account_key": KEY, "azure_endpoint": azurite}
    return StorageSettings(f"az://{ACCOUNT}/{name}/a folder", options=options)


@pytest.fixture
def s3_settings(s3_server: str) -> StorageSettings:
    name = f"test-{uuid.uuid4().hex[:12]}"
    create_bucket(s3_server, name)
    return StorageSettings(f"s3://{name}/a%20folder", options={**S3_OPTIONS, "aws_endpoint": s3_server})


@pytest.fixture(params=["folder", "azure", "s3"])
def storage_settings(request: pytest.FixtureRequest, tmp_path: Path) -> StorageSettings:
    if request.param == "folder":
        return StorageSettings(str(tmp_path / "root"))
    found: StorageSettings = request.getfixturevalue(f"{request.param}_settings")
    return found


@pytest.fixture
def storage(storage_settings: StorageSettings) -> Storage:
    return open_storage(storage_settings, "default")


Paths = Callable[..., list[str]]

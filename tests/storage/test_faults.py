"""Writers that are killed, files larger than memory should be, and messages that must not tell secrets."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageError, StorageSettings, open_storage
from rmhdag.storage.local import PART_GRACE_SECONDS, PART_PREFIX
from tests.storage.azurite import ACCOUNT, KEY
from tests.storage.conftest import at

MEGABYTE = 1024 * 1024
OPEN = """
import json, os, sys
from pathlib import Path
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import StorageSettings
from rmhdag.storage.root import ALWAYS
from rmhdag.storage.zones import open_root, open_storage
from tests.memory import peak_mb
settings = StorageSettings.from_variables(os.environ)
"""
WRITE_WITHOUT_END = """
def pieces():
    for _ in range(20):
        yield bytes(1024 * 1024)
    print("halfway", flush=True)
    sys.stdin.read()
root = open_root(Zone.BRONZE, settings.url_of(Zone.BRONZE), settings)
root.write("rasters/big.tif", pieces(), size_bytes=None, sha256=None, media_type=None, condition=ALWAYS)
"""
MOVE_ABOUT = """
storage = open_storage(settings, "default")
first, second = (BlobAddress(zone, "rasters", "big.tif") for zone in (Zone.BRONZE, Zone.GOLD))
storage.write(first, b"warm up"); storage.read(first)
before = peak_mb()
local = Path(sys.argv[1])
refs = [storage.upload(local, first), storage.copy(first, second), storage.download(second, local.with_name("back"))]
after = peak_mb()
print(json.dumps({"grown_mb": after - before, "hashes": sorted({ref.sha256 for ref in refs})}))
"""


def start(program: str, settings: StorageSettings, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", OPEN + program, *args],
        env={**os.environ, **settings.as_variables()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_writer_that_is_killed_leaves_nothing_to_be_seen(
    storage_settings: StorageSettings, storage: Storage, tmp_path: Path
) -> None:
    storage.write(at("other"), b"")
    writer = start(WRITE_WITHOUT_END, storage_settings)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "halfway\n"
    assert [info.address.path for info in storage.list(Zone.BRONZE, "rasters")] == ["other"]
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert not storage.exists(at("big.tif"))
    assert [info.address.path for info in storage.list(Zone.BRONZE, "rasters")] == ["other"]
    storage.write(at("big.tif"), b"second try")
    assert storage.read(at("big.tif")) == b"second try"


def test_what_the_killed_left_is_swept_and_what_lives_is_not(tmp_path: Path) -> None:
    settings = StorageSettings(str(tmp_path))
    storage = open_storage(settings, "default")
    writers = [start(WRITE_WITHOUT_END, settings) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    folder = tmp_path / "bronze" / "rasters"
    parts = list(folder.iterdir())
    assert len(parts) == 2
    assert all(part.name.startswith(PART_PREFIX) for part in parts)
    long_ago = time.time() - PART_GRACE_SECONDS - 60
    for part in parts:
        os.utime(part, (long_ago, long_ago))
    writers[0].kill()
    writers[0].communicate()
    assert list(storage.list(Zone.BRONZE, "rasters")) == []
    assert len(list(folder.iterdir())) == 1
    writers[1].communicate()
    assert writers[1].returncode == 0
    assert storage.info(at("big.tif")).size_bytes == 20 * MEGABYTE
    assert [path.name for path in folder.iterdir()] == ["big.tif"]


def test_large_files_pass_through_little_memory(storage_settings: StorageSettings, tmp_path: Path) -> None:
    local = tmp_path / "large"
    with local.open("wb") as file:
        file.truncate(64 * MEGABYTE)
    done = start(MOVE_ABOUT, storage_settings, str(local))
    told = json.loads(done.communicate()[0])
    assert len(told["hashes"]) == 1
    assert (tmp_path / "back").stat().st_size == 64 * MEGABYTE
    assert told["grown_mb"] < 48


@pytest.mark.parametrize("options", [{"azure_account_key": KEY[:-4] + "AA=="}, {"azure_sas_token": "sv=1&sig=hidden"}])
def test_refusals_do_not_tell_secrets(azurite: str, options: dict[str, str]) -> None:
    settings = StorageSettings(f"az://{ACCOUNT}/nothing", options={**options, "azure_endpoint": azurite})
    storage = open_storage(settings, "default")
    with pytest.raises(StorageError, match=r"credentials|does not serve us") as caught:
        storage.read(at("a"))
    error: BaseException | None = caught.value
    while error is not None:
        assert "hidden" not in str(error)
        assert KEY[:20] not in str(error)
        error = error.__cause__
    assert KEY[:20] not in repr(settings)
    assert "hidden" not in repr(settings)


def test_a_container_that_is_missing_is_named(azurite: str) -> None:
    options = {"azure_account_key": KEY, "azure_endpoint": azurite}
    storage = open_storage(StorageSettings(f"az://{ACCOUNT}/missing", options=options), "default")
    with pytest.raises(StorageError, match="does not exist: create it"):
        storage.write(at("a"), b"x")


def test_an_account_has_its_own_containers(azure_settings: StorageSettings) -> None:
    """For those who keep their files in containers of Azure and name these in their jobs."""
    container = str(azure_settings.root).split("/")[3]
    settings = StorageSettings(zones={Zone.BRONZE: f"az://{ACCOUNT}"}, options=azure_settings.options)
    storage = open_storage(settings, "default")
    ref = storage.write(at("a/b", container), b"x")
    assert storage.read(ref.address) == b"x"
    assert [info.address for info in storage.list(Zone.BRONZE, container)] == [ref.address]
    assert storage.address_of(storage.url(ref.address)) == ref.address
    with pytest.raises(StorageError, match="cannot be listed"):
        storage.containers(Zone.BRONZE)

"""`rmhdag sample-data`: into a folder, into blob storage, or a sentence why not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import rasterio

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.sampledata.vector_kinds import VECTOR_SAMPLES
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare


def test_a_folder_is_made_and_filled(call_cli: RunCli, home: Path) -> None:
    done = call_cli("sample-data", "new/samples", "--kind", "dem", "--kind", "tile-set", "--size", "64")
    assert done.returncode == 0, done.stderr
    paths = done.stdout.splitlines()
    assert paths[0] == "new/samples/dem.tif"
    assert len(paths) == 10
    assert sorted(paths) == sorted(str(path.relative_to(home)) for path in (home / "new/samples").iterdir())
    with rasterio.open(home / paths[0]) as raster:
        assert raster.shape == (64, 64)


def test_storage_gets_the_same_bytes(call_cli: RunCli, home: Path) -> None:
    given = ["--kind", "landcover", "--size", "64", "--json"]
    call_cli("sample-data", "here", *given)
    done = call_cli("sample-data", "--to-storage", *given, RMHDAG_STORAGE=str(home / "files"))
    assert done.returncode == 0, done.stderr
    compare(json.loads(done.stdout), JSON_OBJECTS["sample-data --to-storage"])
    (made,) = json.loads(done.stdout)["files"]
    assert (made["zone"], made["container"], made["path"]) == ("bronze", "samples", "landcover.tif")
    content = (home / "files" / "bronze" / "samples" / "landcover.tif").read_bytes()
    assert made["sha256"] == hashlib.sha256(content).hexdigest()
    assert content == (home / "here" / "landcover.tif").read_bytes()


def test_vector_layers_are_written_too(call_cli: RunCli, home: Path) -> None:
    done = call_cli("sample-data", "layers", "--kind", "vector", "--features", "50", "--json")
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    assert [Path(file["path"]).name for file in files] == [sample.name for sample in VECTOR_SAMPLES]
    assert all((home / file["path"]).stat().st_size == file["size_bytes"] > 0 for file in files)
    place = ["--to-storage", "--kind", "vector", "--features", "50", "--container", "layers"]
    stored = call_cli("sample-data", *place, RMHDAG_STORAGE=str(home / "files"))
    assert stored.returncode == 0, stored.stderr
    for sample in VECTOR_SAMPLES:
        content = (home / "files" / "bronze" / "layers" / sample.name).read_bytes()
        assert content == (home / "layers" / sample.name).read_bytes()


def test_what_cannot_be_done_is_explained(call_cli: RunCli, home: Path) -> None:
    (home / "a_file").write_text("")
    for arguments, code, words in (
        ([], ExitCode.USAGE, "name a folder, or --to-storage"),
        (["here", "--to-storage"], ExitCode.USAGE, "one of the two"),
        (["--to-storage"], ExitCode.INVALID, "RMHDAG_STORAGE"),
        (["a_file"], ExitCode.FAILED, "a_file cannot be written: File exists"),
        (["here", "--size", "1"], ExitCode.USAGE, "greater than or equal to 16"),
        (["here", "--kind", "lidar"], ExitCode.USAGE, "'tile-set'"),
    ):
        done = call_cli("sample-data", *arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert words in done.stderr


def test_a_container_with_a_bad_name_is_refused(call_cli: RunCli, home: Path) -> None:
    done = call_cli(
        *["sample-data", "--to-storage", "--container", "../up", "--kind", "dem", "--size", "16"],
        RMHDAG_STORAGE=str(home / "files"),
    )
    assert done.returncode == ExitCode.FAILED
    assert "the sample cannot be stored" in done.stderr
    assert not (home / "up").exists()

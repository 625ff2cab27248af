"""Files in blob storage from the command line: listed, put there, fetched; nothing is replaced by accident."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare


@pytest.fixture
def cli(call_cli: RunCli, home: Path) -> RunCli:
    return lambda *words, **more: call_cli(*words, RMHDAG_STORAGE=str(home / "store"))


@pytest.fixture
def read(cli: RunCli) -> Callable[..., dict[str, Any]]:
    def read_json(name: str, *words: str) -> dict[str, Any]:
        done = cli("storage", *words, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        compare(found, JSON_OBJECTS[name])
        return found

    return read_json


def test_a_file_goes_there_and_comes_back(cli: RunCli, read: Callable[..., dict[str, Any]], home: Path) -> None:
    (home / "scene.tif").write_bytes(b"pixels")
    (home / "other.tif").write_bytes(b"others")
    assert cli("storage", "put", "scene.tif", "uploads/").stdout == "bronze/uploads/scene.tif\n"
    (made,) = read("storage put", "put", "other.tif", "uploads/2026/renamed.tif")["files"]
    assert (made["zone"], made["path"], made["size_bytes"]) == ("bronze", "2026/renamed.tif", 6)
    assert read("storage ls, without a container", "ls")["containers"] == ["uploads"]
    listed = read("storage ls", "ls", "uploads")
    assert [one["path"] for one in listed["files"]] == ["2026/renamed.tif", "scene.tif"]
    assert [one["path"] for one in read("storage ls", "ls", "uploads/2026/")["files"]] == ["2026/renamed.tif"]
    assert read("storage ls", "ls", "uploads", "--limit", "1")["has_more"]
    assert read("storage get", "get", "uploads/2026/renamed.tif", "back.tif")["file"] == "back.tif"
    assert (home / "back.tif").read_bytes() == b"others"
    assert "scene.tif" in cli("storage", "ls", "uploads").stdout
    assert "zone silver is empty" in cli("storage", "ls", "silver").stderr
    assert "`rmhdag storage ls` lists the containers" in cli("storage", "ls", "nothing").stderr


def test_a_place_may_be_written_as_every_command_prints_it(
    cli: RunCli, read: Callable[..., dict[str, Any]], home: Path
) -> None:
    """`bronze/uploads/a.txt` was once put into a container `bronze` of bronze, where no workflow looks."""
    (home / "a.txt").write_bytes(b"one")
    assert cli("storage", "put", "a.txt", "bronze/uploads/").stdout == "bronze/uploads/a.txt\n"
    assert cli("storage", "put", "a.txt", "silver/work/b.txt").stdout == "silver/work/b.txt\n"
    assert read("storage ls, without a container", "ls", "bronze")["containers"] == ["uploads"]
    assert read("storage ls, without a container", "ls", "silver/")["containers"] == ["work"]
    assert [file["path"] for file in read("storage ls", "ls", "silver/work/b")["files"]] == ["b.txt"]
    assert cli("storage", "get", "silver/work/b.txt", "back.txt").returncode == 0
    assert cli("storage", "put", "a.txt", "bronze:silver/c.txt").stdout == "bronze/silver/c.txt\n"
    missing = cli("storage", "get", "silver/work/c.txt")
    assert (missing.returncode, "`rmhdag storage ls silver/work/`" in missing.stderr) == (ExitCode.NOT_FOUND, True)


def test_nothing_is_replaced_without_force(cli: RunCli, home: Path) -> None:
    file = home / "scene.tif"
    file.write_bytes(b"first")
    assert cli("storage", "put", file, "uploads/").returncode == 0
    assert cli("storage", "put", file, "uploads/").returncode == 0, "the same content again"
    file.write_bytes(b"second")
    refused = cli("storage", "put", file, "uploads/")
    assert (refused.returncode, "--force" in refused.stderr) == (ExitCode.CONFLICT, True)
    assert cli("storage", "get", "uploads/scene.tif", "--force").returncode == 0
    assert file.read_bytes() == b"first"
    refused = cli("storage", "get", "uploads/scene.tif")
    assert (refused.returncode, "already exists" in refused.stderr) == (ExitCode.CONFLICT, True)
    file.write_bytes(b"second")
    assert cli("storage", "put", file, "uploads/", "--force").returncode == 0
    assert cli("storage", "get", "uploads/scene.tif", "copy.tif").returncode == 0
    assert (home / "copy.tif").read_bytes() == b"second"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("get", "uploads/none.tif"), ExitCode.NOT_FOUND, "rmhdag storage ls"),
        (("get", "uploads/../../secret"), ExitCode.USAGE, "`..`"),
        (("put", "a.tif", "uploads/../x"), ExitCode.USAGE, "`..`"),
        (("put", "a.tif", "b.tif", "uploads/x.tif"), ExitCode.USAGE, "End PLACE with /"),
        (("put", "none.tif", "uploads/"), ExitCode.NOT_FOUND, "is not a file"),
        (("put", "a.tif", "/x"), ExitCode.USAGE, "names no container"),
        (("get", "uploads"), ExitCode.USAGE, "names no file"),
        (("ls", "bronce:"), ExitCode.USAGE, "there is no zone"),
    ],
)
def test_what_is_refused(cli: RunCli, home: Path, words: tuple[str, ...], code: ExitCode, sentence: str) -> None:
    for name in ("a.tif", "b.tif"):
        (home / name).write_bytes(b"x")
    done = cli("storage", *words)
    assert (done.returncode, sentence in done.stderr) == (code, True), done.stderr


def test_several_files_keep_their_names(cli: RunCli, home: Path) -> None:
    for name in ("a.tif", "b.tif"):
        (home / name).write_bytes(name.encode())
    done = cli("storage", "put", "a.tif", "b.tif", "silver:work/")
    assert done.stdout.split() == ["silver/work/a.tif", "silver/work/b.tif"]


def test_without_storage_it_says_what_to_set(call_cli: RunCli) -> None:
    done = call_cli("storage", "ls")
    assert (done.returncode, "RMHDAG_STORAGE" in done.stderr) == (ExitCode.INVALID, True)


def test_each_namespace_has_files_of_its_own(cli: RunCli, read: Callable[..., dict[str, Any]], home: Path) -> None:
    (home / "scene.tif").write_bytes(b"pixels")
    assert cli("storage", "put", "scene.tif", "uploads/", "--namespace", "alpha").stdout == "bronze/uploads/scene.tif\n"
    assert (home / "store" / "bronze" / "namespace-alpha" / "uploads" / "scene.tif").read_bytes() == b"pixels"
    assert read("storage ls, without a container", "ls")["containers"] == []
    assert read("storage ls, without a container", "ls", "--namespace", "alpha")["containers"] == ["uploads"]
    assert cli("storage", "get", "uploads/scene.tif", "back.tif").returncode == ExitCode.NOT_FOUND
    assert cli("storage", "get", "uploads/scene.tif", "back.tif", "--namespace", "alpha").returncode == 0
    around = cli("storage", "get", "namespace-alpha/uploads/scene.tif", "around.tif")
    assert (around.returncode, "other namespaces" in around.stderr) == (ExitCode.USAGE, True)

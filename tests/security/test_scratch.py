"""Nobody else on the machine chooses where the files of tasks are written, or reads them."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmhdag.cli.settings import Settings
from rmhdag.machine.private_files import UnsafeFolder, make_private_folder
from rmhdag.worker.scratch import Scratch
from tests.cli.conftest import RunCli

AsNobody = Callable[[Callable[[], object]], int]


@pytest.fixture
def shared_temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As /tmp is: everybody may make names in it, and nobody may change those of others."""
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-shared-"))
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder)


def test_a_folder_that_another_user_made_first_is_not_used(as_nobody: AsNobody, shared_temporary: Path) -> None:
    planted = shared_temporary / f"rmhdag-scratch-{os.getuid()}"
    assert as_nobody(lambda: planted.mkdir(mode=0o777)) == 0
    scratch = Scratch(None)
    try:
        assert planted not in scratch.folder.parents
        for folder in (scratch.folder, scratch.folder.parent):
            found = folder.stat()
            assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)
        assert os.listdir(planted) == []
    finally:
        scratch.close()
    assert os.listdir(shared_temporary) == [planted.name], "nothing of ours is left"


def test_a_named_folder_of_another_user_is_refused(as_nobody: AsNobody, shared_temporary: Path) -> None:
    theirs = shared_temporary / "scratch"
    assert as_nobody(lambda: theirs.mkdir(mode=0o777)) == 0
    with pytest.raises(UnsafeFolder, match="belongs to user nobody"):
        Scratch(theirs)
    with pytest.raises(UnsafeFolder, match="belongs to user nobody"):
        Scratch(theirs / "below")


def test_a_folder_that_others_can_write_is_refused_and_not_changed(tmp_path: Path) -> None:
    for mode in (0o770, 0o707, 0o1777):
        folder = tmp_path / f"open-{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(UnsafeFolder, match="others can write"):
            Scratch(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path / "victim")
    with pytest.raises(UnsafeFolder, match="is a link"):
        Scratch(tmp_path / "scratch")
    assert os.listdir(tmp_path / "victim") == []


def test_a_folder_in_a_place_that_everybody_can_rename_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UnsafeFolder, match="could be replaced: everybody can write"):
        make_private_folder(tmp_path / "open" / "scratch")


def test_a_worker_uses_a_folder_in_its_data_folder(tmp_path: Path) -> None:
    found = Settings().scratch_folder(tmp_path / "data")
    assert found == tmp_path / "data" / "scratch"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    (tmp_path / "file").write_text("no folder")
    assert Settings().scratch_folder(tmp_path / "file" / "data") is None
    assert Settings(scratch=tmp_path / "named").scratch_folder(tmp_path) == tmp_path / "named"


def test_the_command_says_what_is_wrong_with_the_folder(call_cli: RunCli, home: Path) -> None:
    folder = home / "scratch"
    folder.mkdir()
    folder.chmod(0o777)
    environment = {"RMHDAG_SCRATCH": str(folder), "RMHDAG_KEY": "rmhdag_x"}
    done = call_cli("worker", "--queue", "q", "--via-http", "http://127.0.0.1:9", **environment)
    assert done.returncode == 3
    assert f"others can write {folder}" in done.stderr
    assert "RMHDAG_SCRATCH" in done.stderr

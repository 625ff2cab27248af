"""What lies in the current folder takes nobody's place, and learns no key."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pydantic
import pytest

from rmhdag.cli.plain_http import is_loopback, warn_of_open_listener, warn_of_plain_http
from rmhdag.machine.python import OUR_SOURCE
from tests.cli.conftest import RunCli, plain_environment

AsNobody = Callable[[Callable[[], object]], int]
TRAP = """
import os, pathlib
pathlib.Path(__file__).with_name("trapped").open("a").write(f"{__name__} in process {os.getpid()}\\n")
raise SystemExit("a planted module was imported")
"""
HANDLERS = """
from rmhdag.handlers import handler

@handler("own.greet", light=True)
async def greet(ctx):
    return {"module": __name__}
"""
FLOW = """
workflow_id: own
name: Own
nodes:
  a: {handler: own.greet, queue: light-tasks}
"""
# Installed modules of which every process imports one or the other.
SHADOWED = ("typing_extensions", "orjson", "pydantic", "psycopg", "structlog", "typer", "json", "socket")


def plant(folder: Path) -> None:
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(TRAP)


@pytest.mark.parametrize("path", ["", "{home}/other:."])
def test_planted_modules_are_not_imported_by_any_process(home: Path, path: str) -> None:
    (home / "my_handlers.py").write_text(HANDLERS)
    (home / "own.yaml").write_text(FLOW)
    plant(home)
    # As installed: the command's own folder is first on the path, not the current one.
    command = Path(sys.executable).with_name("rmhdag")
    environment = {"RMHDAG_HANDLERS": "my_handlers"} | ({"PYTHONPATH": path.format(home=home)} if path else {})
    if path:
        # Python itself reads such a path before any code of ours; what we can keep clean are the modules after that.
        for name in ("json", "socket"):
            (home / f"{name}.py").unlink()
    done = subprocess.run(
        [command, "up", "--workflows", "own.yaml", "--run", "own", "--once", "--json"],
        cwd=home,
        env=plain_environment(home) | {"RMHDAG_WARM": "0"} | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert not (home / "trapped").exists(), (home / "trapped").read_text()
    assert done.returncode == 0, done.stderr
    assert '"module":"my_handlers"' in done.stdout.replace(": ", ":") or "my_handlers" in done.stderr + done.stdout


def test_a_command_runs_wherever_it_is_started(home: Path) -> None:
    command = [str(Path(sys.executable).with_name("rmhdag")), "version"]
    gone = home / "gone"
    gone.mkdir()
    for folder in (OUR_SOURCE, Path(pydantic.__file__).parents[1], Path(sys.executable).parent, gone):
        start = f"cd {folder} && {{ [ {folder} != {gone} ] || rmdir {gone}; }} && exec {' '.join(command)}"
        done = subprocess.run(["/bin/sh", "-c", start], env=plain_environment(home), capture_output=True, text=True)
        assert done.returncode == 0, (folder, done.stderr)


def test_handlers_in_a_folder_that_everybody_can_write_are_not_loaded(run_cli: RunCli, home: Path) -> None:
    (home / "my_handlers.py").write_text(HANDLERS)
    (home / "own.yaml").write_text(FLOW)
    assert run_cli("validate", "own.yaml", "--handlers", "my_handlers").returncode == 0
    home.chmod(0o777)
    done = run_cli("validate", "own.yaml", "--handlers", "my_handlers")
    assert done.returncode == 3
    assert "The current folder was not searched: everybody can write it" in done.stderr + done.stdout


def test_a_key_is_not_sent_to_a_server_that_a_file_here_names(run_cli: RunCli, home: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        (home / "rmhdag.toml").write_text(f'url = "{url}"\n')
        for variable in ("RMHDAG_KEY", "RMHDAG_API_KEY"):
            done = run_cli("jobs", **{variable: "rmhdag_secret"})
            assert done.returncode == 5, done.stderr
            assert "url comes from rmhdag.toml in the current folder and key from elsewhere" in done.stderr
            assert "RMHDAG_CONFIG" in done.stderr
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_who_names_server_and_key_in_one_place_is_served(run_cli: RunCli, home: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        (home / "rmhdag.toml").write_text(f'url = "{url}"\nkey = "rmhdag_own"\n')
        # Nobody listens: all of these get as far as asking.
        assert run_cli("jobs").returncode == 69
        (home / "rmhdag.toml").write_text('url = "http://127.0.0.1:1"\n')
        assert run_cli("jobs", "--url", url, RMHDAG_KEY="rmhdag_x").returncode == 69
        assert run_cli("jobs", RMHDAG_URL=url, RMHDAG_KEY="rmhdag_x").returncode == 69
        assert run_cli("jobs", RMHDAG_CONFIG="rmhdag.toml", RMHDAG_KEY="rmhdag_x").returncode == 69


def test_a_database_password_is_not_sent_to_a_host_that_a_file_here_names(call_cli: RunCli, home: Path) -> None:
    (home / "rmhdag.toml").write_text('postgis_host = "127.0.0.1"\npostgis_database = "d"\n')
    done = call_cli("config", "show", "--json", POSTGIS_PASSWORD="hidden")
    shown = {row["name"]: row["value"] for row in json.loads(done.stdout)["settings"]}
    assert shown["postgis_password"] is None
    assert "postgis_password is not sent" in done.stderr


def test_settings_files_of_others_are_ignored_with_a_warning(call_cli: RunCli, home: Path, as_nobody: AsNobody) -> None:
    home.chmod(0o777)
    file = home / "rmhdag.toml"
    assert as_nobody(lambda: file.write_text('schema_name = "theirs"\n')) == 0
    file.chmod(0o644)
    done = call_cli("config", "show")
    assert "theirs" not in done.stdout
    assert "rmhdag.toml is ignored, because it belongs to user nobody" in done.stderr
    assert "theirs" in call_cli("config", "show", RMHDAG_CONFIG="rmhdag.toml").stdout


def test_settings_files_that_everybody_can_write_are_ignored(call_cli: RunCli, home: Path) -> None:
    own = home / "config" / "rmhdag" / "config.toml"
    own.parent.mkdir(parents=True)
    for file in (home / "rmhdag.toml", own):
        file.write_text('schema_name = "open"\n')
        file.chmod(0o666)
    done = call_cli("config", "show")
    assert "open" not in done.stdout.split("schema_name", 1)[1].splitlines()[0]
    assert done.stderr.count("is ignored, because everybody can write it") == 2
    own.chmod(0o600)
    assert "open" in call_cli("config", "show").stdout.split("schema_name", 1)[1].splitlines()[0]


def test_a_password_on_the_command_line_is_warned_of(call_cli: RunCli) -> None:
    url = "postgresql://me:geheim@127.0.0.1:1/d"
    done = call_cli("db", "status", "--database-url", url)
    assert "the password in --database-url can be read" in done.stderr
    assert "geheim" not in done.stderr + done.stdout
    quiet = call_cli("db", "status", RMHDAG_DATABASE_URL=url)
    assert "can be read" not in quiet.stderr


def test_keys_over_plain_http_and_open_listeners_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_plain_http("http://127.0.0.1:8700")
    warn_of_plain_http("https://dag.example.org")
    for host in ("127.0.0.1", "127.8.9.1", "::1", "localhost"):
        assert is_loopback(host)
        warn_of_open_listener(host)
    assert capsys.readouterr().err == ""
    warn_of_plain_http("http://dag.example.org")
    assert "dag.example.org uses http" in capsys.readouterr().err
    for host in ("0.0.0.0", "::", "192.0.2.1", "dag.example.org"):
        warn_of_open_listener(host)
        assert f"listens on {host} without TLS" in capsys.readouterr().err


def test_help_recommends_no_open_listener(call_cli: RunCli) -> None:
    done = call_cli("api", "--help")
    assert "0.0.0.0" not in done.stdout
    assert "TLS" in done.stdout

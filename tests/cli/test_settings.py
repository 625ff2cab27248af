"""Settings: which source wins, what is shown of secrets, and how mistakes are explained."""

import json
from pathlib import Path

import pytest

from rmhdag.cli.credentials import show
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import mask_url
from rmhdag.cli.run_worker import worker_settings
from rmhdag.cli.settings import GROUPS, Settings, load_settings, variables_of
from rmhdag.handlers.raster_limits import RasterLimits
from rmhdag.models.records import Zone
from rmhdag.storage import StorageSettings
from tests.cli.conftest import RunCli


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RMHDAG_HOME", str(tmp_path / "home"))
    for name in ("DATABASE_URL", "POSTGIS_HOST", "POSTGIS_DATABASE", "WORKER_QUEUE"):
        monkeypatch.delenv(name, raising=False)


def test_flag_over_environment_over_file_over_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load_settings().settings.schema_name == "dagapp"
    assert load_settings().origins["schema_name"] == "default"
    (tmp_path / "rmhdag.toml").write_text('schema_name = "from_file"\n')
    assert load_settings().settings.schema_name == "from_file"
    assert load_settings().origins["schema_name"] == "file rmhdag.toml"
    monkeypatch.setenv("RMHDAG_SCHEMA", "from_environment")
    assert load_settings().settings.schema_name == "from_environment"
    assert load_settings().origins["schema_name"] == "environment RMHDAG_SCHEMA"
    loaded = load_settings({"schema_name": "from_flag", "database_url": None})
    assert loaded.settings.schema_name == "from_flag"
    assert loaded.origins["schema_name"] == "flag"
    assert loaded.origins["database_url"] == "default"


def test_our_names_win_over_the_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_QUEUE", "theirs")
    assert load_settings().settings.worker_queue == "theirs"
    assert load_settings().origins["worker_queue"] == "environment WORKER_QUEUE"
    monkeypatch.setenv("RMHDAG_WORKER_QUEUE", "ours")
    assert load_settings().settings.worker_queue == "ours"


def test_every_setting_of_ours_has_its_name_in_the_environment() -> None:
    """What a file calls `heartbeat_seconds` is RMHDAG_HEARTBEAT_SECONDS, whatever else it may be called."""
    foreign = {name for name in Settings.model_fields if not any("RMHDAG_" in one for one in variables_of(name))}
    assert foreign == {
        *("postgis_host", "postgis_port", "postgis_database", "postgis_user", "postgis_password"),
        "applicationinsights_connection_string",
    }
    for name in Settings.model_fields.keys() - foreign:
        assert f"RMHDAG_{name.upper()}" in variables_of(name)


def test_each_setting_is_declared_by_one_package() -> None:
    names = [name for group in GROUPS.values() for name in group.model_fields]
    assert sorted(names) == sorted(Settings.model_fields), "GROUPS are the bases of Settings, and share no name"
    packages = [group.__module__.removesuffix(".configuration") for group in GROUPS.values()]
    assert all(group.__module__.endswith(".configuration") for group in GROUPS.values())
    assert "rmhdag.worker" in packages


def test_a_name_that_only_sounds_secret_is_shown() -> None:
    assert show("oidc_token_types", "at+jwt") == "at+jwt"
    assert show("secret_key_file", "/etc/rmhdag/key") == "/etc/rmhdag/key"
    assert show("postgis_password", "hunter2") == "***"


@pytest.mark.parametrize(
    ("variable", "value", "setting", "expected"),
    [
        ("RMHDAG_HEARTBEAT_SECONDS", "3", "heartbeat_seconds", 3.0),
        ("RMHDAG_STALL_WARNING_SECONDS", "60", "stall_warning_seconds", 60.0),
        ("RMHDAG_STUCK_JOB_DAYS", "14", "stuck_job_days", 14.0),
        ("RMHDAG_WORKER_WAIT_DAYS", "3", "worker_wait_days", 3.0),
    ],
)
def test_the_clocks_are_settings(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, setting: str, expected: float
) -> None:
    monkeypatch.setenv(variable, value)
    loaded = load_settings()
    assert getattr(loaded.settings, setting) == expected
    assert loaded.origins[setting] == f"environment {variable}"
    assert loaded.warnings == []


def test_the_user_s_own_file_counts_where_the_folder_has_none(tmp_path: Path) -> None:
    own = tmp_path / "config" / "rmhdag" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('worker_queue = "heavy"\n')
    assert load_settings().settings.worker_queue == "heavy"
    assert load_settings().origins["worker_queue"] == f"file {own}"


def test_host_and_database_make_a_url() -> None:
    settings = Settings(
        postgis_host="db.example.org", postgis_database="geo", postgis_user="me@org", postgis_password="a/b"
    )
    assert settings.server_url == "postgresql://me%40org:a%2Fb@db.example.org:5432/geo"
    assert Settings(postgis_host="db.example.org").server_url is None
    named = Settings(database_url="postgresql://x/y", postgis_host="h", postgis_database="d")
    assert named.server_url == "postgresql://x/y"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se:cr@et@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql://host/db?password=secret&x=1", "postgresql://host/db?password=***&x=1"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("host=x PASSWORD=secret", "host=x PASSWORD=***"),
    ],
)
def test_passwords_are_masked(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_config_show_tells_origins_and_hides_secrets(call_cli: RunCli) -> None:
    done = call_cli(
        "config",
        "show",
        "--json",
        RMHDAG_DATABASE_URL="postgresql://me:hush-hush-hush-hush@host/db",
        POSTGIS_PASSWORD="hush-hush-hush-hush",
        RMHDAG_CALLBACK_SECRET_KEY="hush-hush-hush-hush",
        RMHDAG_SECRET_KEY="hush-hush-hush-hush",
        RMHDAG_DATABSE_URL="x",
    )
    assert done.returncode == 0
    assert "hush" not in done.stdout + done.stderr
    shown = json.loads(done.stdout)
    rows = {row["name"]: row for row in shown["settings"]}
    assert rows["database_url"]["value"] == "postgresql://me:***@host/db"
    assert rows["database_url"]["origin"] == "environment RMHDAG_DATABASE_URL"
    assert rows["postgis_password"]["value"] == rows["callback_secret_key"]["value"] == "***"
    assert rows["worker_queue"] == {
        "name": "worker_queue",
        "value": None,
        "origin": "default",
        "variables": ["RMHDAG_WORKER_QUEUE", "WORKER_QUEUE"],
        "description": "Queue for heavy tasks; required by orchestrators",
    }
    assert shown["warnings"] == [
        "RMHDAG_DATABSE_URL is set but means nothing to rmhdag; did you mean RMHDAG_DATABASE_URL?"
    ]
    assert "warning: RMHDAG_DATABSE_URL" in done.stderr


def test_config_show_as_text(call_cli: RunCli) -> None:
    done = call_cli("config", "show", RMHDAG_SCHEMA="test")
    line = next(line for line in done.stdout.splitlines() if line.startswith("schema_name"))
    assert line.split() == ["schema_name", "test", "environment", "RMHDAG_SCHEMA"]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"RMHDAG_SCHEMA": "Bad Name"}, "schema_name (environment RMHDAG_SCHEMA): "),
        ({"RMHDAG_RETENTION_DAYS": "0"}, "retention_days (environment RMHDAG_RETENTION_DAYS): "),
        ({"RMHDAG_RETENTION_PAYLOAD_DAYS": "0.001"}, "retention_payload_days (environment RMHDAG_RETENTION_PAYLOAD"),
        ({"RMHDAG_SCHEMA": "pg_mine"}, "reserves names that begin with pg_"),
        ({"RMHDAG_DATABASE_URL": "mysql://me:secret@x"}, "database_url (environment RMHDAG_DATABASE_URL): "),
        ({"WORKER_QUEUE": "a b"}, "worker_queue (environment WORKER_QUEUE): "),
        ({"RMHDAG_OIDC_ISSUER": "http://issuer.example"}, "only https is safe here"),
        ({"RMHDAG_OIDC_ALGORITHMS": '["HS256"]'}, "oidc_algorithms (environment RMHDAG_OIDC_ALGORITHMS): "),
        ({"RMHDAG_OIDC_ROLE_SCOPES": "read"}, "a setting is not JSON: "),
        ({"RMHDAG_OIDC_ROLE_SCOPES": '{"a": ["root"]}'}, "oidc_role_scopes (environment RMHDAG_OIDC_ROLE_SCOPES): "),
        ({"POSTGIS_PORT": "x"}, "postgis_port (environment POSTGIS_PORT): "),
    ],
)
def test_a_bad_setting_is_named_with_its_origin(call_cli: RunCli, environment: dict[str, str], words: str) -> None:
    done = call_cli("config", "show", **environment)
    assert done.returncode == 3
    assert words in done.stderr
    assert "secret" not in done.stderr
    assert done.stdout == ""


def test_a_bad_file_is_named_with_its_line(call_cli: RunCli, home: Path) -> None:
    (home / "rmhdag.toml").write_text('# queues\nworker_queue = "a"\nschema_nane = "x"\n')
    done = call_cli("config", "show")
    assert done.returncode == 3
    assert "rmhdag.toml:3: unknown setting 'schema_nane'" in done.stderr
    assert "Did you mean 'schema_name'?" in done.stderr
    (home / "rmhdag.toml").write_text("worker_queue =\n")
    assert "rmhdag.toml cannot be read" in call_cli("config", "show").stderr
    missing = call_cli("config", "show", RMHDAG_CONFIG="nowhere.toml")
    assert missing.returncode == 4
    assert "RMHDAG_CONFIG names nowhere.toml" in missing.stderr


def test_a_worker_gets_the_limits_for_rasters_that_are_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert load_settings().settings.raster_limits() == RasterLimits(), "one default in two places"
    monkeypatch.setenv("RMHDAG_GDAL_CACHE_MB", "64")
    (tmp_path / "rmhdag.toml").write_text('raster_max_pixels = 1000\ngdal_drivers = "netCDF"\n')
    limits = worker_settings(load_settings().settings, ("heavy",), dsn="postgresql://").rasters
    assert (limits.gdal_cache_mb, limits.raster_max_pixels) == (64, 1000)
    told = limits.as_variables()
    assert told["GDAL_CACHEMAX"] == "64MB"
    assert "netCDF" not in told["GDAL_SKIP"].split(",")


def test_a_worker_gets_the_time_to_stop_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop_seconds(**flags: float) -> float:
        return worker_settings(load_settings(flags).settings, ("heavy",), dsn="postgresql://").stop_seconds

    assert stop_seconds() == 30
    monkeypatch.setenv("RMHDAG_WORKER_STOP_SECONDS", "600")
    assert stop_seconds() == 600
    assert stop_seconds(worker_stop_seconds=5.0) == 5


def test_storage_is_told_to_workers_and_its_secrets_to_nobody_else(call_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "rmhdag.toml").write_text(
        'storage = "s3://bucket/place"\nstorage_gold = "az://account/gold"\n'
        '[storage_options]\naws_region = "eu-central-1"\n"gold.azure_account_key" = "c2VjcmV0"\n'
    )
    settings = load_settings().settings
    told = worker_settings(settings, ("q",), dsn="postgresql://x").storage
    assert [told.url_of(zone) for zone in Zone] == [
        "s3://bucket/place/bronze",
        "s3://bucket/place/silver",
        "az://account/gold",
    ]
    assert told.options_of(Zone.GOLD) == {"aws_region": "eu-central-1", "azure_account_key": "c2VjcmV0"}
    assert told.options_of(Zone.SILVER) == {"aws_region": "eu-central-1"}
    assert StorageSettings.from_variables(told.as_variables()) == told
    for output in ([], ["--json"]):
        shown = call_cli("config", "show", *output, RMHDAG_CONFIG=str(tmp_path / "rmhdag.toml")).stdout
        assert "eu-central-1" in shown
        assert "c2VjcmV0" not in shown
    assert "c2VjcmV0" not in repr(told)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("RMHDAG_STORAGE", "relative/folder", "give a folder from / down"),
        ("RMHDAG_STORAGE_GOLD", "s3://key:hushed@bucket", "no credentials"),
        ("RMHDAG_STORAGE_OPTIONS", '{"azure_acount_key": "hushed"}', "there is no storage option"),
        ("RMHDAG_STORAGE_OPTIONS", '{"lead.aws_region": "x"}', "there is no storage option"),
    ],
)
def test_storage_that_cannot_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(CommandFailed, match=message) as caught:
        load_settings()
    assert "hushed" not in str(caught.value)


def test_templates_may_read_the_variables_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMHDAG_TEMPLATE_ENV", "REGION, DATA_CENTRE")
    monkeypatch.setenv("REGION", "north")
    monkeypatch.delenv("DATA_CENTRE", raising=False)
    settings = load_settings().settings
    assert settings.template_names() == ["REGION", "DATA_CENTRE"]
    assert settings.template_values() == {"REGION": "north"}


@pytest.mark.parametrize("name", ["API_TOKEN", "DB_PASSWORD", "DATABASE_URL", "RMHDAG_KEY", "SIGNING_KEY", "1REGION"])
def test_templates_never_read_what_looks_like_a_secret(call_cli: RunCli, name: str) -> None:
    done = call_cli("config", "show", RMHDAG_TEMPLATE_ENV=f"REGION {name}")
    assert done.returncode == 3
    assert "template_env (environment RMHDAG_TEMPLATE_ENV)" in done.stderr

"""What commands for jobs say when nothing runs: refusals, filters, pages, typed parameters, missing configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.jobs import read_since
from rmhdag.cli.live_view import cut_styled
from rmhdag.cli.output import ESCAPE
from rmhdag.cli.parameters import read_parameters
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.cli.tables import lay_out, show_duration
from rmhdag.models.scopes import Scope
from rmhdag.store.connection import connect
from tests.api.serving import served
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare

QUEUES = {"JOB_QUEUE_NAME": "jobs", "DAG_WORKER_QUEUE": "light-tasks", "WORKER_QUEUE": "heavy-tasks"}
CALLBACK = "0198f3c27c8b7d3a9f20c4de51b6a7e8"
TYPED = """\
workflow_id: typed
name: Typed
inputs:
  text: {type: string, default: x}
  whole: {type: integer, default: 1, maximum: 5}
  flag: {type: boolean, default: false}
  list: {type: array, default: [], items: {type: integer}}
  thing: {type: object, default: {}}
nodes:
  one: {handler: echo, queue: light-tasks, params: {text: "{{ inputs.text }}"}}
"""


@pytest.fixture(params=["near", "far"])
def way(request: pytest.FixtureRequest) -> str:
    """Beside the database, or over HTTP, with nothing that leads to the database."""
    return str(request.param)


@pytest.fixture
def environment(way: str, migrated_database: str) -> Iterator[dict[str, str]]:
    if way == "near":
        yield QUEUES | {"RMHDAG_DATABASE_URL": migrated_database}
        return
    with served(migrated_database, queues=("light-tasks", "heavy-tasks")) as api:
        yield {"RMHDAG_URL": api.url, "RMHDAG_KEY": api.key(Scope.ADMIN, name="ada")}


@pytest.fixture
def cli(call_cli: RunCli, environment: dict[str, str], home: Path) -> RunCli:
    """With a workflow registered, and nobody to run it."""
    (home / "typed.yaml").write_text(TYPED)

    def call(*arguments: str | Path, stdin: str | bytes = b"", **more: str) -> Any:
        return call_cli(*arguments, stdin=stdin, **(environment | more))

    done = call("workflows", "register", "typed.yaml", "--json")
    assert json.loads(done.stdout) == {"registered": [{"workflow_id": "typed", "version": 1, "nodes": 1}]}
    return call


def submit(cli: RunCli, *arguments: str) -> str:
    done = cli("submit", "typed", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_values_get_the_type_that_is_declared(cli: RunCli, home: Path) -> None:
    (home / "thing.json").write_text('{"a": [1, null]}')
    given = ["text=12", "whole=3", "flag=yes", "list=1,2", "thing=@thing.json"]
    done = cli("submit", "typed", *given, "--dry-run", "--json")
    assert json.loads(done.stdout)["input_params"] == {
        "text": "12",
        "whole": 3,
        "flag": True,
        "list": [1, 2],
        "thing": {"a": [1, None]},
    }
    over = cli("submit", "typed", "whole=4", "--params", '{"whole": 2, "text": "t"}', "--dry-run", "--json")
    assert json.loads(over.stdout)["input_params"]["whole"] == 4
    assert json.loads(over.stdout)["input_params"]["text"] == "t"
    assert json.loads(cli("jobs", "--json").stdout)["jobs"] == [], "--dry-run submits nothing"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("number", "1.5", 1.5),
        ("number", "NaN", "NaN"),
        ("integer", "1e400", float("inf")),
        ("boolean", "off", False),
        ("boolean", "perhaps", "perhaps"),
        ("array", "", []),
        ("array", "a, b", ["a", "b"]),
        ("array", "[1", "[1"),
        ("object", '{"a": 1}', {"a": 1}),
        ("string", "@not-a-file", "@not-a-file"),
        (None, "7", 7),
        (None, "word", "word"),
    ],
)
def test_what_is_not_of_its_type_is_left_for_the_check(kind: str | None, text: str, value: object) -> None:
    declared = {"x": {"type": kind}} if kind else {}
    assert read_parameters(declared, [f"x={text}"], None) == {"x": value}


@pytest.mark.parametrize(
    ("pairs", "document", "code"),
    [
        (["novalue"], None, ExitCode.USAGE),
        ([], "[1]", ExitCode.INVALID),
        ([], "{", ExitCode.INVALID),
        ([], '{"a": NaN}', ExitCode.INVALID),
        ([], "@missing.json", ExitCode.NOT_FOUND),
        ([], "[" * 100_000, ExitCode.INVALID),
    ],
)
def test_parameters_that_cannot_be_read(pairs: list[str], document: str | None, code: ExitCode) -> None:
    with pytest.raises(CommandFailed) as failed:
        read_parameters({}, pairs, document)
    assert failed.value.code == code


def test_wrong_parameters_are_told_all_at_once(cli: RunCli) -> None:
    done = cli("submit", "typed", "whole=9", "flag=perhaps", "colour=red")
    assert done.returncode == ExitCode.INVALID
    for name in ("whole", "flag", "colour"):
        assert f"  {name}: " in done.stderr
    assert "rmhdag workflows show typed" in done.stderr


def test_what_does_not_exist_is_exit_code_4(cli: RunCli, way: str) -> None:
    done = cli("submit", "typd")
    assert done.returncode == ExitCode.NOT_FOUND
    assert "Did you mean `typed`?" in done.stderr
    assert "The newest version is 1." in cli("submit", "typed", "--version", "7").stderr
    for command in (["job", "0123456789"], ["cancel", "zz"], ["retry", "0123456789"], ["logs", "01"]):
        assert cli(*command).returncode == ExitCode.NOT_FOUND
    job_id = submit(cli)
    assert cli("job", job_id, "--node", "nix").returncode == ExitCode.NOT_FOUND
    elsewhere = cli("job", job_id, "--namespace", "another")
    assert elsewhere.returncode == (ExitCode.NOT_FOUND if way == "near" else ExitCode.AUTHENTICATION)


def test_a_job_that_nobody_runs_says_so(cli: RunCli) -> None:
    done = cli("submit", "typed")
    assert "no orchestrator is running" in done.stderr
    job_id = done.stdout.strip()
    assert "The job waits for an orchestrator to start it." in cli("job", job_id).stdout
    waiting = cli("submit", "typed", "--wait")
    assert waiting.returncode == ExitCode.UNAVAILABLE
    assert "`rmhdag up`" in waiting.stderr
    assert cli("retry", job_id).returncode == ExitCode.CONFLICT
    asked = cli("cancel", job_id, "--json")
    assert asked.returncode == 0
    assert json.loads(asked.stdout)["outcome"] == "accepted"


def test_the_same_key_starts_no_second_job(cli: RunCli) -> None:
    first = submit(cli, "text=a", "--idempotency-key", "k")
    assert submit(cli, "text=a", "--idempotency-key", "k") == first
    other = cli("submit", "typed", "text=b", "--idempotency-key", "k")
    assert other.returncode == ExitCode.CONFLICT
    assert submit(cli, "text=b", "--idempotency-key", "k", "--as", "somebody else") != first


def test_jobs_are_filtered_and_paged(cli: RunCli) -> None:
    made = [submit(cli, "--correlation-id", f"c{number % 2}") for number in range(5)]
    newest_first = made[::-1]
    assert cli("jobs", "--ids").stdout.split() == newest_first
    pages: list[str] = []
    cursor: list[str] = []
    while True:
        page = json.loads(cli("jobs", "--limit", "2", "--json", *cursor).stdout)
        pages += [job["job_id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        cursor = ["--after", page["next"]]
    assert pages == newest_first
    assert cli("jobs", "--ids", "--correlation-id", "c1").stdout.split() == [made[3], made[1]]
    assert cli("jobs", "--ids", "--status", "active", "--since", "1h", "--workflow", "typed").stdout.split()
    for nobody in (["--status", "failed"], ["--workflow", "x"], ["--by", "x"], ["--namespace", "x"]):
        assert cli("jobs", *nobody).stdout == ""
    assert "JOB " in cli("jobs").stdout
    assert f"{made[0]}  pending" in cli("jobs").stdout
    for mistake in (["--status", "done"], ["--since", "soon"], ["--after", "x"], ["--limit", "0"]):
        assert cli("jobs", *mistake).returncode == ExitCode.USAGE


def test_the_beginning_of_an_id_is_enough_if_it_is_one_job_s(cli: RunCli) -> None:
    first, second = submit(cli), submit(cli)
    same = next(length for length in range(33) if first[:length] != second[:length])
    assert f"job          {first}" in cli("job", first[:same]).stdout
    unclear = cli("job", first[: same - 1])
    assert unclear.returncode == ExitCode.CONFLICT
    assert second in unclear.stderr


def test_a_workflow_is_shown_with_its_inputs(cli: RunCli) -> None:
    shown = cli("workflows", "show", "typed").stdout
    assert "typed v1  Typed" in shown
    assert "whole" in shown
    assert "light-tasks" in shown
    assert cli("workflows", "--json").stdout == cli("workflows", "list", "--json").stdout
    assert "\ntyped " in cli("workflows").stdout
    assert cli("workflows", "show", "nix").returncode == ExitCode.NOT_FOUND


def test_a_version_has_one_content(cli: RunCli, home: Path, way: str) -> None:
    (home / "typed.yaml").write_text(TYPED.replace("name: Typed", "name: Changed"))
    refused = cli("workflows", "register", "typed.yaml")
    assert refused.returncode == ExitCode.CONFLICT
    assert "RMHDAG_DEVELOPMENT" in refused.stderr
    if way == "near":  # far away it is the server's mode that counts
        assert cli("workflows", "register", "typed.yaml", RMHDAG_DEVELOPMENT="1").returncode == 0
    (home / "typed.yaml").write_text(TYPED.replace("light-tasks", "nowhere"))
    unknown = cli("workflows", "register", "typed.yaml")
    assert unknown.returncode == ExitCode.INVALID
    assert "typed.yaml:10:" in unknown.stderr


@pytest.mark.parametrize(
    ("command", "given", "named"),
    [
        ("orchestrator", {}, "JOB_QUEUE_NAME, DAG_WORKER_QUEUE, WORKER_QUEUE"),
        ("orchestrator", {"JOB_QUEUE_NAME": "jobs", "WORKER_QUEUE": "heavy"}, "DAG_WORKER_QUEUE"),
        ("worker", {"JOB_QUEUE_NAME": "jobs"}, "neither WORKER_QUEUE nor DAG_WORKER_QUEUE is set"),
        ("workflows register typed.yaml", {}, "DAG_WORKER_QUEUE and WORKER_QUEUE"),
    ],
)
def test_queues_have_no_defaults(
    command: str, given: dict[str, str], named: str, call_cli: RunCli, migrated_database: str, home: Path
) -> None:
    (home / "typed.yaml").write_text(TYPED)
    done = call_cli(*command.split(), RMHDAG_DATABASE_URL=migrated_database, **given)
    assert done.returncode == ExitCode.INVALID
    assert named in done.stderr


def test_a_heartbeat_must_fit_its_lease(call_cli: RunCli) -> None:
    done = call_cli("orchestrator", **QUEUES, HEARTBEAT_INTERVAL_SEC="30", ORPHAN_THRESHOLD_SEC="40")
    assert done.returncode == ExitCode.INVALID
    assert "Set HEARTBEAT_INTERVAL_SEC to 16 or less" in done.stderr
    assert call_cli("worker", "--queue", "a b").returncode == ExitCode.USAGE


def test_a_database_without_our_schema_is_explained(call_cli: RunCli, database: str) -> None:
    for command in ("jobs", "queues", "worker --queue x", "submit typed"):
        done = call_cli(*command.split(), RMHDAG_DATABASE_URL=database)
        assert done.returncode == ExitCode.CONFLICT, command
        assert "`rmhdag db migrate`" in done.stderr


def test_the_development_file_counts_least_and_not_beside_a_named_one(call_cli: RunCli, home: Path) -> None:
    (home / "data").mkdir()
    (home / "data" / "development.toml").write_text('worker_queue = "ours"\nschema_name = "theirs"\n')
    (home / "rmhdag.toml").write_text('schema_name = "mine"\n')
    (home / "other.toml").write_text("")

    def read(**environment: str) -> tuple[Any, Any]:
        rows = json.loads(call_cli("config", "show", "--json", **environment).stdout)["settings"]
        found = {row["name"]: row["value"] for row in rows}
        return found["worker_queue"], found["schema_name"]

    assert read() == ("ours", "mine")
    assert read(WORKER_QUEUE="given") == ("given", "mine")
    assert read(RMHDAG_CONFIG="other.toml") == (None, "dagapp")


def test_durations_and_ages_in_words() -> None:
    shown = [show_duration(seconds) for seconds in (None, 0, 0.26, 9.94, 9.96, 59.4, 61, 3_700, 90_000)]
    assert shown == ["", "0.0s", "0.3s", "9.9s", "10s", "59s", "1m 1s", "1h 1m", "1d 1h"]
    assert (read_since("1h") - read_since("2h")).total_seconds() == pytest.approx(3_600, abs=5)


def test_tables_and_cuts_count_what_is_seen() -> None:
    assert lay_out(("A", "N"), [("x", 5), ("longer", 10)], right=("N",)) == "A        N\nx        5\nlonger  10\n"
    red, plain = f"{ESCAPE}[31m", f"{ESCAPE}[0m"
    assert cut_styled(f"{red}abc{plain}def", 4) == f"{red}abc{plain}d"
    assert cut_styled("abc", 3) == "abc"


def test_dead_letters_are_listed_and_laid_aside(cli: RunCli, migrated_database: str) -> None:
    with connect(migrated_database, "test", autocommit=True) as conn:
        conn.execute(
            "INSERT INTO dagapp.dag_dead_letters (dead_letter_id, queue, reason, error_message, raw)"
            " VALUES ('dl-1', 'light-tasks', 'unreadable', 'no JSON', '{'), ('dl-2', NULL, 'unreadable', NULL, 'x')"
        )
    found = json.loads(cli("dead-letters", "--json").stdout)
    compare(found, JSON_OBJECTS["dead-letters list"])
    listed = found["dead_letters"]
    assert [(one["dead_letter_id"], one["queue"]) for one in listed] == [("dl-1", "light-tasks"), ("dl-2", None)]
    assert "no JSON" in cli("dead-letters").stdout
    assert "dl-1" in json.dumps(json.loads(cli("dead-letters", "list", "--json").stdout))
    compare(json.loads(cli("dead-letters", "requeue", "dl-1", "--json").stdout), JSON_OBJECTS["dead-letters requeue"])
    refused = cli("dead-letters", "requeue", "dl-1")
    assert (refused.returncode, refused.stdout) == (ExitCode.CONFLICT, "")
    assert "belongs to no job" in refused.stderr
    assert cli("dead-letters", "requeue").returncode == ExitCode.USAGE
    assert cli("dead-letters", "discard", "dl").returncode == ExitCode.NOT_FOUND
    assert cli("dead-letters", "discard", "dl-1").stdout == "dl-1\n"
    again = cli("dead-letters", "discard", "dl-1")
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr.startswith("dl-1 was discarded by ")
    assert json.loads(cli("dead-letters", "discard", "--all", "--json").stdout) == {"discarded": ["dl-2"]}
    assert "no dead letters" in cli("dead-letters").stderr
    assert json.loads(cli("queues", "--json").stdout)["queues"][0]["dead_letters"] == 0


def test_callbacks_are_listed_and_sent_again(cli: RunCli, migrated_database: str) -> None:
    with connect(migrated_database, "test", autocommit=True) as conn:
        conn.execute(
            "INSERT INTO dagapp.dag_callbacks (callback_id, job_id, url, endpoint_url, host, body, status, settled_at,"
            " last_error) VALUES ('0198f3c27c8b7d3a9f20c4de51b6a7e8', 'j-1', 'https://a.example/x?code=7', 'https://a.example/x',"
            " 'https://a.example', '{}', 'dead', now(), 'answer 500')"
        )
    found = json.loads(cli("callbacks", "--json").stdout)
    compare(found, JSON_OBJECTS["callbacks list"])
    assert [one["callback_id"] for one in found["callbacks"]] == [CALLBACK]
    shown = cli("callbacks", "list", "--status", "dead", "--job", "j-1").stdout
    assert "answer 500" in shown
    assert "code=7" not in shown
    assert "no callbacks" in cli("callbacks", "list", "--status", "pending").stderr
    assert cli("callbacks", "list", "--status", "lost").returncode == 2
    assert cli("callbacks", "redeliver", CALLBACK, CALLBACK[::-1]).returncode == 4
    assert "no callbacks" in cli("callbacks", "list", "--status", "pending").stderr
    again = json.loads(cli("callbacks", "redeliver", CALLBACK, "--json").stdout)
    compare(again, JSON_OBJECTS["callbacks redeliver"])
    [waiting] = json.loads(cli("callbacks", "list", "--status", "pending", "--json").stdout)["callbacks"]
    assert waiting["redelivered_by"]


def test_a_callback_url_inside_our_network_is_refused(cli: RunCli, way: str) -> None:
    inside = ("submit", "typed", "--callback-url", "http://127.0.0.1:8099/latest")
    refused = cli(*inside)
    assert refused.returncode == 3
    assert "no public address" in refused.stderr
    assert "RMHDAG_CALLBACK_HOSTS" in refused.stderr
    if way == "near":
        assert cli(*inside, RMHDAG_CALLBACK_HOSTS="sink.internal, 127.0.0.1").returncode == 0


def test_attention_and_search_print_what_the_reference_says(cli: RunCli) -> None:
    job_id = submit(cli)
    compare(json.loads(cli("attention", "--json").stdout), JSON_OBJECTS["attention"])
    hits = json.loads(cli("search", job_id, "--json").stdout)
    compare(hits, JSON_OBJECTS["search"])
    assert job_id in json.dumps(hits)

"""A worker runs handlers of all kinds and reports what became of them."""

from pathlib import Path

import orjson
import pytest

from rmhdag.models.references import RESERVED_KEY, Reference, as_reference
from rmhdag.store import payloads
from tests.store.waiting import wait_until
from tests.worker.conftest import BAIT, Desk, Gate, StartWorker, WorkerProcess

OVER_BOTH_TRANSPORTS = True


def test_tasks_of_all_kinds_end_as_they_should(shared_desk: Desk) -> None:
    desk = shared_desk
    tasks = {
        "echo": desk.add("echo", {"a": [1, None, "ü"]}),
        "light": desk.add("sleep", {"seconds": 0.0}),
        "phases": desk.add("multi_phase", {"phases": 2}),
        "failing": desk.add("fail", {"message": "no luck"}),
        "hopeless": desk.add("fail", {"message": "never", "retryable": False}),
        "refused": desk.add("hello_world", {"name": 5, "nmae": "x"}),
    }
    unknown = desk.add("nobody.knows")
    found = {name: desk.result(task_id) for name, task_id in tasks.items()}
    assert found["echo"].output == {"echoed_params": {"a": [1, None, "ü"]}}
    assert found["light"].output == {"slept_seconds": 0.0}
    assert found["phases"].output == {"phases": [1, 2], "resumed_after": 0}
    assert found["failing"][:3] == ("failed", "handler_error", "RuntimeError: no luck")
    assert found["hopeless"][:3] == ("failed", "non_retryable", "never")
    assert found["refused"].error_kind == "non_retryable"
    assert "params /name: Input should be a valid string" in str(found["refused"].error_message)
    assert "params /nmae: there is no such parameter; did you mean 'name'?" in str(found["refused"].error_message)
    # Another worker may have it: so it waits.
    waiting = desk.queued(unknown)
    assert waiting is not None
    assert (waiting["worker_id"], waiting["attempt"], waiting["lease_losses"]) == (None, 1, 0)
    assert "Traceback" in desk.log(tasks["failing"])
    kind, told = desk.inbox(tasks["echo"])[-1]
    assert (kind, told["ok"], told["out"], told["attempt"]) == ("task_reported", True, found["echo"].output, 1)


def test_warnings_and_errors_with_codes_are_reported(shared_desk: Desk) -> None:
    desk = shared_desk
    warnings = [{"code": "CRS_OVERRIDE", "message": "EPSG:4326 as given", "count": 2}]
    many = [{"code": f"W{number}", "message": "m" * 400} for number in range(120)]
    error = {"code": "CRS_MISSING", "message": "a.tif names no CRS", "details": {"file": "a.tif"}}
    tasks = {
        "quiet": desk.add("test.warn"),
        "warns": desk.add("test.warn", {"warnings": warnings}),
        "many": desk.add("test.warn", {"warnings": many}),
        "fails": desk.add("test.warn", {"warnings": warnings, "error": error}),
        "again": desk.add("test.warn", {"error": {**error, "retryable": True}}),
    }
    found = {name: desk.result(task_id) for name, task_id in tasks.items()}
    assert [found[name].output for name in ("quiet", "warns", "many")] == [{"made": True}] * 3
    assert found["fails"][:3] == ("failed", "non_retryable", "a.tif names no CRS")
    assert found["again"].error_kind == "handler_error"
    query = "SELECT warnings, error FROM dag_task_results WHERE task_id = %s"
    stored = {name: desk.conn.execute(query, [task_id]).fetchone() for name, task_id in tasks.items()}
    assert stored["quiet"] == (None, None)
    assert stored["warns"] == (warnings, None)
    assert stored["fails"] is not None
    assert stored["many"] is not None
    assert (len(stored["many"][0]), stored["many"][0][-1]["count"]) == (101, 20)
    told, why = stored["fails"]
    assert told == warnings
    assert (why["code"], why["category"], why["user_fixable"]) == ("CRS_MISSING", "data_quality", True)
    assert why["details"] == {"file": "a.tif"}
    inbox = {name: desk.inbox(task_id)[-1][1] for name, task_id in tasks.items()}
    assert "warnings" not in inbox["quiet"]
    assert "cause" not in inbox["quiet"]
    assert (inbox["warns"]["warnings"], inbox["many"]["warnings"]) == (warnings, True)
    assert inbox["fails"]["cause"] == why


@pytest.mark.parametrize(
    ("kind", "error_kind", "said"),
    [
        ("nan", "output_refused", "nan is not a JSON number at '/a/0'"),
        ("bytes", "output_refused", "a bytes is not JSON at '/a'"),
        ("nul", "output_refused", "NUL character"),
        ("surrogate", "output_refused", "lone surrogate"),
        ("huge_integer", "output_refused", "more than 64 bits"),
        ("deep", "output_refused", "nested too deeply"),
        ("reserved", "output_refused", "the key 'rmhdag:payload', which rmhdag reserves for itself at '/a/0'"),
        ("list", "output_refused", "returned list [1, 2]"),
        ("keys", "output_refused", "a key of type int"),
        ("too_large", "output_refused", "larger than 67108864 bytes"),
        ("failure", "handler_error", "it did not work"),
        ("exit", "handler_error", "sys.exit(4)"),
    ],
)
def test_hostile_outputs_are_refused_by_name(shared_desk: Desk, kind: str, error_kind: str, said: str) -> None:
    result = shared_desk.result(shared_desk.add("test.output", {"kind": kind}))
    assert (result.status, result.error_kind, result.output) == ("failed", error_kind, None)
    assert said in str(result.error_message)


def test_what_the_database_refuses_fails_alone(shared_desk: Desk) -> None:
    """One result of a batch that PostgreSQL will not take: the batch is halved until it stands alone."""
    desk = shared_desk
    with desk.conn.transaction():
        good = [desk.add("echo", {"n": n}) for n in range(20)]
        bad = desk.add("test.accept_anything")
        good += [desk.add("echo", {"n": n}) for n in range(20)]
    assert {desk.result(task_id).status for task_id in good} == {"completed"}
    refused = desk.result(bad)
    assert (refused.status, refused.error_kind) == ("failed", "output_refused")
    assert "refused the output" in str(refused.error_message)


def test_large_outputs_are_stored_apart_and_given_as_parameters_again(shared_desk: Desk) -> None:
    desk = shared_desk
    reference = desk.result(desk.add("test.output", {"kind": "large"})).output
    stored = as_reference(reference)
    assert stored is not None
    assert payloads.read_json(desk.conn, "default", stored.sha256)["n"] == 7
    echoed = desk.result(desk.add("echo", {"deep": [{"it": reference}], "other": {"sha256": "is a word"}})).output
    whole = payloads.read_json(desk.conn, "default", echoed[RESERVED_KEY]["sha256"])["echoed_params"]
    assert whole["deep"][0]["it"]["n"] == 7
    assert whole["other"] == {"sha256": "is a word"}


def test_a_description_of_a_file_is_an_output_like_any_other(shared_desk: Desk) -> None:
    desk = shared_desk
    file = desk.result(desk.add("test.output", {"kind": "file"})).output
    assert file == {"sha256": "0" * 64, "size_bytes": 70_000, "media_type": "application/json"}
    assert desk.result(desk.add("echo", {"of": file})).output["echoed_params"] == {"of": file}


def test_references_in_stored_values_are_followed(shared_desk: Desk) -> None:
    """A fan-in that is stored apart gathers references to its children's outputs."""
    desk = shared_desk
    inner = payloads.write_json(desk.conn, "default", "a job", b'{"n":7}')
    outer = payloads.write_json(desk.conn, "default", "a job", orjson.dumps({"results": [inner.as_json(), 1]}))
    echoed = desk.result(desk.add("echo", {"all": outer.as_json()})).output["echoed_params"]
    assert echoed == {"all": {"results": [{"n": 7}, 1]}}


def test_records_are_reported_with_the_output_and_stored_apart_if_there_are_many(shared_desk: Desk) -> None:
    desk = shared_desk
    query = "SELECT records FROM dag_task_results WHERE task_id = %s"
    for files in (1, 2_000):
        task_id = desk.add("test.publish", {"files": files})
        assert desk.result(task_id).output == {"ok": 1}
        [(kept,)] = desk.conn.execute(query, [task_id]).fetchall()
        if files > 1:
            kept = payloads.read_json(desk.conn, "default", kept[RESERVED_KEY]["sha256"])
        assert [record["path"] for record in kept] == [f"{number}.tif" for number in range(files)]
        assert desk.inbox(task_id)[-1][1]["publishes"] is True


def test_a_reference_to_nothing_names_its_place(shared_desk: Desk) -> None:
    nothing = Reference("0" * 64, 1).as_json()
    result = shared_desk.result(shared_desk.add("echo", {"a": [nothing]}))
    assert (result.status, result.error_kind) == ("failed", "non_retryable")
    assert "params /a/0: there is no payload" in str(result.error_message)


def test_a_snoozed_task_goes_back_with_its_delay(shared_desk: Desk) -> None:
    desk = shared_desk
    task_id = desk.add("test.later", {"seconds": 3600})
    row = desk.wait(lambda: (row := desk.queued(task_id)) and row["available_at"] and row)
    assert row["worker_id"] is None
    assert row["attempt"] == 1
    assert [(kind, said["reason"]) for kind, said in desk.inbox(task_id)] == [("task_snoozed", None)]
    desk.conn.execute("UPDATE dag_queue_messages SET available_at = NULL WHERE task_id = %s", [task_id])
    assert desk.result(task_id).output == {"epoch": 2}


def test_logs_are_kept_per_task(shared_desk: Desk) -> None:
    desk = shared_desk
    task_id = desk.add("test.write_log")
    desk.result(task_id)
    text = desk.log(task_id)
    assert "INFO by the logger" in text
    assert "by print" in text
    assert "past Python" in text


def test_a_flood_of_logs_is_cut_at_a_megabyte(shared_desk: Desk) -> None:
    desk = shared_desk
    task_id = desk.add("test.write_log", {"lines": 5000})
    desk.result(task_id)
    rows = desk.conn.execute(
        "SELECT octet_length(content), truncated FROM dag_task_logs WHERE task_id = %s ORDER BY chunk_index", [task_id]
    ).fetchall()
    assert max(size for size, _ in rows) <= 64 * 1024
    assert 1_000_000 < sum(size for size, _ in rows) <= 1024 * 1024
    assert [truncated for _, truncated in rows].count(True) == 1
    assert rows[-1][1]


def test_progress_shows_while_a_task_runs_and_its_row_becomes_the_result(shared_desk: Desk, gate: Gate) -> None:
    desk = shared_desk
    task_id = desk.add("test.progress", {"gate": gate.path})
    # The last that it told before it went silent, however quickly that came after the ones before.
    desk.wait(lambda: (found := desk.find_result(task_id, "{running}")) and found.progress_current == 9_999)
    gate.open()
    result = desk.result(task_id)
    assert (result.status, result.progress_current) == ("completed", 10_000)


def test_the_largest_number_shows_too(shared_desk: Desk, gate: Gate) -> None:
    desk = shared_desk
    task_id = desk.add("test.far_along", {"gate": gate.path})
    desk.wait(lambda: (found := desk.find_result(task_id, "{running}")) and found.progress_current == 2**63 - 1)
    gate.open()
    assert desk.result(task_id).status == "completed"


def test_the_start_of_a_long_task_is_marked_and_told(shared_desk: Desk, gate: Gate) -> None:
    desk = shared_desk
    task_id = desk.add("test.gate", {"gate": gate.path})
    desk.started(task_id)
    assert [kind for kind, _ in desk.inbox(task_id)] == ["task_started"]
    gate.open()
    assert desk.result(task_id).status == "completed"


def test_scratch_folders_are_removed(shared_desk: Desk) -> None:
    result = shared_desk.result(shared_desk.add("test.scratch"))
    assert not Path(result.output["folder"]).exists()


def test_a_child_sees_neither_database_nor_driver(shared_desk: Desk) -> None:
    seen = shared_desk.result(shared_desk.add("test.spy")).output
    assert "psycopg" not in seen["modules"]
    assert BAIT.keys().isdisjoint(seen["environment"])
    assert seen["no_new_privileges"]


def test_a_child_is_told_what_gdal_may_do_before_gdal_is_loaded(shared_desk: Desk) -> None:
    seen = shared_desk.result(shared_desk.add("test.spy")).output
    assert {"GDAL_CACHEMAX", "GDAL_NUM_THREADS", "GDAL_SKIP", "RMHDAG_RASTER_MAX_PIXELS"} <= set(seen["environment"])
    assert "rasterio" not in seen["modules"]


def test_a_warm_worker_has_the_libraries_before_a_task_asks(start_worker: StartWorker, desk: Desk) -> None:
    start_worker(warm=True, concurrency=1)

    def has_rasterio() -> bool:
        seen = desk.result(desk.add("test.spy")).output
        return "rmhdag.handlers.raster.validate" in seen["modules"]

    assert wait_until(has_rasterio)


def test_many_light_tasks_share_one_process(shared_desk: Desk) -> None:
    """Forty waits of half a second would take ten seconds in two slots."""
    desk = shared_desk
    tasks = [desk.add("sleep", {"seconds": 0.5}) for _ in range(40)]
    desk.wait(lambda: all(desk.find_result(task_id) for task_id in tasks), 5)


def test_a_worker_registers_itself_and_its_handlers(desk: Desk, worker: WorkerProcess) -> None:
    row = desk.conn.execute("SELECT slots, queues, draining FROM dag_workers").fetchone()
    assert row == (2, ["light"], False)
    # Over HTTP they belong to the namespace of the key.
    schema = desk.conn.execute(
        "SELECT params_schema FROM dag_handlers WHERE handler = 'hello_world' UNION ALL"
        " SELECT params_schema FROM dag_namespace_handlers WHERE handler = 'hello_world'"
    ).fetchone()
    assert schema is not None
    assert schema[0]["properties"]["name"]["maxLength"] == 200


def test_without_notices_tasks_are_found_by_polling(desk: Desk, start_worker: StartWorker) -> None:
    start_worker(notify=False, poll_seconds=0.1)
    assert desk.result(desk.add("echo")).status == "completed"


def test_a_module_that_cannot_be_loaded_ends_the_worker_with_its_name(desk: Desk, tmp_path: Path) -> None:
    worker = WorkerProcess(desk, tmp_path, dsn=desk.dsn, handler_modules=["tests.worker.no_such_module"])
    assert worker.process.wait(30) != 0
    assert "tests.worker.no_such_module" in worker.said()


def test_json_is_passed_on_as_it_is(shared_desk: Desk) -> None:
    given = {
        "": "",
        "a/b~c": [0.1, -2.5e-7, 1e15, 2**63 - 1, -(2**63), True, None, "\u202e\u2028é"],
        "items": {"keys": []},
    }
    result = shared_desk.result(shared_desk.add("echo", given))
    assert result.output["echoed_params"] == given

"""The small parts, each alone: frames, the board, logs on their way, batches of results."""

import subprocess
import sys
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.handlers import StopReason
from rmhdag.models.leases import ClaimedTask, PayloadMissingError
from rmhdag.models.references import Reference
from rmhdag.models.states import TaskStatus
from rmhdag.worker.board import Board, Shown
from rmhdag.worker.child_process import Ending, task_frame
from rmhdag.worker.frames import FrameError, FrameReader, encode
from rmhdag.worker.lease import LOG_BYTES, Lease
from rmhdag.worker.references import UnresolvedReferenceError, may_hold_reference, resolve_references
from rmhdag.worker.reports import BATCH, BATCH_BYTES, Finished, take_batch
from rmhdag.worker.settings import WorkerSettings
from tests.store.waiting import wait_until

JSON = st.recursive(st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5), st.lists, max_leaves=5)


def task(lease_epoch: int = 1, lease_losses: int = 0) -> ClaimedTask:
    return ClaimedTask(
        "t", "j", "n", "q", "echo", {}, 60, 1, lease_epoch, lease_losses, 0, None, None, None, 1, "default"
    )


def test_values_of_a_task_stand_in_the_fields_of_their_names() -> None:
    values: dict[str, Any] = {name: name for name in ClaimedTask._fields}
    frame = task_frame(ClaimedTask(**values), 7, "trace_parent", ("***",))
    assert frame._asdict() == {name: name for name in frame._fields} | {"name": "task", "key": 7, "secrets": ["***"]}


@given(st.lists(st.lists(JSON, min_size=1, max_size=3), max_size=5), st.lists(st.integers(0, 200), max_size=10))
def test_frames_arrive_whole_however_they_are_cut(frames: list[list[object]], cuts: list[int]) -> None:
    data = b"".join(encode(*frame) for frame in frames)
    places = sorted({min(cut, len(data)) for cut in cuts})
    reader, heard = FrameReader(), []
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        heard += reader.feed(data[start:end])
    assert heard == frames


@pytest.mark.parametrize("data", [b"nonsense\n", b'{"a":1}\n', b"[]\n", b"[1,\n"])
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(data)


def test_both_sides_see_the_same_board() -> None:
    parent = Board.create()
    child = Board(parent.descriptor)
    assert parent.begun().key == 0
    child.begin(7, 123)
    assert parent.begun() == (7, 123)
    parent.tell(7, StopReason.TIMEOUT)
    assert child.stop_reason(7) is StopReason.TIMEOUT
    assert child.stop_reason(8) is None
    parent.take_back(8, 10)
    assert [child.is_taken_back(key) for key in (7, 8, 10, 11)] == [False, True, True, False]
    parent.close()


def test_how_far_a_task_is_stands_on_the_board() -> None:
    parent = Board.create()
    child = Board(parent.descriptor)
    assert parent.shown(7) is None
    child.show(7, 1.5, None, None)
    assert parent.shown(7) == (2, 1.5, None, None)
    assert parent.shown(8) is None
    child.show(8, 3, 4, "é" * 2_000)
    assert parent.shown(8) == (4, 3.0, 4.0, "é" * 1_500)
    child.show(8, 4, 4, "")
    assert parent.shown(8) == (6, 4.0, 4.0, "")
    child.show(8, float("nan"), 4, "")
    assert parent.shown(8) is None, "no number: the worker would stumble over it"
    parent.close()


SHOW_WITHOUT_END = """
import sys, threading
from rmhdag.worker.board import Board, Shown

board = Board(int(sys.argv[1]))

def show(number):
    while True:
        board.show(1, number, number, str(number) * 40)
        number += 2

threading.Thread(target=show, args=[0], daemon=True).start()
threading.Thread(target=show, args=[1], daemon=True).start()
sys.stdin.read()
"""


def test_nobody_sees_half_of_what_is_shown() -> None:
    """By two threads of another process, as fast as they can."""
    board = Board.create()
    command = [sys.executable, "-c", SHOW_WITHOUT_END, str(board.descriptor)]
    seen: dict[int, Shown] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[board.descriptor]) as child:
        wait_until(lambda: board.shown(1))
        while len(seen) < 1_000:
            assert child.poll() is None
            if (found := board.shown(1)) is not None:
                seen[found.number] = found
        assert child.stdin is not None
        child.stdin.close()
    board.close()
    for one in seen.values():
        assert one.current == one.total
        assert one.message == str(int(one.current)) * 40


def test_logs_are_cut_into_chunks_that_fit_and_end_in_time() -> None:
    lease = Lease(task())
    for _ in range(30):
        lease.write_log("é" * 50_000 + "\n")
    assert lease.log is not None
    chunks = lease.log.take_chunks()
    sizes = [len(chunk.content.encode()) for chunk in chunks]
    assert max(sizes) <= 64 * 1024
    assert LOG_BYTES - 2 <= sum(sizes) <= LOG_BYTES
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.truncated for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    lease.write_log("more")
    assert lease.log.take_chunks() == []


@pytest.mark.parametrize(("epoch", "losses", "first"), [(1, 0, False), (2, 0, True), (1, 1, True)])
def test_a_task_that_was_leased_before_marks_its_start_first(epoch: int, losses: int, first: bool) -> None:
    assert Lease(task(epoch, losses)).must_mark_start_first is first


def test_a_batch_is_bounded_in_number_and_size() -> None:
    small = [Finished(task(), TaskStatus.COMPLETED, output=b"1")] * (BATCH + 1)
    assert len(take_batch(small)) == BATCH
    large = [Finished(task(), TaskStatus.COMPLETED, output=b"x" * 60_000)] * 400
    taken = take_batch(large)
    assert 1 < len(taken) <= BATCH_BYTES // 60_000
    assert take_batch([]) == []


def test_references_are_replaced_wherever_they_stand() -> None:
    reference = Reference("a" * 64, 3).as_json()
    image = {"sha256": "b" * 64, "size_bytes": 3, "media_type": "image/tiff"}
    params = {"a": [1, {"b": reference}], "c": image, "d": {**reference, "more": 1}}
    resolved = orjson.loads(orjson.dumps(resolve_references(params, lambda digest: b'{"v": 1}')))
    assert resolved == {"a": [1, {"b": {"v": 1}}], "c": image, "d": {**reference, "more": 1}}
    assert may_hold_reference(params)
    assert not may_hold_reference({"a": [{"b": "sha256"}]})

    def missing(digest: str) -> bytes:
        raise PayloadMissingError("there is no payload")

    with pytest.raises(UnresolvedReferenceError, match="params /a/1/b: there is no payload"):
        resolve_references(params, missing)


def test_an_ending_is_told_in_words() -> None:
    assert Ending(-11, 40).describe() == "the process that ran the task was killed by SIGSEGV (peak memory 40 MB)"
    assert "out of memory" in Ending(-9, 1).describe()
    assert "signal 62" in Ending(-62, 1).describe()
    assert "exit code 3" in Ending(3, 1).describe()


def test_what_ended_a_child_is_not_what_the_worker_wanted_to_kill_it_for() -> None:
    assert Ending(-9, 1).cause("out of memory") == "out of memory"
    assert "SIGSEGV" in Ending(-11, 1).cause("out of memory")
    assert "SIGKILL" in Ending(-9, 1).cause(None)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one queue"):
        WorkerSettings(dsn="", queues=())
    with pytest.raises(ValueError, match="at least one slot"):
        WorkerSettings(dsn="", queues=("q",), concurrency=0)
    with pytest.raises(ValueError, match="either a database or an API"):
        WorkerSettings(queues=("q",))
    with pytest.raises(ValueError, match="either a database or an API"):
        WorkerSettings(queues=("q",), dsn="postgresql://here", api_url="http://there")

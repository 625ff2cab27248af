"""Ids grow, are valid UUIDv7s, and tasks' ids depend on nothing but the attempt they name."""

import os
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.models.ids import RANDOM_BYTES, IdSequence, task_id_of, uuid7_hex

TIMES = st.integers(0, 2**48 - 2)
RANDOM = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


@given(TIMES, RANDOM)
def test_ids_are_uuid_version_7_of_their_time(unix_ms: int, random_bytes: bytes) -> None:
    made = uuid.UUID(hex=uuid7_hex(unix_ms, random_bytes))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == unix_ms


@pytest.mark.parametrize(("unix_ms", "random_bytes"), [(-1, bytes(10)), (2**48, bytes(10)), (0, bytes(9))])
def test_impossible_parts_are_refused(unix_ms: int, random_bytes: bytes) -> None:
    with pytest.raises(ValueError, match=r"48 bits|10 random bytes"):
        uuid7_hex(unix_ms, random_bytes)


@given(st.lists(st.tuples(st.integers(0, 3), RANDOM | st.just(b"\xff" * RANDOM_BYTES)), min_size=2, max_size=50))
def test_ids_of_one_sequence_grow_strictly_whatever_the_clock_does(given_: list[tuple[int, bytes]]) -> None:
    sequence = IdSequence()
    made = [sequence.next(unix_ms, random_bytes) for unix_ms, random_bytes in given_]
    assert made == sorted(set(made))
    assert all(uuid.UUID(hex=one).version == 7 for one in made)


def test_a_full_millisecond_goes_on_in_the_next() -> None:
    sequence = IdSequence()
    sequence.next(5, b"\xff" * RANDOM_BYTES)
    sequence._tail = 2**74 - 1
    following = sequence.next(5, b"\xff" * RANDOM_BYTES)
    assert int(following[:12], 16) == 6


def test_task_ids_are_deterministic_distinct_and_sort_with_their_job() -> None:
    job_id = uuid7_hex(1, os.urandom(RANDOM_BYTES))
    made = {task_id_of(job_id, f"tile__{index}", attempt) for index in range(500) for attempt in (1, 2)}
    assert len(made) == 1000
    assert task_id_of(job_id, "tile__0", 1) in made
    assert all(one.startswith(f"{job_id}-") and len(one) <= 64 for one in made)


def test_task_ids_do_not_confuse_node_and_attempt() -> None:
    assert task_id_of("j", "a1", 1) != task_id_of("j", "a", 11)


def test_ids_of_threads_never_collide() -> None:
    from rmhdag.store.identity import new_id

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: [new_id() for _ in range(500)], range(8)))
    assert all(part == sorted(part) for part in made)
    assert len({one for part in made for one in part}) == 4000

"""The doorbell rings, keeps silent, and survives its connection."""

import os
import select
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from rmhdag.messaging.doorbell import Doorbell
from rmhdag.store.connection import connect


@pytest.fixture
def conn(database: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(database, "test", autocommit=True) as connection:
        yield connection


@pytest.fixture
def bell(database: str) -> Iterator[Doorbell]:
    made = Doorbell(database, "dagapp", ["one", "Two words"])
    assert made.wait(10), "somebody may have rung before it listened"
    yield made
    made.close()


def test_it_rings_once_per_wait_however_often_it_was_rung(bell: Doorbell, conn: psycopg.Connection[Any]) -> None:
    with conn.transaction():
        for channel in ("one", "Two words", "one"):
            conn.execute("SELECT pg_notify(%s, '')", [channel])
    assert bell.wait(10)
    assert not bell.wait(0.05)


def test_other_channels_are_not_heard(bell: Doorbell, conn: psycopg.Connection[Any]) -> None:
    conn.execute("NOTIFY three")
    assert not bell.wait(0.05)


def test_it_tells_once_which_channel_rang(bell: Doorbell, conn: psycopg.Connection[Any]) -> None:
    assert bell.heard("one"), "somebody may have rung before it listened"
    assert bell.heard("Two words")
    conn.execute("NOTIFY one")
    assert bell.wait(10)
    assert not bell.heard("Two words")
    assert bell.heard("one")
    assert not bell.heard("one")


def test_another_descriptor_ends_the_wait_without_a_ring(bell: Doorbell) -> None:
    read, write = os.pipe()
    os.write(write, b"x")
    began = time.monotonic()
    assert not bell.wait(30, [read])
    assert time.monotonic() - began < 20
    os.close(read)
    os.close(write)


def test_its_descriptor_becomes_readable(bell: Doorbell, conn: psycopg.Connection[Any]) -> None:
    conn.execute("NOTIFY one")
    assert select.select([bell], [], [], 10)[0] == [bell]
    assert bell.take()


def test_a_broken_connection_counts_as_a_ring_and_is_replaced(bell: Doorbell, conn: psycopg.Connection[Any]) -> None:
    query = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'rmhdag:doorbell%'"""
    conn.execute(query)
    assert bell.wait(10)
    assert bell.wait(10), "what was rung while nobody listened is not missed"
    conn.execute("NOTIFY one")
    assert bell.wait(10)


def test_switched_off_it_only_waits(database: str, conn: psycopg.Connection[Any]) -> None:
    silent = Doorbell(database, "dagapp", ["one"], enabled=False)
    conn.execute("NOTIFY one")
    assert not silent.wait(0.05)
    assert silent.fileno() == -1


def test_without_a_database_it_only_waits() -> None:
    lonely = Doorbell("postgresql://nobody@127.0.0.1:1/nothing", "dagapp", ["one"])
    assert not lonely.wait(0.05)
    lonely.close()

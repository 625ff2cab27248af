"""What nobody should send: each is refused in our own words and in bounded time, and nothing leaks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from rmhdag.api.pages import write_cursor
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.scopes import Scope
from rmhdag.store.migration import apply
from tests.api.fuzzing import LEAKS
from tests.api.process import Answer, ApiProcess, started_api
from tests.conftest import required_binaries

GIGABYTE = 1024**3
HOSTILE_TEXTS = [
    "<svg onload=alert(1)>",
    "<script>alert(1)</script>",
    "\x1b[2J\x1b[31mred",
    "\u202egnp.exe",
    "'; DROP TABLE jobs; --",
    "{{ 7 * 7 }}",
    "a" * 64,
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiProcess]:
    """One process for all: whoever is treated badly must not have hurt it for the next."""
    folder = tmp_path_factory.mktemp("hostile")
    times = {"RMHDAG_API_HEADER_SECONDS": "1", "RMHDAG_API_BODY_SECONDS": "1"}
    with EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server:
        dsn = server.create_database("hostile")
        apply(dsn)
        with started_api(dsn, folder, **times) as api:
            yield api
            assert "Traceback" not in api.told(), api.told()


@pytest.fixture(scope="module")
def key(hostile: ApiProcess) -> str:
    return hostile.key(Scope.READ, Scope.SUBMIT, Scope.OPERATE)


def head(key: str, method: str = "POST", path: str = "/api/v1/workflows/validate", **headers: str) -> bytes:
    given = {"Host": "here", "Authorization": f"Bearer {key}", "Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def refused(answer: Answer, status: int, code: str) -> dict[str, object]:
    problem = answer.problem
    assert (answer.status, problem["code"]) == (status, code), answer
    assert not LEAKS.search(answer.body.decode()), answer
    return problem


def still_serves(api: ApiProcess, key: str) -> None:
    with api.wire() as wire:
        wire.send(head(key, "GET", "/api/v1/me"))
        assert wire.read().status == 200


# -- bodies ------------------------------------------------------------------------------------------------------------


def test_a_gigabyte_is_refused_before_it_is_sent(hostile: ApiProcess, key: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, Content_Length=str(GIGABYTE)))
        refused(wire.read(), 413, "body_too_large")
        assert wire.is_closed()


def test_chunks_without_end_are_cut_off(hostile: ApiProcess, key: str) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with hostile.wire() as wire:
        wire.send(head(key, Transfer_Encoding="chunked"))
        for _ in range(170):  # 11 MB, one more than may come
            wire.send(chunk)
        refused(wire.read(), 413, "body_too_large")
        assert wire.is_closed()


def test_a_body_that_drips_is_not_waited_for(hostile: ApiProcess, key: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, Content_Length="1000") + b"{")
        still_serves(hostile, key)
        refused(wire.read(), 408, "body_too_slow")
        assert wire.is_closed()


def test_a_head_that_drips_is_not_waited_for(hostile: ApiProcess, key: str) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(hostile.wire()) for _ in range(100)]
        for number, wire in enumerate(wires):
            wire.send(b"GET /livez HTTP/1.1\r\nHost: here\r\nX-Slow: " if number % 2 else b"")
        still_serves(hostile, key)
        for number, wire in enumerate(wires):
            if number % 2:
                refused(wire.read(), 408, "head_too_slow")
            assert wire.is_closed()


def test_a_second_request_that_drips_is_not_waited_for(hostile: ApiProcess, key: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", "/api/v1/me"))
        assert wire.read().status == 200
        wire.send(b"GET /livez HTT")
        refused(wire.read(), 408, "head_too_slow")
        assert wire.is_closed()


def test_compressed_bodies_are_not_opened(hostile: ApiProcess, key: str) -> None:
    bomb = gzip.compress(b"0" * 20_000_000)
    with hostile.wire() as wire:
        wire.send(head(key, Content_Encoding="gzip", Content_Length=str(len(bomb))) + bomb)
        refused(wire.read(), 415, "encoding_not_supported")


def test_a_body_longer_than_told_is_another_request(hostile: ApiProcess, key: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, Content_Length="2") + b"{}GARBAGE\r\n\r\n")
        assert wire.read().status == 200
        refused(wire.read(), 400, "invalid_http")
        assert wire.is_closed()


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: -1",
        b"Content-Length: 1e9",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: gzip",
    ],
)
def test_lengths_that_make_no_sense_are_refused(hostile: ApiProcess, key: str, lines: bytes) -> None:
    with hostile.wire() as wire:
        wire.send(head(key)[:-2] + lines + b"\r\n\r\nhello")
        answer = wire.read()
        assert 400 <= answer.status < 500
        assert answer.problem["code"]
        assert wire.is_closed()


@pytest.mark.parametrize(
    "kind", ["text/plain", "", "application/xml", "multipart/form-data; boundary=x", "a/b\tc", "é"]
)
def test_other_types_are_refused(hostile: ApiProcess, key: str, kind: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, Content_Type=kind, Content_Length="2") + b"{}")
        assert refused(wire.read(), 415, "media_type_not_supported")["remedy"]


JSON_REFUSALS = {
    "nan": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "too large a number": b'{"a": 1e999}',
    "5000 digits": b'{"a": ' + b"9" * 5000 + b"}",
    "nul": b'{"a": "\\u0000"}',
    "lone surrogate": b'{"a": "\\ud800"}',
    "lone surrogate as a key": b'{"\\ud800": 1}',
    "twice": b'{"a": 1, "a": 2}',
    "deep": b"[" * 100_000,
    "deep and closed": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "not utf-8": b'{"a": "\xff"}',
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "nothing": b"",
    "truncated": b'{"a": [1, 2',
    "two values": b"{} {}",
}


@pytest.mark.parametrize("body", JSON_REFUSALS.values(), ids=JSON_REFUSALS)
def test_json_that_is_none_is_refused_with_its_place(hostile: ApiProcess, key: str, body: bytes) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, path="/api/v1/dead-letters/requeue", Content_Length=str(len(body))) + body)
        answer = wire.read()
        assert 400 <= answer.status < 500
        errors = answer.problem["errors"]
        assert isinstance(errors, list)
        assert "pointer" in errors[0]


@pytest.mark.parametrize(
    "body", [{"status": "x"}, {"namespace": "other"}, {"is_admin": True}, {"owner": "me"}, {"limit": 2**63}, [], None]
)
def test_fields_that_are_not_ours_are_refused(hostile: ApiProcess, key: str, body: object) -> None:
    text = json.dumps(body).encode()
    with hostile.wire() as wire:
        wire.send(head(key, path="/api/v1/dead-letters/requeue", Content_Length=str(len(text))) + text)
        answer = wire.read()
        assert answer.status in (400, 422)
        assert answer.problem["errors"]


# -- paths and queries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "%00",
        "a%00b",
        "%2e%2e%2fadmin",
        "..%2f..%2fetc%2fpasswd",
        "../../me",
        "%ff%fe",
        "{0198f3c2}",
        "A" * 5000,
        "%0d%0aX-Injected:%201",
        "%F0%9F%92%A3",
        "'%3B--",
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/dead-letters/", "/api/v1/workflows/", "/api/v1/handlers/"])
def test_strange_ids_name_nothing(hostile: ApiProcess, key: str, path: str, name: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", path + name))
        answer = wire.read()
        assert answer.status in (404, 422)
        assert answer.problem["code"] in ("not_found", "invalid_request")
        assert "x-injected" not in answer.headers
        assert not LEAKS.search(answer.body.decode())


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=0",
        "limit=1e9",
        "limit=1000000000",
        "limit=9223372036854775808",
        "limit=" + "9" * 5000,
        "limit=NaN",
        "limit=",
        "limit=1&limit=2",
        "sort=password",
        "queue=%00",
        "cursor=" + "A" * 500,
        "settled_too=perhaps",
        "%00=1",
        "queue=" + "x" * 65,
    ],
)
def test_queries_out_of_range_are_refused(hostile: ApiProcess, key: str, query: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", f"/api/v1/dead-letters?{query}"))
        problem = refused(wire.read(), 422, "invalid_request")
        errors: Any = problem["errors"]
        assert errors[0]["pointer"].startswith("/query/")


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "%00",
        "AAAA",
        write_cursor(),
        write_cursor("workflow", "a"),
        write_cursor("dead_letter", 1),
        write_cursor("dead_letter", "a\0b"),
        write_cursor("dead_letter", "a", "b"),
        write_cursor(["dead_letter", "a"]),
        write_cursor("dead_letter", {"$ne": 1}),
        "W" * 399,
    ],
)
def test_forged_cursors_are_refused(hostile: ApiProcess, key: str, cursor: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", f"/api/v1/dead-letters?cursor={cursor}"))
        answer = wire.read()
        assert answer.status in (400, 422)
        errors: Any = answer.problem["errors"]
        assert errors[0]["pointer"] == "/query/cursor"


@pytest.mark.parametrize("text", ["%25", "_", "%5C", "%5C%25", "(a%2B)%2B%24", ".*", "[", "'"])
def test_wildcards_are_letters(hostile: ApiProcess, key: str, text: str) -> None:
    with hostile.wire() as wire:
        flow = json.dumps({"workflow_id": "plain", "nodes": {"n": {"handler": "echo", "queue": "light"}}}).encode()
        wire.send(head(key, path="/api/v1/workflows", Content_Length=str(len(flow))) + flow)
        assert wire.read().status in (200, 201)
        wire.send(head(key, "GET", f"/api/v1/workflows?text={text}"))
        answer = wire.read()
        assert (answer.status, json.loads(answer.body)["workflows"]) == (200, [])


# -- methods and headers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["TRACE", "HEAD", "PUT", "PATCH", "DELETE", "CONNECT", "PROPFIND", "OPTIONS"])
def test_other_methods_are_told_which_there_are(hostile: ApiProcess, key: str, method: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, method, "/api/v1/workflows"))
        found = wire.read_head()
        assert found.startswith(b"HTTP/1.1 405 ")
        assert b"\r\nallow: GET, POST" in found.lower().replace(b"get, post", b"GET, POST")


def test_a_path_that_has_a_meaning_is_no_name(hostile: ApiProcess, key: str) -> None:
    """`/workers/register` is for POST; `DELETE /workers/{worker_id}` is not meant."""
    with hostile.wire() as wire:
        wire.send(head(key, "DELETE", "/api/v1/workers/register"))
        found = wire.read_head()
        assert found.startswith(b"HTTP/1.1 405 ")
        assert b"\r\nallow: post\r\n" in found.lower()


def test_a_method_is_not_overridden(hostile: ApiProcess, key: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", "/api/v1/me", X_HTTP_Method_Override="DELETE"))
        assert wire.read().status == 200


@pytest.mark.parametrize(
    "lines",
    [
        b"X-Broken: a\rb",
        b"X-Nul: a\0b",
        b"no colon",
        b": no name",
        b"Bad Name: x",
    ],
)
def test_heads_that_are_none_are_refused(hostile: ApiProcess, key: str, lines: bytes) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", "/api/v1/me")[:-2] + lines + b"\r\n\r\n")
        refused(wire.read(), 400, "invalid_http")
        assert wire.is_closed()


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", "Idempotency-Key", "Last-Event-ID", "Content-Type"])
def test_of_two_headers_neither_is_taken(hostile: ApiProcess, key: str, name: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", "/api/v1/me")[:-2] + f"{name}: a\r\n{name.upper()}: b\r\n\r\n".encode())
        problem = refused(wire.read(), 400, "header_repeated")
    assert [place["pointer"] for place in problem["errors"]] == [f"/header/{name.lower()}"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/api/v1/jobs?" + "aaa&" * 10_000, "/api/v1/jobs/" + "a" * 40_000])
def test_a_long_address_is_too_large(hostile: ApiProcess, key: str, path: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", path))
        assert "address" in str(refused(wire.read(), 431, "head_too_large")["detail"])


def test_what_was_meant_is_guessed_for_some_names_only(hostile: ApiProcess, key: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", "/api/v1/jobs?" + "&".join(f"limit{number}" for number in range(2_000))))
        problem = refused(wire.read(), 422, "invalid_request")
    errors = problem["errors"]
    assert problem["detail"] == "2000 things are wrong with the query"
    assert isinstance(errors, list)
    assert len(errors) == 100
    assert ["did you mean `limit`?" in error["detail"] for error in errors] == [True] * 10 + [False] * 90


@pytest.mark.parametrize("pieces", [1, 20])
def test_a_head_of_64_kilobytes_is_too_large(hostile: ApiProcess, key: str, pieces: int) -> None:
    whole = head(key, "GET", "/api/v1/me")[:-2] + b"X-Large: " + b"a" * 65536 + b"\r\n\r\n"
    with hostile.wire() as wire:
        for start in range(0, len(whole), len(whole) // pieces):
            wire.send(whole[start : start + len(whole) // pieces])
        refused(wire.read(), 431, "head_too_large")


@pytest.mark.parametrize("start", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/x\r\n\r\n", b"\0" * 100])
def test_what_is_not_http_is_hung_up_on(hostile: ApiProcess, start: bytes) -> None:
    with hostile.wire() as wire:
        wire.send(start + b"\r\n\r\n")
        refused(wire.read(), 400, "invalid_http")
        assert wire.is_closed()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:1@evil", "<script>", ""])
def test_a_spoofed_host_appears_nowhere(hostile: ApiProcess, key: str, host: str) -> None:
    forwarded = {"X_Forwarded_Host": "evil.example", "X_Forwarded_For": "10.0.0.1", "X_Forwarded_Proto": "https"}
    with hostile.wire() as wire:
        wire.send(head(key, "GET", "/api/v1/me", Host=host, **forwarded))
        answer = wire.read()
        assert answer.status == 200
        assert b"evil" not in answer.body
        assert "location" not in answer.headers
        assert "server" not in answer.headers


@pytest.mark.parametrize("given", ["Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "Bearer " + "x" * 20_000, "é"])
def test_keys_that_are_none_open_nothing(hostile: ApiProcess, key: str, given: str) -> None:
    with hostile.wire() as wire:
        wire.send(head(key, "GET", "/api/v1/me", Authorization=given))
        answer = wire.read()
        assert answer.status == 401
        assert answer.problem["code"] in ("no_key", "key_refused")


# -- what is kept and shown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_texts_come_back_as_data(hostile: ApiProcess, key: str, text: str) -> None:
    client = hostile.anonymous(headers={"Authorization": f"Bearer {key}"})
    name = f"w{HOSTILE_TEXTS.index(text)}"
    flow = {
        "workflow_id": name,
        "name": "plain",
        "description": text,
        "nodes": {"n": {"handler": "echo", "queue": "light", "params": {"a": 1}}},
    }
    made = client.post("/api/v1/workflows", json=flow)
    if made.status_code == 422:  # a template where none may be, or letters that nobody can see
        assert made.json()["errors"][0]["pointer"] == "/description"
        return
    answer = client.get(f"/api/v1/workflows/{name}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["description"] == text
    assert "\x1b" not in answer.text

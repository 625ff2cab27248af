"""Keys, problems and limits, as every route has them."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from rmhdag.api.context import READERS
from rmhdag.api.problems import Problem
from rmhdag.api.strict_json import parse
from rmhdag.models.scopes import Scope
from tests.api.serving import Served, ServedHere, served
from tests.store.waiting import wait_until


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, object]:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, object] = answer.json()
    assert body["code"] == code
    assert body["type"] == f"urn:rmhdag:problem:{code}"
    return body


def test_life_is_told_without_a_key(api: Served) -> None:
    assert api.anonymous().get("/livez").json() == {"alive": True}
    assert api.anonymous().get("/readyz").json() == {"ready": True}


def test_a_key_is_needed_for_anything_else(api: Served) -> None:
    answer = api.anonymous().get("/api/v1/me")
    problem(answer, 401, "no_key")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("key", ["", "x", "rmhdag_0123456789abcdef_" + "a" * 43, "ключ"])
def test_a_wrong_key_opens_nothing(api: Served, key: str) -> None:
    answer = api.anonymous(headers={"X-API-Key": key.encode()}).get("/api/v1/me")
    problem(answer, 401, "key_refused")


def test_a_key_says_who_holds_it(api: Served) -> None:
    answer = api.client(Scope.READ, Scope.SUBMIT, namespace="north", name="ada").get("/api/v1/me")
    told = answer.json()
    assert (told["name"], told["namespace"], told["scopes"]) == ("ada", "north", ["read", "submit"])


def test_an_expired_key_opens_nothing(api: Served) -> None:
    key = api.key(Scope.READ, days=-1)
    problem(api.anonymous(headers={"X-API-Key": key}).get("/api/v1/me"), 401, "key_refused")


def test_an_unknown_route_is_a_problem(api: Served) -> None:
    problem(api.client(Scope.READ).get("/api/v1/nothing"), 404, "not_found")
    guess = api.client(Scope.READ).get("/openapi.json").json()
    assert guess["remedy"] == "`GET /api/v1/openapi.json` lists all paths."
    problem(api.anonymous().get("/api/v1/nothing"), 401, "no_key")
    problem(api.anonymous().put("/livez"), 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        (b'{"a": NaN}', "/a"),
        (b'[0, {"a/b": [1, -Infinity]}, NaN]', "/1/a~1b/1"),
        (b'{"a": [1e999]}', "/a/0"),
        (b'{"a": ' + b"9" * 5000 + b"}", "/a"),
        (b'{"a": 9223372036854775808}', "/a"),
        (b'{"a": "\\u0000"}', "/a"),
        (b'{"a": "\\ud800"}', "/a"),
        (b'{"a": 1, "a": 2}', "/a"),
        (b'{"a": [{}, {"b": {"c": 1, "c": 2}, "b": 3}]}', "/a/1/b"),
        (b'{"a": {"\\ud800": 1, "\\ud800": 2}}', "/a/\ufffd"),
        (b"[" * 100_000, ""),
        (b"[" * 100 + b"]" * 100, "/0" * 64),
        (b'{"a": ', ""),
        (b"\xff\xfe\xfa", ""),
        (b'\xef\xbb\xbf{"a": 1}', ""),
        ('{"a": 1}'.encode("utf-16"), ""),
        ('{"a": 1}'.encode("utf-16-le"), ""),
        ('{"a": 1}'.encode("utf-32"), ""),
        (b"", ""),
    ],
)
def test_what_two_readers_might_understand_differently_is_refused(text: bytes, pointer: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(text)
    assert caught.value.status_code == 400
    assert [place.pointer for place in caught.value.body.errors] == [pointer]


def test_what_is_json_is_read() -> None:
    text = '{"a": [1, 2.5, "ä", null, true, -9223372036854775808]}'
    assert parse(text.encode()) == json.loads(text)


def test_only_known_query_parameters_are_taken(api: Served) -> None:
    body = problem(api.client(Scope.READ).get("/api/v1/me?limitt=1"), 422, "invalid_request")
    assert body["errors"] == [
        {"pointer": "/query/limitt", "detail": "there is no such query parameter; this route takes none"}
    ]


def test_answers_do_not_wait_for_acknowledgements(migrated_database: str) -> None:
    """Whoever made the listening socket, and whether or not they named the protocol's number."""
    listener = socket.create_server(("127.0.0.1", 0))
    assert listener.proto == 0
    with served(migrated_database, listener=listener) as api:
        assert api.anonymous().get("/livez").status_code == 200
        (peer,) = api.peers()
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/jobs", {"workflow_id": "none", "input_params": {"text": "x" * 100_000}}),
        ("/api/v1/workflows/validate", {"text": "x" * 100_000}),
    ],
)
def test_nobody_waits_while_a_large_body_is_read(api: ServedHere, path: str, body: dict[str, object]) -> None:
    may_read = threading.Event()
    held = [api.readers.submit(may_read.wait) for _ in range(READERS)]
    client, others = api.client(Scope.SUBMIT, Scope.READ), api.client(Scope.SUBMIT, Scope.READ)
    with ThreadPoolExecutor(1) as apart:
        large = apart.submit(client.post, path, json=body)
        try:
            wait_until(lambda: api.waiting_to_be_read() == 1)
            assert others.get("/livez").status_code == 200
            assert others.post(path, json={}).status_code in (200, 422)
            assert not large.done()
        finally:
            may_read.set()
        assert large.result().status_code in (200, 404, 422)
    assert all(one.result() for one in held)

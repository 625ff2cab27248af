"""Whatever is logged in whatever way, no secret is in the line."""

from __future__ import annotations

import io
import json
import logging
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.observability.logs import LogFormat, get_logger, logging_as
from rmhdag.observability.secrets import hidden_forms, known_secrets, mask_and_cut, mask_text, mask_value

FORMATS: list[LogFormat] = ["logfmt", "json"]
LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ0123456789"
# Recognisable: nothing else in a line looks like it.
secret = st.text(LETTERS, min_size=12, max_size=40).map(lambda text: f"Zq{text}qZ")
awkward = st.text(st.sampled_from(LETTERS + "@:%&;,)]}!$ ='\"\\"), min_size=3, max_size=20).map(
    lambda text: f"Zq{text}Zq"
)


def quoted(password: str) -> str:
    return "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHAPES = {
    "url": lambda s: f"postgresql://ann:{s}@db.example:5432/dag?sslmode=require",
    "url in a sentence": lambda s: f'connection to "postgres://ann:{s}@db/dag" failed: timeout',
    "conninfo": lambda s: f"host=db user=ann password={s} dbname=dag",
    "quoted conninfo": lambda s: f"host=db password='{s}' dbname=dag",
    "variable": lambda s: f"PGPASSWORD={s} psql",
    "ours": lambda s: f"key rmhdag_0123456789abcdef_{s} refused",
    "bearer": lambda s: f"Authorization: Bearer {s}",
    "header pair": lambda s: str([("authorization", f"Bearer {s}")]),
    "basic": lambda s: f"authorization: Basic {s}",
    "json": lambda s: json.dumps({"a": {"client_secret": s}}),
    "json in json": lambda s: json.dumps({"body": json.dumps({"token": s})}),
    "repr": lambda s: repr({"password": s}),
    "azure": lambda s: f"Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey={s}",
    "insights": lambda s: f"InstrumentationKey={s};IngestionEndpoint=https://x",
    "sas": lambda s: f"https://x.blob.core.windows.net/c?sv=1&sig={s}&se=2",
    "jwt": lambda s: f"token was eyJhbGciOi.{s}.{s}",
    "webhook": lambda s: f"signed with whsec_{s}",
    "local command": lambda s: f"let in by rmhdag-local-{s}",
}


@pytest.mark.parametrize("shape", SHAPES)
@given(text=secret)
def test_a_secret_is_masked_in_every_shape(shape: str, text: str) -> None:
    assert text not in mask_text(SHAPES[shape](text))


@given(password=awkward)
def test_a_password_with_any_character_is_masked_where_it_is_quoted(password: str) -> None:
    for text in (
        f"postgresql://ann:{quote(password, safe='')}@db/dag",
        f"host=db password={quoted(password)} dbname=dag",
        json.dumps({"password": password}),
        repr({"password": password}),
    ):
        shown = mask_text(text)
        assert password not in shown
        assert quote(password, safe="") not in shown


@given(text=secret, word=st.sampled_from(["password", "api_key", "Authorization", "client_secret", "access_token"]))
def test_what_has_the_name_of_a_secret_is_not_shown(text: str, word: str) -> None:
    for value in ({word: text}, [{word: [text]}], {"a": ({word: {"b": text}},)}):
        assert text not in repr(mask_value(value))


def test_what_is_no_secret_stays() -> None:
    for text in (
        "job 0190c1f0a9b87e1d8b8f0a1b2c3d4e5f completed in 3 s",
        "https://example.org:8080/a?b=c",
        "postgresql://ann@db/dag",
        "rmhdag_up is running; tokens are counted",
        "basic information about authorization",
        "key rmhdag_0123456789abcdef is revoked",
    ):
        assert mask_text(text) == text


def test_no_text_makes_masking_endless() -> None:
    """Texts made to be slow: a pattern that looks at all of it again and again would take hours."""
    for piece in (
        "://a:",
        "password",
        "password=",
        'token="',
        "eyJaaaa.",
        "a.b-",
        "rmhdag_",
        "Bearer ",
        "token:\\",
        "secret'",
    ):
        assert len(mask_text(piece * 100_000)) > 0


WAYS = ["event", "field", "name", "nested", "exception", "bound", "library", "object", "bytes"]


@given(text=secret, way=st.sampled_from(WAYS), log_format=st.sampled_from(FORMATS))
def test_no_line_holds_a_secret_whatever_the_call_site_does(text: str, way: str, log_format: LogFormat) -> None:
    stream = io.StringIO()
    with logging_as(log_format, "debug", stream):
        log_in(way, text)
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert text not in written
    assert "***" in written


def log_in(way: str, text: str) -> None:
    log: Any = get_logger("test")
    dsn = f"postgresql://ann:{text}@db/dag"
    match way:
        case "event":
            log.warning(f"cannot reach {dsn}")
        case "field":
            log.info("x", dsn=dsn, password=text)
        case "name":
            log.info("x", **{f"rmhdag_0123456789abcdef_{text}": 1})
        case "nested":
            log.info("x", settings={"database": [dsn, {"token": text}]})
        case "exception":
            try:
                raise RuntimeError(f"no: {dsn}")
            except RuntimeError:
                log.exception("x")
        case "bound":
            log.bind(authorization=f"Bearer {text}").error("x")
        case "library":
            logging.getLogger("somebody").warning("no: %s", dsn)
        case "object":
            log.info("x", error=RuntimeError(dsn))
        case "bytes":
            log.info("x", body=dsn.encode())


names = st.text(min_size=1).filter(lambda name: name not in ("event", "self"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(event=st.text(), fields=st.dictionaries(names, values, max_size=4), log_format=st.sampled_from(FORMATS))
def test_whatever_is_logged_is_one_line(event: str, fields: dict[str, Any], log_format: LogFormat) -> None:
    stream = io.StringIO()
    with logging_as(log_format, "debug", stream):
        get_logger("test").warning(event, **fields)
    written = stream.getvalue()
    assert len(written.splitlines()) == 1
    if log_format == "json":
        assert json.loads(written)["level"] == "warning"


def test_a_stream_that_cannot_be_written_disturbs_nobody() -> None:
    stream = io.StringIO()
    with logging_as("logfmt", "debug", stream):
        stream.close()
        get_logger("test").error("lost")


def secret_of(length: int) -> str:
    return "".join(chr(ord("A") + (index * index + index // 7) % 26) for index in range(length))


@pytest.mark.parametrize("most", [10, 200, 2000])
@pytest.mark.parametrize("length", [13, 100, 1000, 5000])
@pytest.mark.parametrize("separator", [" ", "", "\n", ", and then "])
def test_no_part_of_a_secret_is_left_wherever_a_text_is_cut(most: int, length: int, separator: str) -> None:
    secret = secret_of(length)
    token = known_secrets.set(hidden_forms([secret]))
    try:
        for lead in (0, 1, 3 * most, 4 * most - length // 2):
            text = "." * lead + separator + (secret + separator) * (12 * most // length + 3)
            shown = mask_and_cut(text, most)
            assert len(shown) <= most
            assert not any(secret[start : start + 8] in shown for start in range(length - 8))
    finally:
        known_secrets.reset(token)

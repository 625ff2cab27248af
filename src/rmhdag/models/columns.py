"""The column types that fields are annotated with: each a PostgreSQL type and the limits that Pydantic enforces for it.

So a value that the database would refuse (NUL, NaN, a lone surrogate, too long, out of range) never reaches SQL.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from rmhdag.models.json_values import MAX_INTEGER, MIN_INTEGER, check_json
from rmhdag.models.limits import (
    DEFINITION_BYTES,
    IDEMPOTENCY_KEY_CHARACTERS,
    INBOX_BYTES,
    INLINE_BYTES,
    INPUT_BYTES,
    LAYOUT_BYTES,
    LOG_CHUNK_BYTES,
    MESSAGE_CHARACTERS,
    PAYLOAD_CHUNK_BYTES,
    RESULT_BYTES,
    URL_CHARACTERS,
)
from rmhdag.models.references import hide_secrets
from rmhdag.models.table import ColumnType

# Python's and PostgreSQL's calendars differ at their ends; nothing here happens near them.
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class TextType(ColumnType):
    min_length: int
    max_length: int | None
    max_bytes: int | None = None

    def constrain(self, schema: CoreSchema) -> CoreSchema:
        text = core_schema.str_schema(min_length=self.min_length, max_length=self.max_length)
        return core_schema.no_info_after_validator_function(self._check, core_schema.chain_schema([text, schema]))

    def _check(self, text: str) -> str:
        if "\0" in text:
            raise PydanticCustomError("nul_character", "Text holds a NUL character, which PostgreSQL cannot store")
        if self.max_bytes is not None and len(text.encode()) > self.max_bytes:
            raise PydanticCustomError("too_large", "Text is larger than {limit} bytes", {"limit": self.max_bytes})
        return text


def varchar(length: int, *, min_length: int = 0) -> TextType:
    """Sorted byte by byte: ids are compared, never read aloud, and prefixes of them must be ranges of an index."""
    return TextType(sql=f"varchar({length})", collation="C", min_length=min_length, max_length=length)


@dataclass(frozen=True, kw_only=True)
class IntegerType(ColumnType):
    minimum: int
    maximum: int

    def constrain(self, schema: CoreSchema) -> CoreSchema:
        number = core_schema.int_schema(strict=True, ge=self.minimum, le=self.maximum)
        return core_schema.chain_schema([number, schema])


@dataclass(frozen=True, kw_only=True)
class FloatType(ColumnType):
    minimum: float
    maximum: float

    def constrain(self, schema: CoreSchema) -> CoreSchema:
        number = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=self.minimum, le=self.maximum)
        return core_schema.chain_schema([number, schema])


@dataclass(frozen=True, kw_only=True)
class BooleanType(ColumnType):
    def constrain(self, schema: CoreSchema) -> CoreSchema:
        return core_schema.chain_schema([core_schema.bool_schema(strict=True), schema])


@dataclass(frozen=True, kw_only=True)
class BytesType(ColumnType):
    max_bytes: int

    def constrain(self, schema: CoreSchema) -> CoreSchema:
        return core_schema.chain_schema([core_schema.bytes_schema(strict=True, max_length=self.max_bytes), schema])


@dataclass(frozen=True, kw_only=True)
class TimestampType(ColumnType):
    def constrain(self, schema: CoreSchema) -> CoreSchema:
        moment = core_schema.datetime_schema(ge=EARLIEST, lt=LATEST, tz_constraint="aware")
        written = core_schema.no_info_before_validator_function(self._check, moment)
        return core_schema.chain_schema([written, schema])

    def _check(self, value: Any) -> Any:
        """Pydantic would take 0.5, as a number or as text, for half a second after 1970."""
        if isinstance(value, datetime) or (isinstance(value, str) and value[4:5] == "-"):
            return value
        raise PydanticCustomError("not_a_moment", "Not a time: write it as 2026-02-03T04:05:06Z")


@dataclass(frozen=True, kw_only=True)
class JsonType(ColumnType):
    max_bytes: int

    def constrain(self, schema: CoreSchema) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, schema)

    def _check(self, value: Any) -> Any:
        return check_json(value, max_bytes=self.max_bytes)


def jsonb(max_bytes: int = INLINE_BYTES) -> JsonType:
    return JsonType(sql="jsonb", max_bytes=max_bytes)


def integer(minimum: int = 0) -> IntegerType:
    return IntegerType(sql="integer", minimum=minimum, maximum=2**31 - 1)


def bigint(minimum: int = 0) -> IntegerType:
    return IntegerType(sql="bigint", minimum=minimum, maximum=MAX_INTEGER)


def smallint(minimum: int = 0, maximum: int = 2**15 - 1) -> IntegerType:
    return IntegerType(sql="smallint", minimum=minimum, maximum=maximum)


Id = Annotated[str, varchar(64, min_length=1)]
Name = Annotated[str, varchar(64, min_length=1)]
# A child of a fan-out has its parent's name, two underscores and its index.
NodeName = Annotated[str, varchar(128, min_length=1)]
OptionalNodeName = Annotated[str, varchar(128)]
OptionalName = Annotated[str, varchar(64)]
Sha256 = Annotated[str, varchar(64, min_length=64)]
Namespace = Annotated[str, varchar(64, min_length=1)]
IdempotencyKey = Annotated[str, varchar(IDEMPOTENCY_KEY_CHARACTERS, min_length=1)]
Url = Annotated[str, varchar(URL_CHARACTERS, min_length=1)]
Holder = Annotated[str, varchar(160, min_length=1)]
Label = Annotated[str, varchar(128)]
Message = Annotated[str, TextType(sql=f"varchar({MESSAGE_CHARACTERS})", min_length=0, max_length=MESSAGE_CHARACTERS)]
ErrorText = Annotated[str, TextType(sql="varchar(200)", collation="C", min_length=0, max_length=200)]
SealedText = Annotated[str, varchar(1024, min_length=1)]
LogText = Annotated[str, TextType(sql="text", min_length=0, max_length=None, max_bytes=LOG_CHUNK_BYTES)]
RawText = Annotated[str, TextType(sql="text", min_length=0, max_length=None, max_bytes=RESULT_BYTES)]

Count = Annotated[int, integer()]
Attempt = Annotated[int, integer(1)]
# Of jobs, and of keys: 10 is most urgent.
HIGHEST_PRIORITY = 10
Priority = Annotated[int, smallint(0, HIGHEST_PRIORITY)]
Depth = Annotated[int, smallint(0, 8)]
Share = Annotated[int, smallint(1, 100)]
Seconds = Annotated[int, integer(1)]
Milliseconds = Annotated[int, bigint()]
Number = Annotated[int, bigint()]
OrderKey = Annotated[int, bigint(MIN_INTEGER)]
NumberedByDatabase = Annotated[
    int, IntegerType(sql="bigint", minimum=1, maximum=MAX_INTEGER, identity=True, made_by_database=True)
]
TransactionId = Annotated[
    int,
    IntegerType(
        sql="bigint",
        minimum=0,
        maximum=MAX_INTEGER,
        default="(pg_current_xact_id()::text)::bigint",
        made_by_database=True,
    ),
]
Percent = Annotated[float, FloatType(sql="double precision", minimum=0.0, maximum=100.0)]
Flag = Annotated[bool, BooleanType(sql="boolean")]
Chunk = Annotated[bytes, BytesType(sql="bytea", max_bytes=PAYLOAD_CHUNK_BYTES)]

Timestamp = Annotated[AwareDatetime, TimestampType(sql="timestamptz")]
# Not now(): that is the start of the transaction, and a batch may have waited for its locks since.
Stamped = Annotated[AwareDatetime, TimestampType(sql="timestamptz", default="clock_timestamp()")]

JsonObject = Annotated[dict[str, Any], jsonb()]
JsonList = Annotated[list[Any], jsonb()]
JsonValue = Annotated[Any, jsonb()]
LargeJsonObject = Annotated[dict[str, Any], jsonb(RESULT_BYTES)]
LargeJsonList = Annotated[list[Any], jsonb(RESULT_BYTES)]
DefinitionJsonObject = Annotated[dict[str, Any], jsonb(DEFINITION_BYTES)]
LayoutJsonObject = Annotated[dict[str, Any], jsonb(LAYOUT_BYTES)]
# In answers: references to secrets are not shown.
ShownObject = Annotated[dict[str, Any], AfterValidator(hide_secrets)]
InputJsonObject = Annotated[dict[str, Any], jsonb(INPUT_BYTES)]
SmallJsonObject = Annotated[dict[str, Any], jsonb(INBOX_BYTES)]

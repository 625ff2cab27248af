"""Every refusal of our handlers names a code of the table, and every warning is in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rmhdag.handlers
from rmhdag.handlers.contract import NonRetryableError
from rmhdag.handlers.params import ParamsRefused
from rmhdag.handlers.raster.crs import CrsRefused
from rmhdag.handlers.raster.findings import Finding
from rmhdag.handlers.raster.geometry import GeometryRefused
from rmhdag.handlers.raster.georeferencing import NotOnEarth
from rmhdag.handlers.raster.opening import RasterRefused
from rmhdag.handlers.raster.tiff_header import BadTiff
from rmhdag.models.error_codes import ERROR_CODES, WARNING_CODES

FOLDER = Path(rmhdag.handlers.__file__).parent
# Those with a code of their own for whatever names none.
CODED: list[type[NonRetryableError]] = [RasterRefused, CrsRefused, GeometryRefused, ParamsRefused]
DETAILS: list[type[BadTiff] | type[NotOnEarth]] = [BadTiff, NotOnEarth]
NAMES = {kind.__name__ for kind in (*CODED, *DETAILS)}

# The codes of the original platform that are about data and the platform's own parts.
ORIGINAL = """
CONTAINER_NOT_FOUND FILE_NOT_FOUND RESOURCE_NOT_FOUND FILE_UNREADABLE CRS_MISSING CRS_MISMATCH INVALID_FORMAT
CORRUPTED_FILE VALIDATION_ERROR INVALID_PARAMETER MISSING_PARAMETER RASTER_UNREADABLE GEOTRANSFORM_MISSING
RASTER_BAND_INVALID RASTER_64BIT_REJECTED BIT_DEPTH_POLICY_VIOLATION RASTER_EMPTY RASTER_NODATA_CONFLICT
RASTER_EXTREME_VALUES RASTER_TYPE_MISMATCH VECTOR_UNREADABLE VECTOR_NO_FEATURES VECTOR_GEOMETRY_INVALID
VECTOR_GEOMETRY_EMPTY VECTOR_COORDINATE_ERROR VECTOR_ENCODING_ERROR VECTOR_ATTRIBUTE_ERROR VECTOR_TABLE_NAME_INVALID
VECTOR_FORMAT_MISMATCH VECTOR_MIXED_GEOMETRY TABLE_EXISTS COLLECTION_BAND_MISMATCH COLLECTION_DTYPE_MISMATCH
COLLECTION_CRS_MISMATCH COLLECTION_RESOLUTION_MISMATCH COLLECTION_TYPE_MISMATCH COG_TRANSLATE_FAILED REPROJECTION_FAILED
DATABASE_ERROR DATABASE_UNAVAILABLE STORAGE_ERROR STORAGE_UNAVAILABLE UPLOAD_FAILED DOWNLOAD_FAILED QUEUE_ERROR
MEMORY_ERROR DISK_FULL TIMEOUT THROTTLED
""".split()


def refusals() -> Iterator[tuple[str, str, ast.Call]]:
    """Place, name and call of each refusal in the raster and STAC handlers."""
    for group in ("raster", "stac"):
        for path in sorted((FOLDER / group).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
                if name in NAMES | {"NonRetryableError"}:
                    assert isinstance(node, ast.Call)
                    yield f"{group}/{path.name}:{node.lineno}", name, node


REFUSALS = list(refusals())


def test_every_refusal_has_a_code() -> None:
    assert len(REFUSALS) > 100
    without = [
        place
        for place, name, call in REFUSALS
        if name not in NAMES and not any(keyword.arg == "code" for keyword in call.keywords)
    ]
    assert not without, "name a code: " + ", ".join(without)


def test_every_code_that_is_named_is_in_the_table() -> None:
    for place, _, call in REFUSALS:
        for keyword in call.keywords:
            if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                assert keyword.value.value in ERROR_CODES, place


@pytest.mark.parametrize("kind", CODED)
def test_a_refusal_without_a_code_has_that_of_its_kind(kind: type[NonRetryableError]) -> None:
    error = kind("it is wrong").error
    assert error is not None
    assert (error.user_fixable, error.retryable, error.message) == (True, False, "it is wrong")
    assert error.remediation


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "x" * 5_000, ""])
def test_a_refusal_may_quote_whatever_a_file_holds(text: str) -> None:
    """Else a hostile file would turn its refusal into an error of ours, which is tried again."""
    error = RasterRefused(text).error
    assert error is not None
    assert error.code == "RASTER_UNREADABLE"


@pytest.mark.parametrize("kind", DETAILS)
def test_so_do_the_reasons_behind_one(kind: type[BadTiff] | type[NotOnEarth]) -> None:
    assert kind("is wrong").code in ERROR_CODES


@pytest.mark.parametrize("finding", Finding)
def test_every_warning_is_in_the_table(finding: Finding) -> None:
    assert finding.value in WARNING_CODES


@pytest.mark.parametrize("code", ORIGINAL)
def test_the_codes_of_the_original_platform_are_in_the_table(code: str) -> None:
    assert code in ERROR_CODES

"""Addresses of files, and what is refused as one."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rmhdag.models.blobs import BlobRef
from rmhdag.models.records import Zone

GOOD = {"zone": "silver", "container": "cogs", "path": "a/b.tif", "size_bytes": 3, "sha256": "0" * 64}


def test_a_reference_knows_its_address_and_its_record() -> None:
    ref = BlobRef.model_validate({**GOOD, "media_type": "image/tiff"})
    assert ref.address == (Zone.SILVER, "cogs", "a/b.tif")
    assert str(ref.address) == "silver/cogs/a/b.tif"
    record = ref.record("data")
    assert (record.role, record.path, record.media_type) == ("data", "a/b.tif", "image/tiff")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../b.tif", "`..`"),
        ("a/../b.tif", "`..`"),
        ("/etc/passwd", "empty segment"),
        ("a//b.tif", "empty segment"),
        ("a/./b.tif", "`.`"),
        ("a/", "empty segment"),
        ("a\\b.tif", "backslash"),
        ("a\nb.tif", "control character"),
        ("a\0b.tif", "NUL"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
        ("e\u0301.tif", "NFC"),
        ("", "at least 1"),
    ],
)
def test_a_path_that_could_be_misunderstood_is_refused(path: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        BlobRef.model_validate({**GOOD, "path": path})


@pytest.mark.parametrize("path", ["-a.tif", "a b.tif", "é.tif", "..a", "a%2e%2e", "x" * 255])
def test_an_odd_but_clear_path_is_taken(path: str) -> None:
    assert BlobRef.model_validate({**GOOD, "path": path}).path == path


@pytest.mark.parametrize("container", ["a/b", "..", "", "a\n"])
def test_a_container_is_one_name(container: str) -> None:
    with pytest.raises(ValidationError):
        BlobRef.model_validate({**GOOD, "container": container})

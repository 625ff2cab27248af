"""Coordinate systems of vector files, and the way to longitude and latitude."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pyproj
from pyproj.exceptions import CRSError, ProjError

from rmhdag.handlers.raster.crs_text import find_pointer
from rmhdag.handlers.vector.refusals import Finding, Findings, VectorRefused

TARGET = "EPSG:4326"
CODE = re.compile(r"[A-Za-z]{3,10}:[0-9A-Za-z]{1,10}")
PLAIN = frozenset({"EPSG:4326", "OGC:CRS84"})
MOST_CHARACTERS = 100_000


@lru_cache(maxsize=64)
def read_crs(text: str, name: str) -> pyproj.CRS:
    """A code or WKT. Text that makes PROJ open files is refused before it sees it."""
    if len(text) > MOST_CHARACTERS or find_pointer(text) is not None:
        raise VectorRefused(
            f"the coordinate system of {name} points to a file or to a transformation: give its code in crs, as "
            "EPSG:32633.",
            code="CRS_MISMATCH",
        )
    try:
        crs = pyproj.CRS.from_user_input(text)
    except CRSError:
        raise VectorRefused(f"the coordinate system of {name} is unknown: {text[:80]!r}.", code="CRS_MISSING") from None
    if crs.is_vertical or crs.is_engineering or crs.is_geocentric:
        raise VectorRefused(f"the coordinate system of {name} has no east and north: {crs.name!r}.", code="CRS_MISSING")
    return crs


class ToDegrees:
    """From the system of a layer to longitude and latitude; `transform` is None if nothing is to be done."""

    def __init__(self, crs: str | None, wish: str | None, name: str, *, is_required: bool, findings: Findings) -> None:
        self._name = name
        text = self._choose(crs, wish, name, is_required, findings)
        self.is_assumed = text is None
        system = read_crs(text or TARGET, name)
        self.label = code_of(system)
        is_plain = self.label in PLAIN or system.to_2d().equals(read_crs(TARGET, name), ignore_axis_order=True)
        self._transformer: Any = None
        if not is_plain:
            try:
                self._transformer = pyproj.Transformer.from_crs(system, TARGET, always_xy=True, allow_ballpark=True)
            except ProjError as error:
                raise self._not_transformed(error) from None

    @staticmethod
    def _choose(crs: str | None, wish: str | None, name: str, is_required: bool, findings: Findings) -> str | None:
        if wish is not None and not CODE.fullmatch(wish.strip()):
            raise VectorRefused(
                f"crs {wish[:60]!r} is not a code: write EPSG:n, such as EPSG:32633.", code="INVALID_PARAMETER"
            )
        if crs is None and wish is not None:
            findings.add(Finding.CRS_OVERRIDE, f"the file names no coordinate system; {wish} of the order is used")
            return wish.strip()
        if crs is not None and wish is not None:
            same = read_crs(crs, name).to_2d().equals(read_crs(wish.strip(), name).to_2d(), ignore_axis_order=True)
            if not same:
                raise VectorRefused(
                    f"{name} has {code_of(read_crs(crs, name))}, and the order says {wish}: leave crs out, or correct "
                    "the file.",
                    code="CRS_MISMATCH",
                )
        if crs is None and is_required:
            raise VectorRefused(
                f"{name} does not name its coordinate system: add its .prj file, or name the system in crs.",
                code="CRS_MISSING",
            )
        if crs is None:
            findings.add(Finding.CRS_ASSUMED, "the file names no coordinate system; EPSG:4326 is assumed")
        return crs

    @property
    def is_needed(self) -> bool:
        return self._transformer is not None

    def transform(self, coordinates: np.ndarray) -> np.ndarray:
        try:
            x, y = self._transformer.transform(coordinates[:, 0], coordinates[:, 1], errcheck=False)
        except ProjError as error:
            raise self._not_transformed(error) from None
        degrees: np.ndarray = np.column_stack([x, y])
        return degrees

    def _not_transformed(self, error: ProjError) -> VectorRefused:
        return VectorRefused(f"{self._name} cannot be transformed to {TARGET} ({error}).", code="REPROJECTION_FAILED")


def code_of(crs: pyproj.CRS) -> str:
    """Its code if it has one, otherwise its name: WKT may have thousands of characters."""
    authority = crs.to_authority(min_confidence=70)
    return ":".join(authority) if authority else str(crs.name)[:100]

"""Finds texts of coordinate systems that make PROJ open files. Does not import GDAL: it never sees a refused text.

PROJ opens grids when it compares or transforms coordinates, and some already when it parses a text.
"""

from __future__ import annotations

import re

_FILES = r"(?:grids?|file|model|init|catalog|catalog_name)\s*="
# Grids, models, and whole pipelines that are written as the name of a method.
_POINTING = [
    re.compile(r"\bPARAMETERFILE\b", re.IGNORECASE),
    re.compile(_FILES, re.IGNORECASE),
    re.compile(
        r"""\b(?:METHOD|PROJECTION|GEOIDMODEL)\s*[\[(]\s*"\s*PROJ\b(?! ob_tran o_proj=longlat")""", re.IGNORECASE
    ),
    re.compile(r"""\bGEOIDMODEL\s*[\[(]\s*"[^"]*[./\\@]""", re.IGNORECASE),
    # PROJ accepts them as quotes too, but no program writes them.
    re.compile("[“”]"),
]
_EXTENSION = re.compile(r"\bEXTENSION\b", re.IGNORECASE)
_BOUND = re.compile(r"\bBOUNDCRS\b", re.IGNORECASE)
# The name that means no grid, which is never opened.
_NO_GRID = re.compile(
    r'nadgrids=@null(?=[ "])|,EXTENSION\["PROJ4_GRIDS","@null"\]'
    r'|,PARAMETERFILE\["[^"]*","@null"(?:,ID\["EPSG",\d+\])?\]'
)
# Written by GDAL for Web Mercator and for projections that WKT 1 cannot express: numbers and names only.
_NUMBERS = re.compile(r',EXTENSION\["PROJ4","[-+\w.,=@ ]*"\]')


def find_pointer(text: str, *, may_be_bound: bool = False) -> str | None:
    """The part that points to a file, or may do so; None if there is none.

    `may_be_bound` is for WKT 2, where a datum shift of seven numbers is a BOUNDCRS.
    """
    text = _NO_GRID.sub("", text)
    for pattern in _POINTING:
        if match := pattern.search(text):
            return match[0]
    match = _EXTENSION.search(_NUMBERS.sub("", text)) or (None if may_be_bound else _BOUND.search(text))
    return None if match is None else match[0]

"""Which texts of coordinate systems make PROJ open files. Free of GDAL: what is refused here, GDAL never sees.

PROJ opens grids as soon as it compares or transforms coordinates, and some already when a text is read.
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
    # PROJ takes them as quotes too, and nobody else writes them.
    re.compile("[“”]"),
]
_BOUND = re.compile(r"\b(?:EXTENSION|BOUNDCRS)\b", re.IGNORECASE)
# The grid that means none, which is never looked for.
_NO_GRID = re.compile(
    r'nadgrids=@null(?=[ "])|,EXTENSION\["PROJ4_GRIDS","@null"\]'
    r'|,PARAMETERFILE\["[^"]*","@null"(?:,ID\["EPSG",\d+\])?\]'
)
# What GDAL itself writes for Web Mercator and for projections that WKT 1 has no words for: numbers and names only.
_NUMBERS = re.compile(r',EXTENSION\["PROJ4","[-+\w.,=@ ]*"\]')


def find_pointer(text: str, *, may_be_bound: bool = False) -> str | None:
    """The part that points to a file, or may do so; None if there is none.

    `may_be_bound` is for WKT 2 of our own making, where a datum shift of seven numbers is a BOUNDCRS.
    """
    text = _NO_GRID.sub("", text)
    for pattern in _POINTING:
        if found := pattern.search(text):
            return found[0]
    found = None if may_be_bound else _BOUND.search(_NUMBERS.sub("", text))
    return None if found is None else found[0]

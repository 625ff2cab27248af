"""KML is checked by a plain XML parser before GDAL sees it: no document type, no entities, and something to read."""

from __future__ import annotations

from pathlib import Path
from xml.parsers import expat

from rmhdag.handlers.vector.refusals import VectorRefused

PIECE_BYTES = 1024 * 1024
MOST_DEPTH = 200
NAMESPACES = ("http://www.opengis.net/kml/2.2", "http://earth.google.com/kml/2.", "http://www.opengis.net/kml/2.3", "")


def check_kml(path: Path, name: str) -> int:
    """How many placemarks there are; raises VectorRefused."""
    parser = expat.ParserCreate(namespace_separator=" ")
    depth = 0
    placemarks = 0

    def start(tag: str, _: object) -> None:
        nonlocal depth, placemarks
        space, _, local = tag.rpartition(" ")
        if depth == 0 and (local != "kml" or not space.startswith(NAMESPACES)):
            raise VectorRefused(f"{name} is not KML: its root is <{local[:40]}>.", code="VECTOR_FORMAT_MISMATCH")
        placemarks += local == "Placemark"
        depth += 1
        if depth > MOST_DEPTH:
            raise VectorRefused(f"{name} has more than {MOST_DEPTH} nested elements: export it again.")

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*_: object) -> None:
        raise VectorRefused(f"{name} declares a document type or entities, which KML does not need: remove them.")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    with path.open("rb") as file:
        try:
            while piece := file.read(PIECE_BYTES):
                parser.Parse(piece, False)
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise VectorRefused(
                f"{name} is not valid XML: {expat.ErrorString(error.code)} in line {error.lineno}, column "
                f"{error.offset + 1}.",
                code="VECTOR_UNREADABLE",
            ) from None
    if placemarks == 0:
        raise VectorRefused(
            f"{name} has no placemarks: it may be a network link, styles or a template. Export the places themselves.",
            code="VECTOR_NO_FEATURES",
        )
    return placemarks

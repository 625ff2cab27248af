"""`rmhdag sample-data`: rasters to try things with, made here and now."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import JsonOption
from rmhdag.cli.output import emit, emit_json, write
from rmhdag.sampledata.kinds import DEFAULT_SIZES, LEAST_SIZE, MOST_SIZE, SAMPLES, Kind, Sample


def register(app: typer.Typer) -> None:
    app.command("sample-data", short_help="Write sample rasters.")(sample_data)


def sample_data(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; it is made.", show_default=False)],
    kind: Annotated[list[Kind] | None, typer.Option("--kind", "-k", help="Only these; may be repeated.")] = None,
    size: Annotated[
        int | None, typer.Option("--size", min=LEAST_SIZE, max=MOST_SIZE, help="Pixels along each side.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Another world.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Write rasters that look like real ones, without network: the same seed gives the same bytes. Paths go to stdout.

    \b
    Kinds:
      dem         heights in metres, float32, UTM; the sea is nodata
      multiband   blue, green, red and near infrared, uint16, UTM; nodata around a satellite's swath
      landcover   seven classes with a colour table, uint8, in degrees, without nodata
      tile-set    nine small files: a survey in four tiles, Web Mercator, degrees, the South Pole,
                  the antimeridian, one without compression

    \b
    Examples:
      rmhdag sample-data samples/
      rmhdag sample-data samples/ --kind dem --size 20000 --seed 7
    """
    require_geo()
    from rmhdag.sampledata.files import write_sample

    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = []
        for sample, pixels in wanted(kind or list(Kind), size):
            path = folder / sample.name
            write_sample(path, sample, pixels, seed, Progress(sample.name))
            made.append(path)
    except OSError as error:
        raise CommandFailed(f"{folder} cannot be written: {error}", remedy="Choose another folder.") from error
    if as_json:
        emit_json({"files": [{"path": str(path), "size_bytes": path.stat().st_size} for path in made]})
    else:
        emit("".join(f"{path}\n" for path in made))


def wanted(kinds: list[Kind], size: int | None) -> list[tuple[Sample, int]]:
    return [(sample, size or DEFAULT_SIZES[kind]) for kind in dict.fromkeys(kinds) for sample in SAMPLES[kind]]


def require_geo() -> None:
    from importlib.util import find_spec

    if find_spec("rasterio") is None:
        raise CommandFailed(
            "the libraries for rasters are not installed",
            remedy="Run `scripts/setup geo`, or pip install 'rmhdag[geo]'.",
            code=ExitCode.UNAVAILABLE,
        )


class Progress:
    """For a terminal a line that grows; for everything else nothing until it is done."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live = sys.stderr.isatty()

    def __call__(self, share: float) -> None:
        if self._live and share < 1:
            write(sys.stderr, f"\r{self._name}  {share:4.0%}")
        elif self._live:
            write(sys.stderr, "\r\x1b[K")

"""`rmhdag sample-data`: rasters to try things with, made here and now, in a folder or in the zone for what comes in."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import DEFAULT_NAMESPACE, JsonOption, StorageNamespaceOption
from rmhdag.cli.output import ESCAPE, emit, emit_json, write
from rmhdag.sampledata.kinds import DEFAULT_SEED, DEFAULT_SIZES, LEAST_SIZE, MOST_SIZE, SAMPLES, Kind, Sample

if TYPE_CHECKING:
    from rmhdag.cli.settings import Settings
    from rmhdag.models.blobs import BlobRef
    from rmhdag.storage import Storage

CONTAINER = "samples"

SizeOption = Annotated[
    int | None, typer.Option("--size", min=LEAST_SIZE, max=MOST_SIZE, help="Pixels along each side.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Another number, another world.")]


def register(app: typer.Typer) -> None:
    app.command("sample-data", short_help="Write sample rasters.")(sample_data)


def sample_data(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="Where to; it is made.")] = None,
    to_storage: Annotated[bool, typer.Option("--to-storage", help="Into the bronze zone of blob storage.")] = False,
    container: Annotated[str, typer.Option("--container", metavar="NAME", help="Of the zone.")] = CONTAINER,
    namespace: StorageNamespaceOption = DEFAULT_NAMESPACE,
    kind: Annotated[list[Kind] | None, typer.Option("--kind", "-k", help="Only these; may be repeated.")] = None,
    size: SizeOption = None,
    seed: SeedOption = DEFAULT_SEED,
    as_json: JsonOption = False,
) -> None:
    """Write rasters that look like real ones, without network: the same seed gives the same bytes. Their paths go to
    stdout.

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
      rmhdag sample-data --to-storage --kind tile-set
    """
    if (folder is None) == (not to_storage):
        raise CommandFailed("name a folder, or --to-storage: one of the two", code=ExitCode.USAGE)
    require_geo()
    samples = wanted(kind or list(Kind), size)
    made: dict[str, dict[str, object]] = {}
    if folder is not None:
        for path in in_folder(folder, samples, seed):
            made[str(path)] = {"path": str(path), "size_bytes": path.stat().st_size}
    else:
        from rmhdag.cli.settings import load_settings

        for ref in in_storage(storage_of(load_settings().settings, namespace), container, samples, seed):
            made[str(ref.address)] = ref.model_dump(mode="json")
    emit_json({"files": list(made.values())}) if as_json else emit("".join(f"{name}\n" for name in made))


def wanted(kinds: list[Kind], size: int | None) -> list[tuple[Sample, int]]:
    return [(sample, size or DEFAULT_SIZES[kind]) for kind in dict.fromkeys(kinds) for sample in SAMPLES[kind]]


def in_folder(folder: Path, samples: Iterable[tuple[Sample, int]], seed: int) -> Iterator[Path]:
    from rmhdag.sampledata.files import write_sample

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for sample, pixels in samples:
            path = folder / sample.name
            write_sample(path, sample, pixels, seed, Progress(sample.name))
            yield path
    except OSError as error:
        raise CommandFailed(
            f"{folder} cannot be written: {error.strerror or error}", remedy="Choose another folder, or make room."
        ) from error


def in_storage(storage: Storage, container: str, samples: Iterable[tuple[Sample, int]], seed: int) -> Iterator[BlobRef]:
    """One after the other by way of a folder, so that a large one needs room only once."""
    from rmhdag.models.blobs import BlobAddress
    from rmhdag.models.records import Zone
    from rmhdag.storage import StorageError

    with tempfile.TemporaryDirectory(prefix="rmhdag-samples-") as folder:
        for path in in_folder(Path(folder), samples, seed):
            try:
                yield storage.upload(path, BlobAddress(Zone.BRONZE, container, path.name))
            except StorageError as error:
                raise CommandFailed(f"the sample cannot be stored: {error}") from error
            path.unlink()


def storage_of(settings: Settings, namespace: str) -> Storage:
    from rmhdag.storage import StorageError, open_storage

    found = settings.storage_settings()
    if not found.is_given:
        raise CommandFailed(
            "no blob storage is configured",
            remedy="Name a folder by RMHDAG_STORAGE; `rmhdag up` has one of its own.",
            code=ExitCode.INVALID,
        )
    try:
        return open_storage(found, namespace)
    except StorageError as error:
        raise CommandFailed(f"blob storage cannot be used: {error}", code=ExitCode.UNAVAILABLE) from error


def require_geo() -> None:
    from importlib.util import find_spec

    if find_spec("rasterio") is None:
        raise CommandFailed(
            "the libraries for rasters are not installed",
            remedy="Run `scripts/setup geo`, or pip install 'rmhdag[geo]'.",
            code=ExitCode.UNAVAILABLE,
        )


class Progress:
    """For a terminal a line that grows; for everything else nothing."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live = sys.stderr.isatty()

    def __call__(self, share: float) -> None:
        if self._live:
            write(sys.stderr, f"{ESCAPE}[G{self._name}  {share:4.0%}" if share < 1 else f"{ESCAPE}[G{ESCAPE}[K")

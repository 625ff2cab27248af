"""`rmhdag sample-data`: rasters and vector layers to try things with, in a folder or in the zone for source files."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import DEFAULT_NAMESPACE, JsonOption, StorageNamespaceOption
from rmhdag.cli.output import ESCAPE, emit, emit_json, write
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.records import Zone
from rmhdag.sampledata.kinds import DEFAULT_SEED, DEFAULT_SIZES, LEAST_SIZE, MOST_SIZE, SAMPLES, Kind, Sample
from rmhdag.sampledata.vector_kinds import (
    DEFAULT_FEATURES,
    LEAST_FEATURES,
    MOST_FEATURES,
    VECTOR_SAMPLES,
    VectorSample,
)
from rmhdag.storage import Storage, StorageError, open_storage

CONTAINER = "samples"
# A file to make, with its size: pixels along each side, or features of the largest layer.
SizedSample = tuple[Sample | VectorSample, int]

SizeOption = Annotated[int | None, typer.Option("--size", min=LEAST_SIZE, max=MOST_SIZE, help="Pixels per side.")]
FeaturesOption = Annotated[
    int,
    typer.Option("--features", min=LEAST_FEATURES, max=MOST_FEATURES, help="Buildings in the vector layers."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the random terrain.")]


def register(app: typer.Typer) -> None:
    app.command("sample-data", short_help="Write sample rasters and vector layers.")(sample_data)


def sample_data(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Folder to write to; created if it does not exist.")
    ] = None,
    to_storage: Annotated[bool, typer.Option("--to-storage", help="Write to the bronze zone of blob storage.")] = False,
    container: Annotated[str, typer.Option("--container", metavar="NAME", help="Container in the zone.")] = CONTAINER,
    namespace: StorageNamespaceOption = DEFAULT_NAMESPACE,
    kind: Annotated[list[Kind] | None, typer.Option("--kind", "-k", help="Only this kind; may be repeated.")] = None,
    size: SizeOption = None,
    features: FeaturesOption = DEFAULT_FEATURES,
    seed: SeedOption = DEFAULT_SEED,
    as_json: JsonOption = False,
) -> None:
    """Write rasters and vector layers that look like real ones. No network is needed, and the same seed gives the same
    bytes. The paths are printed to stdout.

    \b
    Kinds:
      dem         heights in metres, float32, UTM; the sea is nodata
      multiband   blue, green, red and near infrared, uint16, UTM; nodata around a satellite's swath
      landcover   seven classes with a colour table, uint8, in degrees, without nodata
      tile-set    nine small files: a survey in four tiles, Web Mercator, degrees, the South Pole,
                  the antimeridian, one without compression
      vector      twelve files: districts, roads, buildings, places and zones across the antimeridian,
                  as GeoPackage, GeoJSON, GeoJSONSeq, zipped shapefile, FlatGeobuf, GeoParquet, CSV
                  and KML, in five coordinate systems

    \b
    Examples:
      rmhdag sample-data samples/
      rmhdag sample-data samples/ --kind dem --size 20000 --seed 7
      rmhdag sample-data --to-storage --kind tile-set
      rmhdag sample-data layers/ --kind vector --features 100000
    """
    if (folder is None) == (not to_storage):
        raise CommandFailed("name a folder, or --to-storage: one of the two", code=ExitCode.USAGE)
    require_geo()
    samples = wanted(kind or list(Kind), size, features)
    files: dict[str, dict[str, object]] = {}
    if folder is not None:
        for path in in_folder(folder, samples, seed):
            files[str(path)] = {"path": str(path), "size_bytes": path.stat().st_size}
    else:
        for ref in in_storage(storage_of(load_settings().settings, namespace), container, samples, seed):
            files[str(ref.address)] = ref.model_dump(mode="json")
    emit_json({"files": list(files.values())}) if as_json else emit("".join(f"{name}\n" for name in files))


def wanted(kinds: list[Kind], size: int | None, features: int = DEFAULT_FEATURES) -> list[SizedSample]:
    samples: list[SizedSample] = []
    for kind in dict.fromkeys(kinds):
        if kind is Kind.VECTOR:
            samples += [(sample, features) for sample in VECTOR_SAMPLES]
        else:
            samples += [(sample, size or DEFAULT_SIZES[kind]) for sample in SAMPLES[kind]]
    return samples


def in_folder(folder: Path, samples: Iterable[SizedSample], seed: int) -> Iterator[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for sample, size in samples:
            path = folder / sample.name
            write_one(path, sample, size, seed)
            yield path
    except OSError as error:
        raise CommandFailed(
            f"{folder} cannot be written: {error.strerror or error}",
            remedy="Choose another folder, or free some space.",
        ) from error


def write_one(path: Path, sample: Sample | VectorSample, size: int, seed: int) -> None:
    if isinstance(sample, VectorSample):
        from rmhdag.sampledata.vector_files import write_vector_sample

        write_vector_sample(path, sample, size, seed, Progress(sample.name))
    else:
        from rmhdag.sampledata.files import write_sample

        write_sample(path, sample, size, seed, Progress(sample.name))


def in_storage(storage: Storage, container: str, samples: Iterable[SizedSample], seed: int) -> Iterator[BlobRef]:
    """One after the other by way of a folder, so that a large one needs room only once."""
    with tempfile.TemporaryDirectory(prefix="rmhdag-samples-") as folder:
        for path in in_folder(Path(folder), samples, seed):
            try:
                yield storage.upload(path, BlobAddress(Zone.BRONZE, container, path.name))
            except StorageError as error:
                raise CommandFailed(f"the sample cannot be stored: {error}") from error
            path.unlink()


def storage_of(settings: Settings, namespace: str) -> Storage:
    storage_settings = settings.storage_settings()
    if not storage_settings.is_given:
        raise CommandFailed(
            "no blob storage is configured",
            remedy="Set RMHDAG_STORAGE to a folder; `rmhdag up` uses its own.",
            code=ExitCode.INVALID,
        )
    try:
        return open_storage(storage_settings, namespace)
    except StorageError as error:
        raise CommandFailed(f"blob storage cannot be used: {error}", code=ExitCode.UNAVAILABLE) from error


def require_geo() -> None:
    if find_spec("rasterio") is None or find_spec("pyogrio") is None:
        raise CommandFailed(
            "the geospatial libraries are not installed",
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

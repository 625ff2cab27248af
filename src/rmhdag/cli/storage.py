"""`rmhdag storage …`: files in blob storage, listed, put there and fetched; bronze unless another zone is named."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.options import DEFAULT_NAMESPACE, JsonOption, StorageNamespaceOption
from rmhdag.cli.output import ESCAPE, emit, emit_json, say, write
from rmhdag.cli.sample_data import storage_of
from rmhdag.cli.settings import load_settings
from rmhdag.cli.tables import lay_out, show_bytes, show_moment
from rmhdag.models.blobs import BlobAddress
from rmhdag.models.records import Zone
from rmhdag.storage import BlobConflict, BlobNotFound, OutsideStorage, Storage, StorageError

PlaceArgument = Annotated[
    str,
    typer.Argument(metavar="PLACE", help="CONTAINER/PATH in bronze, or ZONE/CONTAINER/PATH, such as silver/work/a."),
]
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")]
PROGRESS_SECONDS = 0.2


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="List, upload and download files in blob storage."
    )
    group.command("ls", short_help="List containers, or the files in one.")(list_files)
    group.command("put", short_help="Upload files.")(put_files)
    group.command("get", short_help="Download a file.")(get_file)
    app.add_typer(group, name="storage")


def list_files(
    place: Annotated[
        str, typer.Argument(metavar="[PLACE]", help="CONTAINER or CONTAINER/START in bronze; ZONE/… in another zone.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="Maximum number of entries.")
    ] = 1_000,
    namespace: StorageNamespaceOption = DEFAULT_NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """List the containers of a zone, or the files of a container whose paths begin with START.

    \b
    Examples:
      rmhdag storage ls
      rmhdag storage ls uploads/2026/
      rmhdag storage ls silver --json
      rmhdag storage ls uploads/ --namespace alpha
    """
    zone, container, start = read_place(place)
    with opened(namespace, zone) as storage:
        if not container:
            containers = storage.containers(zone)
            if as_json:
                emit_json({"zone": zone, "containers": list(containers)})
            elif containers:
                emit("".join(f"{name}/\n" for name in containers))
            else:
                say(f"zone {zone} is empty")
            return
        lines = list(islice(storage.list(zone, container, start), limit + 1))
    page, is_cut = lines[:limit], len(lines) > limit
    if as_json:
        files = [
            {"container": file.address.container, "path": file.address.path, "size_bytes": file.size_bytes}
            | {"modified_at": file.modified_at}
            for file in page
        ]
        emit_json({"zone": zone, "files": files, "has_more": is_cut})
        return
    if not page:
        say(f"no file of zone {zone} begins with {container}/{start}; {containers_hint(zone)}")
        return
    rows = [(show_bytes(file.size_bytes), show_moment(file.modified_at), file.address.path) for file in page]
    emit(lay_out(("SIZE", "CHANGED", "PATH"), rows, right=("SIZE",)))
    if is_cut:
        say(f"there are more than {limit}: raise --limit, or name the start of a path")


def put_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Local files.")],
    place: PlaceArgument,
    force: ForceOption = False,
    namespace: StorageNamespaceOption = DEFAULT_NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Upload files to PLACE; a path that ends in / keeps the names of the files. A file that already exists with the
    same content stays unchanged; with other content it is refused (exit code 6) unless --force is given.

    \b
    Examples:
      rmhdag storage put scene.tif uploads/
      rmhdag storage put *.tif uploads/2026-07/
      rmhdag storage put new.tif uploads/scene.tif --force
    """
    zone, container, path = read_place(place)
    is_folder = not path or path.endswith("/")
    if not container:
        raise CommandFailed(
            "PLACE names no container", remedy="Write CONTAINER/ or CONTAINER/PATH.", code=ExitCode.USAGE
        )
    if len(files) > 1 and not is_folder:
        raise CommandFailed(f"{len(files)} files cannot have one path", remedy="End PLACE with /.", code=ExitCode.USAGE)
    for file in files:
        if not file.is_file():
            raise CommandFailed(f"{file} is not a file", code=ExitCode.NOT_FOUND)
    addresses = []
    with opened(namespace, zone) as storage:
        for file in files:
            address = BlobAddress(zone, container, f"{path}{file.name}" if is_folder else path)
            try:
                with Transfer(file.name, file.stat().st_size) as progress:
                    ref = storage.upload(file, address, if_absent=not force, on_piece=progress)
            except BlobConflict:
                raise CommandFailed(
                    f"{address} already exists with other content",
                    remedy="Choose another path, or replace it with --force.",
                    code=ExitCode.CONFLICT,
                ) from None
            except OSError as error:
                raise CommandFailed(f"{file} cannot be read: {error.strerror or error}") from error
            addresses.append(ref)
            if not as_json:
                emit(f"{address}\n")
    if as_json:
        emit_json({"files": [ref.model_dump() for ref in addresses]})


def get_file(
    place: PlaceArgument,
    target: Annotated[
        Path, typer.Argument(metavar="[FILE]", help="Local file or folder (default: the current folder).")
    ] = Path(),
    force: ForceOption = False,
    namespace: StorageNamespaceOption = DEFAULT_NAMESPACE,
    as_json: JsonOption = False,
) -> None:
    """Download a file. It appears when it is complete; an existing local file is kept (exit code 6) unless --force is
    given.

    \b
    Examples:
      rmhdag storage get uploads/scene.tif
      rmhdag storage get silver/cogs/scene.tif /tmp/cog.tif
    """
    zone, container, path = read_place(place)
    if not container or not path:
        raise CommandFailed("PLACE names no file", remedy="Write CONTAINER/PATH.", code=ExitCode.USAGE)
    address = BlobAddress(zone, container, path)
    local = target / Path(path).name if target.is_dir() else target
    if local.exists() and not force:
        raise CommandFailed(
            f"{local} already exists", remedy="Name another file, or replace it with --force.", code=ExitCode.CONFLICT
        )
    with opened(namespace, zone) as storage:
        try:
            size_bytes = storage.info(address).size_bytes
        except BlobNotFound as error:
            raise CommandFailed(
                str(error),
                remedy=f"`rmhdag storage ls {zone}/{container}/` lists the files there.",
                code=ExitCode.NOT_FOUND,
            ) from error
        try:
            with Transfer(local.name, size_bytes) as progress:
                ref = storage.download(address, local, on_piece=progress)
        except OSError as error:
            raise CommandFailed(f"{local} cannot be written: {error.strerror or error}") from error
    emit_json({"file": str(local), **ref.model_dump()}) if as_json else emit(f"{local}\n")


def read_place(text: str) -> tuple[Zone, str, str]:
    """Zone, container and path. Storage checks the names themselves.

    Commands print `silver/work/a`, so that is read as it is printed. A colon ends the zone in any case: a container of
    bronze with the name of a zone is `bronze:silver/…`.
    """
    first, _, rest = text.partition("/")
    if ":" not in first and first in set(Zone):
        text = f"{first}:{rest}"
    zone, colon, rest = text.partition(":")
    if colon and zone not in set(Zone):
        raise CommandFailed(f"there is no zone {zone!r}", remedy=f"Zones are {', '.join(Zone)}.", code=ExitCode.USAGE)
    container, _, path = (rest if colon else text).partition("/")
    return Zone(zone) if colon else Zone.BRONZE, container, path


def containers_hint(zone: Zone) -> str:
    return f"`rmhdag storage ls{'' if zone is Zone.BRONZE else f' {zone}'}` lists the containers"


@contextmanager
def opened(namespace: str, zone: Zone) -> Iterator[Storage]:
    """The storage of the settings as a namespace sees it, with its refusals as sentences."""
    try:
        yield storage_of(load_settings().settings, namespace)
    except BlobNotFound as error:
        raise CommandFailed(str(error), remedy=f"{containers_hint(zone)}.", code=ExitCode.NOT_FOUND) from error
    except OutsideStorage as error:
        raise CommandFailed(str(error), code=ExitCode.USAGE) from error
    except StorageError as error:
        raise CommandFailed(f"blob storage: {error}", code=ExitCode.UNAVAILABLE) from error


class Transfer:
    """How far one file is: a line that grows, in a terminal and once it takes a moment."""

    def __init__(self, name: str, size_bytes: int) -> None:
        self._name = name
        self._size_bytes = max(size_bytes, 1)
        self._is_live = sys.stderr.isatty()
        self._due = time.monotonic() + PROGRESS_SECONDS
        self._is_shown = False

    def __enter__(self) -> Transfer:
        return self

    def __call__(self, done_bytes: int) -> None:
        if not self._is_live or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PROGRESS_SECONDS
        self._is_shown = True
        share = min(1.0, done_bytes / self._size_bytes)
        write(sys.stderr, f"{ESCAPE}[G{ESCAPE}[K{self._name}  {share:4.0%} of {show_bytes(self._size_bytes)}")

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            write(sys.stderr, f"{ESCAPE}[G{ESCAPE}[K")

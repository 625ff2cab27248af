"""The services as processes of `rmhdag serve`: which can run, with what; started, looked after and ended."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import paint, say
from rmhdag.cli.plain_http import is_loopback
from rmhdag.cli.run_api import address_of, listen
from rmhdag.cli.server import data_folder, explained, opened_server
from rmhdag.cli.service_databases import service_databases
from rmhdag.cli.settings import Settings
from rmhdag.cli.supervisor import Supervisor
from rmhdag.embedded.account import make_account
from rmhdag.embedded.lock import FolderLock
from rmhdag.machine.private_files import make_home
from rmhdag.machine.python import python_command
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.serving.announcement import announced
from rmhdag.serving.environment import is_reachable
from rmhdag.serving.health import Health
from rmhdag.serving.measures import Measures
from rmhdag.serving.plans import ServingPlan, plan_of
from rmhdag.serving.proxy import Proxy
from rmhdag.serving.published import PgstacItems, PublishedFiles
from rmhdag.serving.roles import RoleRefused
from rmhdag.serving.server import proxy_running
from rmhdag.serving.service_kinds import Service

ACCOUNT = "rmhdag-services"
READY_SECONDS = 120.0
PATIENCE_SECONDS = 10.0
# One that has not answered for so long is killed and started again.
HANG_SECONDS = 60.0
LOOK_SECONDS = 0.5
MOST_DEATHS = 3


def run_until_stopped(settings: Settings, python: Path, listener: int | None) -> None:
    """`listener` is a descriptor that listens already."""
    home = data_folder(settings)
    with only_one(home), opened_server(settings) as server, explained(settings), ExitStack() as stack:
        try:
            dsns, reasons = service_databases(server, settings)
        except RoleRefused as error:
            raise CommandFailed(str(error), code=ExitCode.CONFLICT) from error
        if not settings.storage_settings().is_given:
            reasons[Service.TILES] = "no blob storage is configured; set RMHDAG_STORAGE"
        host, port = settings.serve_host, settings.serve_port
        entrance = listen(host, port) if listener is None else socket.socket(fileno=listener)
        stack.callback(entrance.close)
        warn_of_readers(entrance)
        run(settings, python, entrance, dsns, reasons, home)


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Two on one folder would change each other's passwords."""
    make_home(home)
    lock = FolderLock(home / "serve.lock")
    if not lock.try_to_take():
        raise CommandFailed(
            f"the services already run on {home} (process {lock.holder()})",
            remedy="Use them, stop them, or set RMHDAG_HOME to another data folder.",
            code=ExitCode.CONFLICT,
        )
    try:
        yield
    finally:
        lock.release()


def warn_of_readers(entrance: socket.socket) -> None:
    host = entrance.getsockname()[0]
    if not is_loopback(host):
        say(
            f"{paint('warning:', '33', sys.stderr)} the services listen on {host}: everybody who reaches it can read "
            "all published data; listen on 127.0.0.1 and put a proxy in front that decides who may"
        )


def run(
    settings: Settings,
    python: Path,
    entrance: socket.socket,
    dsns: Mapping[Service, str],
    reasons: dict[Service, str],
    home: Path,
) -> None:
    """Until somebody asks to stop."""
    served = [name for name in Service if name not in reasons]
    url = settings.serve_public_url or address_of(entrance)
    with ExitStack() as stack:
        folder = stack.enter_context(socket_folder())
        source = stack.enter_context(listening_at(folder / "source", everybody=True))
        sockets = {name: stack.enter_context(listening_at(folder / name)) for name in served}
        items = None
        if settings.catalogue is CatalogueKind.PGSTAC and Service.STAC in dsns:
            items = PgstacItems(dsns[Service.STAC])
            stack.callback(items.close)
        files = PublishedFiles(settings.storage_settings(), items.find if items else None)
        health = Health(served)
        proxy = Proxy(
            {name: str(folder / name) for name in served},
            reasons,
            files,
            health,
            Measures(),
            requests=settings.serve_requests,
            seconds=settings.serve_request_seconds,
            public_url=settings.serve_public_url,
        )
        shared = ServingPlan(
            python,
            settings.serve_memory_mb,
            settings.serve_request_seconds,
            settings.serve_public_url,
            folder / "source",
            services_account(python),
        )
        watcher = Supervisor(None, {"PATH": os.defpath}, tell_warning)
        stack.callback(watcher.close)
        watcher.listen()
        start_services(watcher, shared, sockets, dsns, stack)
        stack.enter_context(proxy_running(proxy, [entrance, source]))
        stack.enter_context(announced(home, url))
        wait_until_ready(watcher, health, served)
        if not watcher.stopping:
            say(f"services (process {os.getpid()}) listen on {url}: {', '.join(f'/{name}' for name in served)}")
            for name, reason in reasons.items():
                say(f"  /{name} is not served: {reason}")
        look_after(watcher, health)
        for name in served:
            watcher.end(name, PATIENCE_SECONDS)


def tell_warning(text: str) -> None:
    say(f"{paint('warning:', '33', sys.stderr)} {text}")


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Others may pass through to the one socket that is for the services' account, and see none of the others."""
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-serve-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def listening_at(path: Path, *, everybody: bool = False) -> Iterator[socket.socket]:
    """Ours, and passed on to the service, so that requests wait while it is restarted."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        path.chmod(0o666 if everybody else 0o600)
        listener.listen(256)
        yield listener


def services_account(python: Path) -> pwd.struct_passwd | None:
    """As root, an account that owns nothing; otherwise our own."""
    if os.geteuid() != 0:
        return None
    if not is_reachable(python):
        tell_warning(
            f"the services run as root, because other accounts cannot reach {python.resolve()}; install python3 and "
            f"remove {python.parent.parent.parent}, or start this as an ordinary user"
        )
        return None
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        return make_account(ACCOUNT)


def start_services(
    watcher: Supervisor,
    shared: ServingPlan,
    sockets: Mapping[Service, socket.socket],
    dsns: Mapping[Service, str],
    stack: ExitStack,
) -> None:
    for name, listener in sockets.items():
        descriptor = plan_of(name, shared, listener.fileno(), dsns.get(name)).to_descriptor()
        stack.callback(os.close, descriptor)
        command = python_command("rmhdag.serving.launch", str(descriptor))
        watcher.start(name, command, [listener.fileno(), descriptor])


def wait_until_ready(watcher: Supervisor, health: Health, served: list[Service]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not watcher.stopping and not all(health.states()[name].is_up for name in served):
        watcher.turn(0.05)
        dying = next(
            (supervised for supervised in watcher.processes.values() if supervised.deaths >= MOST_DEATHS), None
        )
        if dying is not None:
            raise CommandFailed(f"/{dying.name} does not start; its output is above", code=ExitCode.UNAVAILABLE)
        if time.monotonic() > deadline:
            raise CommandFailed(f"the services were not ready within {READY_SECONDS:g} s", code=ExitCode.UNAVAILABLE)


def look_after(watcher: Supervisor, health: Health) -> None:
    """Processes that end are started again by the supervisor; those that hang are killed first."""
    process_ids = {name: supervised.process_id for name, supervised in watcher.processes.items()}
    while not watcher.stopping:
        watcher.turn(LOOK_SECONDS)
        for service in health.hanging(HANG_SECONDS):
            process = watcher.processes[service].process
            if process is not None:
                tell_warning(f"/{service} has not answered for {HANG_SECONDS:g} s; it is started again")
                process.kill()
                health.note_restart(service)
        for name, supervised in watcher.processes.items():
            if supervised.process_id not in (None, process_ids[name]):
                process_ids[name] = supervised.process_id
                health.note_restart(Service(name))

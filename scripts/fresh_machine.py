"""Makes Debian 12 machines (a root folder each, with processes of its own) and runs the README's commands on them.

Every mount is made in a mount namespace and every process runs in a process namespace, so both vanish with the command
however it ends; what remains to be removed is a folder. The network is the host's. Needs the standard library only.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from types import FrameType

REPOSITORY = Path(__file__).resolve().parent.parent
RELEASE = "bookworm"
NAMESPACES = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
COMMANDS = {"run": "./run --once", "test": "./test"}
PATHS = {"root": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "user": "/usr/local/bin:/usr/bin:/bin"}
USER_ID = 1000
TOO_LATE = 124

# A company's machine has these from its administrator: how to reach package indexes, and whom to trust.
PASSED_ON = re.compile(
    r"(https?|ftp|all|no)_proxy"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
    r"|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|PROXY|CERT|CLIENT_CERT|DEFAULT_TIMEOUT|RETRIES)"
    r"|UV_(INDEX|DEFAULT_INDEX|INDEX_URL|EXTRA_INDEX_URL|INSECURE_HOST|SYSTEM_CERTS|HTTP_TIMEOUT)"
    r"|npm_config_(registry|proxy|https_proxy|noproxy|cafile)"
    r"|REQUIRE_ALL|RMHDAG_TEST_PROCESSES",
    re.IGNORECASE,
)
CERTIFICATE_FILES = (
    "SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS PIP_CERT PIP_CLIENT_CERT".split()
)
SYSTEM_CONFIGURATION = (
    "etc/resolv.conf etc/hosts etc/pip.conf etc/npmrc etc/uv/uv.toml usr/local/share/ca-certificates".split()
)
HOME_CONFIGURATION = ".config/pip/pip.conf .pip/pip.conf .npmrc .config/uv/uv.toml".split()

# Runs as the first process of its namespace: adopts orphans, and reports those that the command left running.
ENTER = r"""
set -eu
root=$1
shift
machine_path=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin
# The root of a real machine is a mount, and namespaces cannot be made below one that is not.
mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys" || mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
status=0
setsid --wait chroot "$root" env PATH="$machine_path" "$@" || status=$?
# State and session of a process; what belongs to this script is in the session of the first.
look() { sed 's/.*) //' "$1/stat" 2>/dev/null | cut -d' ' -f1,4; }
own=$(look /proc/1)
left_running() {
    for folder in /proc/[0-9]*; do
        case "$(look "$folder")" in "" | Z* | X* | ?" ${own#* }") ;; *) cat "$folder/comm" 2>/dev/null || : ;; esac
    done | sort | uniq -c
}
# What was asked to end may need a moment.
for second in 1 2 3 4 5; do
    [ -n "$(left_running)" ] || exit $status
    sleep 1
done
echo "fresh-machine: left running: $(left_running | tr -s ' \n' ' ')"
[ $status != 0 ] || status=99
exit $status
"""


@dataclass(frozen=True)
class Machine:
    name: str
    as_root: bool
    packages: tuple[str, ...]

    @property
    def home(self) -> str:
        return "/root" if self.as_root else "/home/somebody"


# Debian's package systemd brings a systemctl that finds no systemd running, as in many containers.
WITH_PYTHON = ("python3", "python3-venv", "ca-certificates")
MACHINES = [
    Machine("root-bare", as_root=True, packages=()),
    Machine("root-dead-systemctl", as_root=True, packages=("systemd",)),
    Machine("user-python", as_root=False, packages=WITH_PYTHON),
    Machine("user-dead-systemctl", as_root=False, packages=(*WITH_PYTHON, "systemd")),
]


class Failure(Exception):
    """Ends the script with one line."""


def say(text: str) -> None:
    print(f"fresh-machine: {text}", flush=True)


def run_isolated(
    command: list[str],
    log: Path,
    *,
    environment: dict[str, str] | None = None,
    stdin: str = "",
    limit_seconds: float = 1200,
) -> int:
    """Its exit code. No process and no mount is left, whether it ends, takes too long, or this script is ended."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*NAMESPACES, *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            process.communicate(stdin.encode(), timeout=limit_seconds)
            return process.returncode
        except subprocess.TimeoutExpired:
            output.write(f"\nfresh-machine: ended after {limit_seconds:.0f} s\n".encode())
            return TOO_LATE
        finally:
            process.kill()
            process.wait()


def require_programs() -> None:
    if os.geteuid() != 0:
        raise Failure("needs root: it makes root folders and mounts")
    missing = [name for name in ("mmdebstrap", "git") if shutil.which(name) is None]
    if missing:
        say(f"installing {' '.join(missing)}")
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
        if subprocess.run(["apt-get", "update", "-qq"]).returncode or subprocess.run(install).returncode:
            raise Failure(f"could not install {' '.join(missing)}")
    if shutil.which("unshare") is None:
        raise Failure("needs unshare from Debian's package util-linux")


def apt_sources() -> str:
    """Where this machine gets Debian 12 from, as lines of a sources.list."""
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(ORIGIN) $(CODENAME) $(REPO_URI) $(COMPONENT)",
        "Created-By: Packages",
    ]
    lines = []
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        match line.split():
            case ["Debian", suite, address, component] if suite.split("-")[0] == RELEASE:
                lines.append(f"deb {address} {suite} {component}\n")
    if not any(f" {RELEASE} main" in line for line in lines):
        raise Failure(f"apt knows no source of Debian 12 ({RELEASE}) here; add one and run apt-get update")
    return "".join(dict.fromkeys(lines))


def apt_settings() -> str:
    """The proxies and certificates of this machine's apt."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    wanted = re.compile(r"Acquire::(https?::|Check-Valid-Until)", re.IGNORECASE)
    return "".join(f"{line}\n" for line in dump.splitlines() if wanted.match(line))


def make_base(folder: Path, log: Path) -> Path:
    """The smallest Debian with apt; every machine starts as a copy of it."""
    sources, settings = apt_sources(), folder / "apt.conf"
    settings.write_text(apt_settings())
    # Without certificates, a machine could not reach sources such as these to get them.
    include = ["--include=ca-certificates"] if " https:" in sources else []
    base = folder / "base"
    command = [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        f"--aptopt={settings}",
        # Nobody needs these files after a power cut, and hundreds of packages are unpacked.
        "--dpkgopt=force-unsafe-io",
        *include,
        RELEASE,
        str(base),
        "-",
    ]
    if run_isolated(command, log, stdin=sources) != 0:
        raise Failure(f"could not make a Debian root:\n{tail(log)}")
    return base


def copy_configuration(root: Path, machine: Machine) -> None:
    for path in SYSTEM_CONFIGURATION:
        copy(Path("/", path), root / path)
    for path in HOME_CONFIGURATION:
        copy(Path.home() / path, root / machine.home.lstrip("/") / path)
    for name in CERTIFICATE_FILES:
        # The system's own bundle is made by ca-certificates, as on any machine.
        path = os.environ.get(name, "")
        if path.startswith("/") and not path.startswith("/etc/ssl/certs/"):
            copy(Path(path), root / path.lstrip("/"))


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)


def clone(root: Path, machine: Machine) -> None:
    """What is committed here, as somebody who clones it gets it."""
    settings = root / "tmp/gitconfig"
    settings.write_text("[safe]\n\tdirectory = *\n")
    target = root / machine.home.lstrip("/") / "rmhdag"
    environment = os.environ | {"GIT_CONFIG_GLOBAL": str(settings)}
    subprocess.run(["git", "clone", "--quiet", f"file://{REPOSITORY}", str(target)], env=environment, check=True)
    settings.unlink()


def environment_of(machine: Machine) -> dict[str, str]:
    """The variables of a user who has just logged in."""
    variables = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    name = "root" if machine.as_root else "somebody"
    variables |= {"HOME": machine.home, "USER": name, "LOGNAME": name, "SHELL": "/bin/sh", "TERM": "dumb"}
    return variables | {"PATH": PATHS["root" if machine.as_root else "user"]}


def run_on(machine: Machine, root: Path, command: str, log: Path, limit_seconds: float = 1200) -> int:
    """Run a shell command in the home of the machine's user; its exit code."""
    identity = ["setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--no-new-privs"]
    inside = [*([] if machine.as_root else identity), "sh", "-c", f"cd && {command}"]
    line = ["sh", "-c", ENTER, "enter", str(root), *inside]
    return run_isolated(line, log, environment=environment_of(machine), limit_seconds=limit_seconds)


def make_machine(base: Path, root: Path, machine: Machine, log: Path) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(root)], check=True)
    copy_configuration(root, machine)
    clone(root, machine)
    steps = []
    if machine.packages:
        steps.append("export DEBIAN_FRONTEND=noninteractive; apt-get update -qq")
        steps.append(f"apt-get install -y -qq --no-install-recommends {' '.join(machine.packages)}")
    if not machine.as_root:
        steps.append(f"useradd --uid {USER_ID} --home-dir {machine.home} --shell /bin/sh somebody")
        steps.append(f"chown -R somebody:somebody {machine.home}")
    if steps and run_on(replace(machine, as_root=True), root, " && ".join(steps), log) != 0:
        raise Failure(f"could not make the machine {machine.name}:\n{tail(log)}")


def tail(log: Path, lines: int = 30) -> str:
    return "\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-lines:])


def missing_parts(log: Path) -> list[str]:
    """What the log says is missing or was skipped, with the reasons."""
    lines = log.read_text(errors="replace").splitlines()
    parts = [line for line in lines if line.startswith(("setup: no ", "setup: uv could not"))]
    for number, line in enumerate(lines):
        if re.fullmatch(r"skipped: [1-9]\d*", line):
            parts.append(line)
            parts += takewhile(lambda reason: reason.startswith("  "), lines[number + 1 :])
    return parts


def try_machine(machine: Machine, base: Path, arguments: argparse.Namespace, folder: Path) -> bool:
    root = folder / machine.name
    log = folder / "logs" / f"{machine.name}.log"
    started = time.monotonic()
    try:
        make_machine(base, root, machine, log)
    except Failure as failure:
        # The others are worth a try.
        say(str(failure))
        return False
    say(f"{machine.name}: made in {time.monotonic() - started:.0f} s ({' '.join(machine.packages) or 'nothing added'})")
    good = True
    for name in arguments.command or COMMANDS:
        command = " ".join([COMMANDS[name], *map(shlex.quote, arguments.arguments if name == "test" else [])])
        log = folder / "logs" / f"{machine.name}-{name}.log"
        started = time.monotonic()
        status = run_on(machine, root, f"cd rmhdag && {command}", log, arguments.limit)
        say(f"{machine.name}: {command}: exit {status} after {time.monotonic() - started:.0f} s, log: {log}")
        for part in missing_parts(log):
            print(f"    {part}", flush=True)
        if status != 0:
            print(tail(log), flush=True)
            good = False
    if not arguments.keep:
        shutil.rmtree(root)
    return good


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fresh-machine",
        description="Runs ./run --once and ./test from a clean clone of the last commit on fresh Debian 12 machines.",
        epilog="Machines: " + "; ".join(f"{each.name} ({' '.join(each.packages) or 'bare'})" for each in MACHINES),
    )
    names = [machine.name for machine in MACHINES]
    parser.add_argument("--only", action="append", choices=names, help="this machine; can be repeated (default: all)")
    parser.add_argument("--command", action="append", choices=list(COMMANDS), help="this command only (default: both)")
    parser.add_argument("--limit", type=float, default=3600, metavar="SECONDS", help="per command (default: 3600)")
    parser.add_argument(
        "--in", dest="place", metavar="FOLDER", help="where the roots are made (default: temporary folder)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the roots, to look into them with chroot")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="arguments for ./test")
    return parser.parse_args()


def end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> int:
    arguments = read_arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    require_programs()
    status = ["git", "-C", str(REPOSITORY), "-c", f"safe.directory={REPOSITORY}", "status", "--porcelain"]
    if subprocess.run(status, capture_output=True, check=True).stdout:
        say("uncommitted changes are not part of the clone")
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-fresh-machine-", dir=arguments.place))
    (folder / "logs").mkdir()
    try:
        started = time.monotonic()
        base = make_base(folder, folder / "logs" / "base.log")
        say(f"a root of Debian 12 made in {time.monotonic() - started:.0f} s")
        chosen = [machine for machine in MACHINES if machine.name in (arguments.only or [machine.name])]
        failed = [machine.name for machine in chosen if not try_machine(machine, base, arguments, folder)]
    finally:
        if arguments.keep:
            say(f"roots kept in {folder}")
        else:
            for entry in folder.iterdir():
                if entry.name != "logs":
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    say(f"FAILED: {', '.join(failed)}" if failed else "all good")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"fresh-machine: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)

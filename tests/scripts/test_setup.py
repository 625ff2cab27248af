"""scripts/setup where something is missing or fails: it goes on without, or names the step and the remedy.

The script is the real one, in a copy of the project; apt-get, Python and others are stand-ins that record their calls.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The smallest Debian has these.
REAL = "cat cp cut dirname env flock getent grep ln mkdir mktemp mv rm sed sh sha256sum tail".split()
PACKAGES = ("postgresql-15 postgresql-15-postgis-3", "pgbouncer", "strace", "curl", "chromium libatomic1", "nodejs npm")

# Makes an environment whose python and uv are itself again.
PYTHON = """
case "$*" in
--version) echo Python 3.11.2 ;;
"-m venv"*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python"
    cp "$0" "$folder/bin/uv" ;;
esac
"""


@dataclass
class System:
    """A project in a folder, on a system of which only the programs in `programs` exist."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def root(self) -> Path:
        """Stands for /."""
        return self.folder / "root"

    def program(self, name: str, script: str = "") -> None:
        place = self.folder / "bin" / name
        place.unlink(missing_ok=True)
        record = f'echo "{name} $*" >>"{self.folder}/calls"'
        place.write_text(f"#!/bin/sh\n{record}\n{script}\n")
        place.chmod(0o755)

    def without(self, name: str) -> None:
        (self.folder / "bin" / name).unlink()

    def file(self, path: str, text: str = "") -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o755)
        return place

    def setup(self, kind: str = "dev") -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": str(self.folder / "bin"),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "RMHDAG_SETUP_SYSTEM": str(self.root),
            **self.variables,
        }
        return subprocess.run(
            ["/bin/sh", "scripts/setup", kind],
            cwd=self.project,
            env={name: value for name, value in environment.items() if value},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def calls(self) -> str:
        record = self.folder / "calls"
        return record.read_text() if record.exists() else ""


@pytest.fixture
def system(tmp_path: Path) -> System:
    """root on a bare Debian on which everything works."""
    system = System(tmp_path)
    for name in ("bin", "root", "home", "tmp", "project/scripts"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts/setup", system.project / "scripts/setup")
    shutil.copytree(ROOT / "requirements", system.project / "requirements")
    (system.project / "pyproject.toml").touch()
    for name in REAL:
        program = shutil.which(name)
        assert program is not None
        (tmp_path / "bin" / name).symlink_to(program)
    system.program("id", "echo 0")
    system.program("python3.11", PYTHON)
    for name in ("apt-get", "npm", "update-rc.d"):
        system.program(name)
    system.file("etc/ssl/certs/ca-certificates.crt", "the certificates that the system trusts")
    return system


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def test_everything_is_installed_where_everything_works(system: System) -> None:
    done = system.setup()
    assert (done.returncode, done.stderr) == (0, "")
    assert last_line(done.stdout) == "setup: ready (dev)"
    for packages in PACKAGES[:-1]:
        assert f"setup: installing {packages}\n" in done.stdout
    again = system.setup()
    assert (again.returncode, again.stderr) == (0, "")
    assert "ready" not in again.stdout


def test_a_systemctl_without_systemd_is_left_alone(system: System) -> None:
    system.program("systemctl", "echo 'System has not been booted with systemd as init system (PID 1).' >&2; exit 1")
    done = system.setup()
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nsystemctl " not in system.calls()


def test_the_pooler_that_debian_starts_is_stopped_by_systemd(system: System) -> None:
    (system.root / "run/systemd/system").mkdir(parents=True)
    system.program("systemctl")
    assert system.setup().returncode == 0
    assert "systemctl disable -q --now pgbouncer\n" in system.calls()


def test_the_pooler_that_debian_starts_is_stopped_without_systemd(system: System) -> None:
    system.file("etc/init.d/pgbouncer", f'#!/bin/sh\necho "init $*" >>"{system.folder}/calls"\n')
    assert system.setup().returncode == 0
    assert "init stop\nupdate-rc.d pgbouncer disable\n" in system.calls()


def test_a_service_that_cannot_be_stopped_is_reported_and_not_the_end(system: System) -> None:
    (system.root / "run/systemd/system").mkdir(parents=True)
    system.program("systemctl", "echo 'Failed to connect to bus' >&2; exit 1")
    done = system.setup()
    assert done.returncode == 0
    assert "Failed to connect to bus" in done.stderr
    assert "setup: Debian's service pgbouncer may be running" in done.stderr


def no_root(system: System) -> None:
    system.program("id", "echo 1000")


def no_apt(system: System) -> None:
    system.without("apt-get")


def no_network(system: System) -> None:
    system.program("apt-get", "echo 'Temporary failure resolving the mirror' >&2; exit 100")


@pytest.mark.parametrize(
    ("lack", "reason"),
    [
        (no_root, "only root can install {}"),
        (no_apt, "no apt-get here to install {}"),
        (no_network, "apt-get could not install {}"),
    ],
)
def test_what_cannot_be_installed_is_named_with_the_reason(
    system: System, lack: Callable[[System], None], reason: str
) -> None:
    lack(system)
    system.without("npm")
    done = system.setup()
    assert done.returncode == 0
    assert last_line(done.stdout) == "setup: ready (dev)"
    lines = [line for line in done.stderr.splitlines() if line.startswith("setup: no ")]
    assert len(lines) == len(PACKAGES)
    for line, packages in zip(lines, PACKAGES, strict=True):
        assert reason.format(packages) in line
        assert line.endswith("will be skipped")
    assert ("Temporary failure resolving" in done.stderr) == (lack is no_network)


def test_servers_for_tests_that_cannot_be_installed_are_named(system: System) -> None:
    system.program("npm", "echo 'npm ERR! network' >&2; exit 1")
    system.program("python3.11", f'{PYTHON}\ncase "$*" in *s3-server*) echo "no route" >&2; exit 2 ;; esac')
    done = system.setup()
    assert done.returncode == 0
    assert "npm ERR! network" in done.stderr
    assert "no route" in done.stderr
    assert "setup: no Azurite (npm could not install it" in done.stderr
    assert "setup: no S3 server (requirements/s3-server.txt cannot be installed" in done.stderr


@pytest.mark.parametrize(
    ("lack", "reason"), [(no_root, "only root can install"), (no_apt, "no apt-get here to install")]
)
def test_a_missing_python_is_one_line_with_the_remedy(
    system: System, lack: Callable[[System], None], reason: str
) -> None:
    lack(system)
    system.without("python3.11")
    done = system.setup("geo")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"setup: FAILED (exit 1) looking for Python: {reason} python3 python3-venv; "
        "install Python 3.11 or newer with venv (Debian: python3 and python3-venv)\n"
    )


@pytest.mark.parametrize(
    ("call", "step"),
    [
        ('"-m venv"*', "making .venv with python3.11: "),
        ("*--require-hashes*", "installing requirements/geo.txt: check the network, the proxy and the certificates"),
        ('*"--no-index -e ."', "installing rmhdag into .venv: "),
    ],
)
def test_a_step_that_fails_is_named_with_the_end_of_what_it_printed(system: System, call: str, step: str) -> None:
    system.program("python3.11", f'case "$*" in {call}) echo "the reason"; exit 7 ;; esac\n{PYTHON}')
    done = system.setup("geo")
    assert done.returncode == 7
    assert "    the reason\n" in done.stderr
    assert last_line(done.stderr).startswith(f"setup: FAILED (exit 7) {step}")
    assert not (system.project / ".venv/.rmhdag-setup").exists()


@pytest.mark.parametrize("name", [*REAL, "id", "python3.11", "apt-get", "npm", "update-rc.d"])
def test_no_failure_is_silent(system: System, name: str) -> None:
    """Whatever program fails: setup does without, or its last line names the step."""
    system.file("etc/init.d/pgbouncer", "#!/bin/sh\n")
    system.program(name, "exit 9")
    done = system.setup()
    if done.returncode == 0:
        assert last_line(done.stdout) == "setup: ready (dev)"
    else:
        assert last_line(done.stderr).startswith("setup: FAILED (exit ")


def test_a_folder_that_cannot_be_written_is_named(system: System) -> None:
    (system.project / ".setup.lock").mkdir()
    done = system.setup()
    assert done.returncode != 0
    assert last_line(done.stderr).endswith(f"locking {system.project}: make that folder writable")


def test_the_home_of_the_user_is_found_where_the_variable_is_missing(system: System) -> None:
    system.variables["HOME"] = ""
    system.without("getent")
    system.program("getent", f'echo "somebody:x:0:0::{system.folder}/elsewhere:/bin/sh"')
    assert system.setup().returncode == 0
    assert (system.folder / "elsewhere/.cache/rmhdag").is_dir()


def environment_of(system: System, name: str) -> dict[str, str]:
    """The variables with which a program of the system is called."""
    script = (system.folder / "bin" / name).read_text()
    system.program(name, f'env >"{system.folder}/environment"\n{script}')
    assert system.setup().returncode == 0
    lines = (system.folder / "environment").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.mark.parametrize("name", ["python3.11", "npm"])
def test_certificates_that_only_the_system_knows_are_trusted(system: System, name: str) -> None:
    variables = environment_of(system, name)
    bundle = str(system.root / "etc/ssl/certs/ca-certificates.crt")
    assert variables["UV_SYSTEM_CERTS"] == "1"
    assert variables["SSL_CERT_FILE"] == bundle  # uv
    assert variables["REQUESTS_CA_BUNDLE"] == bundle  # pip
    assert variables["NODE_EXTRA_CA_CERTS"] == bundle  # npm


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_certificates_and_proxies_named_by_the_user_count_for_all(system: System, variable: str) -> None:
    bundle = str(system.file("company.pem", "the certificates of a company"))
    proxies = {"HTTPS_PROXY": "http://127.0.0.1:3128", "no_proxy": "localhost"}
    system.variables |= {variable: bundle, **proxies}
    variables = environment_of(system, "npm")
    assert variables.items() >= {variable: bundle, **proxies}.items()
    assert variables["SSL_CERT_FILE"] == variables["REQUESTS_CA_BUNDLE"] == variables["NODE_EXTRA_CA_CERTS"] == bundle


@pytest.mark.parametrize("named", ["", "/etc/ssl/certs/ca-certificates.crt"])
def test_certificates_are_installed_where_there_are_none(system: System, named: str) -> None:
    bundle = system.root / "etc/ssl/certs/ca-certificates.crt"
    bundle.unlink()
    system.variables["SSL_CERT_FILE"] = f"{system.root}{named}" if named else ""
    system.program("apt-get", f'case "$*" in *ca-certificates*) echo them >"{bundle}" ;; esac')
    assert environment_of(system, "npm")["SSL_CERT_FILE"] == str(bundle)


def test_build_tools_are_installed_together_with_the_requirements(system: System) -> None:
    """A synchronisation without them would remove them each time."""
    assert system.setup("core").returncode == 0
    synchronisations = [line for line in system.calls().splitlines() if "pip sync" in line]
    assert len(synchronisations) == 1
    for name in ("bootstrap", "build", "core"):
        assert os.path.join("requirements", f"{name}.txt") in synchronisations[0].split()

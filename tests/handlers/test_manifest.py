"""Handlers that are known before their libraries are imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from rmhdag.handlers import Registry, load_handlers
from rmhdag.handlers.manifest import FILE, PACKAGES, RESERVED, ManifestEntry, make_manifest, shipped_manifest
from rmhdag.handlers.registry import RegistrationError
from rmhdag.workflow.known_handlers import shipped_handlers


def entry(handler: str, module: str) -> ManifestEntry:
    return {
        "handler": handler,
        "aliases": [handler.replace(".", "_")],
        "queue": None,
        "timeout_seconds": None,
        "light": False,
        "description": "",
        "params_schema": {},
        "output_schema": {},
        "module": module,
    }


def test_the_manifest_is_what_the_handlers_say() -> None:
    assert FILE.read_bytes() == make_manifest(), "run `python -m rmhdag.handlers.manifest`"


def test_every_shipped_handler_may_be_named_by_a_workflow() -> None:
    known = set(shipped_handlers().names())
    assert shipped_manifest()
    for one in shipped_manifest():
        assert {one["handler"], *one["aliases"]} <= known
        assert one["handler"].replace(".", "_") in (one["handler"], *one["aliases"])
        assert one["description"], one["handler"]
        assert one["module"].startswith(PACKAGES)


def test_the_catalogue_lists_what_exists_and_refuses_what_is_reserved() -> None:
    catalogue = shipped_handlers()
    assert [entry.name for entry in catalogue.entries()] == sorted(one["handler"] for one in shipped_manifest())
    registry = load_handlers([])
    assert [name for name in catalogue.names() if registry.find(name) is None] == []
    assert len(RESERVED) == 15
    assert {"h3.inventory", "h3_inventory", "job_health_check"} <= catalogue.reserved
    assert catalogue.reserved.isdisjoint(catalogue.names())


def test_every_model_of_ours_refuses_unknown_parameters() -> None:
    """Except those that return whatever they are given."""
    for one in shipped_manifest():
        schema = one["params_schema"]
        if schema:
            assert schema["additionalProperties"] is (one["handler"] == "flaky_echo"), one["handler"]


def test_loading_imports_no_heavy_library_before_it_is_asked_for() -> None:
    program = (
        "import sys\n"
        "from rmhdag.handlers import load_handlers\n"
        "registry = load_handlers([])\n"
        "assert any(one['handler'] == 'raster.create_cog' for one in registry.manifests())\n"
        "assert not {'rasterio', 'numpy', 'shapely'} & sys.modules.keys()\n"
        "assert registry.find('create_cog').name == 'raster.create_cog'\n"
        "assert 'rasterio' in sys.modules\n"
        "assert len([one for one in registry.manifests() if one['handler'] == 'raster.create_cog']) == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_promised_handler_belongs_to_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    registry.promise(entry("my.promised", "my_promising_handlers"))
    with pytest.raises(RegistrationError, match=r"'my.promised' is declared twice"):
        registry.handler("my.promised")(lambda ctx: None)
    found = registry.find("my_promised")
    assert found is not None
    with pytest.raises(RegistrationError, match="'my_promising_handlers' cannot be loaded"):
        found.function(None)


def test_a_promise_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_kept_handlers.py").write_text(
        "from rmhdag.handlers import handler\n@handler('my.kept', aliases=['my_kept'])\ndef kept(ctx):\n    return {}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry = load_handlers([])
    registry.promise(entry("my.kept", "my_kept_handlers"))
    assert [one["handler"] for one in registry.manifests()].count("my.kept") == 1
    found = registry.find("my_kept")
    assert found is not None
    assert found.function(None) == {}
    assert [one["handler"] for one in registry.manifests()].count("my.kept") == 1
    sys.modules.pop("my_kept_handlers")


def test_promises_can_be_kept_ahead_of_time_while_others_ask() -> None:
    """In a process of its own: what is imported here is imported for all tests."""
    code = (
        "import threading\n"
        "from rmhdag.handlers.manifest import shipped_manifest\n"
        "from rmhdag.handlers.registry import load_handlers\n"
        "registry = load_handlers([])\n"
        "ahead = threading.Thread(target=registry.keep_promises)\n"
        "ahead.start()\n"
        "asked = registry.find('raster.validate')\n"
        "ahead.join()\n"
        "assert asked is not None and asked.params is not None, asked\n"
        "declared = {spec.name for spec in registry}\n"
        "print(sorted(entry['handler'] for entry in shipped_manifest() if entry['handler'] not in declared))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"

"""DDH order forms as orders of ours: what each field becomes, and every problem of a form at once."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.gateway import ddh_names as names
from rmhdag.gateway.ddh import InvalidDdhOrder, OperationNotOffered, translate
from rmhdag.models.assets import Classification
from rmhdag.models.refusals import MEANINGS

ORDER: dict[str, Any] = {
    "dataset_id": "0085581",
    "resource_id": "DR0104298",
    "version_id": "1",
    "container_name": "bronze-rasters",
    "file_name": "uploads/Alps_DEM.tif",
}
VECTOR: dict[str, Any] = ORDER | {"container_name": "bronze-vectors", "file_name": "roads.gpkg"}


def inputs(order: dict[str, Any], **options: Any) -> dict[str, Any]:
    body = translate(order | {"processing_options": options}).body
    return {name: value for name, value in body.input_params.items() if name != "properties"}


def test_a_whole_form() -> None:
    form = ORDER | {
        "operation": "CREATE",
        "client_id": "ddh",
        "previous_version_id": "0",
        "title": "Elevation",
        "description": "Of the Alps.\nTwo lines.",
        "tags": ["dem", "alps"],
        "access_level": "Public",
        "processing_options": {"collection_id": "alps", "expected_data_type": "raster"},
    }
    order = translate(form)
    assert (order.data_type, order.clearance, order.previous_version) == ("raster", Classification.PUBLIC, "0")
    assert order.body.model_dump(exclude_defaults=True) == {
        "request_id": hashlib.sha256(b"0085581|DR0104298|1").hexdigest()[:32],
        "platform_id": "ddh",
        "platform_refs": {"dataset_id": "0085581", "resource_id": "DR0104298", "version_id": "1"},
        "workflow_id": "raster_processing",
        "input_params": {
            "container_name": "bronze-rasters",
            "blob_name": "uploads/Alps_DEM.tif",
            "item_id": "0085581-dr0104298-1",
            "collection_id": "alps",
            "profile": "deflate",
            "properties": {
                "title": "Elevation",
                "description": "Of the Alps.\nTwo lines.",
                "keywords": ["dem", "alps"],
                "ddh:dataset_id": "0085581",
                "ddh:resource_id": "DR0104298",
                "ddh:version_id": "1",
                "ddh:access_level": "public",
            },
        },
    }


@pytest.mark.parametrize(
    ("order", "options", "expected"),
    [
        (
            ORDER,
            {"crs": "EPSG:32632", "raster_type": "dem", "output_tier": "archive"},
            {
                "container_name": "bronze-rasters",
                "blob_name": "uploads/Alps_DEM.tif",
                "item_id": "0085581-dr0104298-1",
                "collection_id": "0085581-dr0104298",
                "profile": "lzw",
                "crs": "EPSG:32632",
                "raster_type": "dem",
                "resampling": "average",
            },
        ),
        (
            VECTOR,
            {"layer_name": "main", "indexes": ["name"], "create_stac": True, "temporal_property": "built"},
            {
                "container_name": "bronze-vectors",
                "blob_name": "roads.gpkg",
                "table_name": "t_0085581_dr0104298_1",
                "layer_name": "main",
                "indexes": ["name"],
                "create_stac": True,
                "temporal_property": "built",
            },
        ),
        (
            VECTOR | {"file_name": "points.csv"},
            {"lat_column": "Y", "lon_column": "X", "table_name": "My Points", "split_column": "kind"},
            {
                "container_name": "bronze-vectors",
                "blob_name": "points.csv",
                "table_name": "my_points",
                "lat_column": "Y",
                "lon_column": "X",
                "split_column": "kind",
            },
        ),
        (
            ORDER | {"file_name": ["a.tif", "b.TIFF"]},
            {"input_crs": "EPSG:4326", "jpeg_quality": 80, "license": "CC-BY-4.0", "strict_mode": True}
            | {"output_tier": "visualization"},
            {
                "container_name": "bronze-rasters",
                "blob_names": ["a.tif", "b.TIFF"],
                "item_id": "0085581-dr0104298-1",
                "collection_id": "0085581-dr0104298",
                "profile": "jpeg",
                "input_crs": "EPSG:4326",
                "jpeg_quality": 80,
                "license": "CC-BY-4.0",
                "strict_mode": True,
            },
        ),
    ],
)
def test_options_become_inputs(order: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert inputs(order, **options) == expected


@pytest.mark.parametrize(
    ("file_name", "workflow"),
    [
        *((f"x{extension}", "raster_processing") for extension in (".tif", ".TIFF", ".geotiff")),
        *((f"x.{name}", "vector_etl") for name in ("geojson", "json", "gpkg", "kml", "kmz", "zip")),
        (["x.tif"], "raster_collection"),
    ],
)
def test_the_extension_decides_the_workflow(file_name: Any, workflow: str) -> None:
    assert translate(ORDER | {"file_name": file_name}).body.workflow_id == workflow


@pytest.mark.parametrize(
    ("level", "clearance"),
    [
        *((word, Classification.PUBLIC) for word in ("public", "PUBLIC", " Public ")),
        *(
            (word, Classification.RESTRICTED)
            for word in ("ouo", "OUO", "Official Use Only", "official_use_only", "OFFICIAL-USE-ONLY")
        ),
    ],
)
def test_words_for_the_access_level(level: str, clearance: Classification) -> None:
    assert translate(ORDER | {"access_level": level}).clearance is clearance


def test_without_an_access_level_it_is_for_official_use() -> None:
    order = translate(ORDER)
    assert order.clearance is Classification.RESTRICTED
    assert order.body.input_params["properties"]["ddh:access_level"] == "ouo"


def test_a_draft_has_no_version() -> None:
    draft = {name: value for name, value in ORDER.items() if name != "version_id"}
    body = translate(draft).body
    assert body.platform_refs == {"dataset_id": "0085581", "resource_id": "DR0104298"}
    assert body.input_params["item_id"] == "0085581-dr0104298-draft"
    assert body.request_id == hashlib.sha256(b"0085581|DR0104298|draft").hexdigest()[:32]


def test_overwriting_replaces_what_is_under_way_and_is_no_repetition() -> None:
    plain = translate(ORDER).body
    overwriting = translate(ORDER | {"processing_options": {"overwrite": True}}).body
    assert (plain.supersede, plain.request_id is not None) == (False, True)
    assert (overwriting.supersede, overwriting.request_id) == (True, None)
    assert overwriting.input_params == plain.input_params


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_other_operations_are_not_offered(operation: str) -> None:
    with pytest.raises(OperationNotOffered) as refused:
        translate({"operation": operation})
    assert MEANINGS[refused.value.kind].status == 501


WRONG: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"dataset_id": "a b"}, {"/dataset_id": "begins with a letter or digit"}),
    ({"dataset_id": 85581}, {"/dataset_id": "string"}),
    ({"resource_id": ""}, {"/resource_id": "begins with a letter or digit"}),
    ({"resource_id": "x" * 256}, {"/resource_id": "255"}),
    ({"version_id": "v" * 51}, {"/version_id": "50"}),
    ({"version_id": " 1"}, {"/version_id": "space"}),
    ({"previous_version_id": "1"}, {"/previous_version_id": "name the version before"}),
    ({"operation": "MERGE"}, {"/operation": "CREATE"}),
    ({"container_name": "Bronze_Rasters"}, {"/container_name": "lower-case"}),
    ({"container_name": "ab"}, {"/container_name": "3"}),
    ({"file_name": "/etc/x.tif"}, {"/file_name": "without a leading /"}),
    ({"file_name": "../x.tif"}, {"/file_name": "`..`"}),
    ({"file_name": []}, {"/file_name": "at least 1"}),
    ({"file_name": [f"{n}.tif" for n in range(21)]}, {"/file_name": "at most 20"}),
    ({"file_name": ["a.tif", "b.gpkg"]}, {"/file_name/1": "no GeoTIFF"}),
    ({"file_name": ["a.tif", "a.tif"]}, {"/file_name": "named twice"}),
    ({"file_name": None}, {"/file_name": "is missing"}),
    ({"file_name": "roads.shp"}, {"/file_name": ".shx, .dbf and .prj into one .zip"}),
    ({"file_name": "x.jp2"}, {"/file_name": "GeoTIFF (.tif) only"}),
    ({"file_name": "x.xlsx"}, {"/file_name": "accepted are .csv"}),
    ({"file_name": None, "source_url": "abfs://c/x.zarr"}, {"/source_url": "Zarr"}),
    ({"access_level": "restricted"}, {"/access_level": "not accepted over this interface"}),
    ({"access_level": "cleared"}, {"/access_level": "is not an access level"}),
    ({"client_id": "other"}, {"/client_id": "'ddh'"}),
    ({"title": "a\x1b[2J"}, {"/title": "invisible character"}),
    ({"colour": "red"}, {"/colour": "there is no such field"}),
    ({"processing_options": []}, {"/processing_options": "is an object"}),
    ({"processing_options": {"table_name": "x"}}, {"/processing_options/table_name": "there is no such field"}),
    ({"processing_options": {"crs": "4326"}}, {"/processing_options/crs": "EPSG:n"}),
    ({"processing_options": {"raster_type": "map"}}, {"/processing_options/raster_type": "'dem'"}),
    ({"processing_options": {"overwrite": "yes"}}, {"/processing_options/overwrite": "boolean"}),
    ({"processing_options": {"expected_data_type": "vector"}}, {"/processing_options/expected_data_type": "a raster"}),
    (VECTOR | {"processing_options": {"crs": "EPSG:4326"}}, {"/processing_options/crs": "there is no such field"}),
    (VECTOR | {"processing_options": {"table_name": "select"}}, {"/processing_options/table_name": "select_data"}),
    (VECTOR | {"processing_options": {"table_name": "123bad"}}, {"/processing_options/table_name": "t_123bad"}),
    (
        VECTOR | {"processing_options": {"layer_name": "a", "layer_names": ["b"]}},
        {"/processing_options/layer_names": "not both"},
    ),
    (VECTOR | {"file_name": "x.csv"}, {"/processing_options": "needs its geometry columns"}),
    (
        VECTOR | {"file_name": "x.csv", "processing_options": {"lat_column": "y"}},
        {"/processing_options": "go together"},
    ),
    (
        {"file_name": ["a.tif"], "processing_options": {"jpeg_quality": 101}},
        {"/processing_options/jpeg_quality": "100"},
    ),
    # Everything at once.
    (
        {"dataset_id": "?", "container_name": "X", "file_name": "a.shp", "access_level": "secret"}
        | {"processing_options": {"overwrite": 1}, "extra": 1},
        {
            "/dataset_id": "begins with",
            "/container_name": "",
            "/access_level": "is not an access level",
            "/extra": "there is no such field",
            "/file_name": "shapefile",
            "/processing_options/overwrite": "boolean",
        },
    ),
]


@pytest.mark.parametrize(("fields", "expected"), WRONG)
def test_all_that_is_wrong_with_a_form_is_told_with_its_place(fields: dict[str, Any], expected: dict[str, str]) -> None:
    with pytest.raises(InvalidDdhOrder) as refused:
        translate(ORDER | fields)
    sentences = {place.pointer: place.detail for place in refused.value.places}
    assert sentences.keys() == expected.keys(), sentences
    for pointer, part in expected.items():
        assert part in sentences[pointer]


@pytest.mark.parametrize("order", [None, [], "x", {}])
def test_what_is_no_form_is_refused(order: Any) -> None:
    with pytest.raises(InvalidDdhOrder):
        translate(order)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20), lambda inner: st.lists(inner))


@given(st.dictionaries(st.sampled_from([*ORDER, "processing_options", "operation", "tags", "access_level"]), JSON))
def test_no_form_is_an_error_of_ours(fields: dict[str, Any]) -> None:
    with suppress(InvalidDdhOrder, OperationNotOffered):
        translate(ORDER | fields)


@pytest.mark.parametrize(
    ("ids", "name"),
    [
        (("0085581", "DR0104298", "1"), "t_0085581_dr0104298_1"),
        (("World-Pop", "2020 v1", None), "world_pop_2020_v1_draft"),
        (("a..b", "c--d", "é1"), "ab_c_d_1"),
    ],
)
def test_names_of_tables(ids: tuple[str, str, str | None], name: str) -> None:
    assert names.table_name(*ids) == name


def test_long_names_are_cut_and_stay_apart() -> None:
    tables = {names.table_name("d" * 100, "r", version) for version in "12"}
    items = {names.item_id("d" * 200, "r", version) for version in "12"}
    assert len(tables) == len(items) == 2
    assert all(len(name) <= 63 and names.table_name_fault(name) is None for name in tables)
    assert all(len(name) <= 128 for name in items)


@given(st.text(min_size=1, max_size=100))
def test_a_slug_is_always_a_name(text: str) -> None:
    slug = names.table_slug(text)
    assert names.TABLE_NAME.fullmatch(slug)
    assert len(slug) <= names.MOST_TABLE_CHARACTERS

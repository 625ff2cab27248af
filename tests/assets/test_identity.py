"""The same references make the same id, and only those."""

import hashlib
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.assets.identity import (
    InvalidPlatform,
    InvalidReferences,
    Platform,
    Platforms,
    asset_id_of,
    canonical,
    check_platform,
    compose,
    identity_change,
    read_platforms,
)

PLAIN = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1, max_size=20)
REFS = st.dictionaries(PLAIN, PLAIN, max_size=5)
DDH = {"dataset_id": "0038272", "resource_id": "r"}


def test_an_id_as_the_contract_writes_it() -> None:
    """Computed by hand here: whoever else computes ids must arrive at the same."""
    text = 'ddh|{"dataset_id":"0038272","resource_id":"r"}'
    assert asset_id_of("ddh", DDH) == hashlib.sha256(text.encode()).hexdigest()[:32]


@given(REFS, st.randoms(use_true_random=False))
def test_neither_order_nor_unicode_form_matters(refs: dict[str, str], chance: Any) -> None:
    names = list(refs)
    chance.shuffle(names)
    shuffled = {unicodedata.normalize("NFD", name): unicodedata.normalize("NFD", refs[name]) for name in names}
    if len({compose(name) for name in refs}) == len(refs):
        assert canonical(shuffled) == canonical(refs)
        assert asset_id_of("ddh", shuffled) == asset_id_of("ddh", refs)


@given(REFS, REFS)
def test_other_references_make_another_text(one: dict[str, str], other: dict[str, str]) -> None:
    def composed(refs: dict[str, str]) -> dict[str, str]:
        return {compose(name): compose(value) for name, value in refs.items()}

    assert (canonical(one) == canonical(other)) == (composed(one) == composed(other))
    assert json.loads(canonical(one)) == composed(one)


def test_the_platform_is_part_of_it() -> None:
    assert asset_id_of("ddh", DDH) != asset_id_of("arcgis", DDH)


@pytest.mark.parametrize("number", [38272, 1.5, True, 0])
def test_numbers_are_refused_with_a_hint(number: Any) -> None:
    with pytest.raises(InvalidReferences) as refused:
        Platforms().check("ddh", {**DDH, "dataset_id": number})
    assert refused.value.problems[0][0] == "/platform_refs/dataset_id"
    assert '"0038272" is not 38272' in str(refused.value)


WRONG: list[tuple[str, dict[str, Any], list[str]]] = [
    ("nobody", DDH, ["/platform_id"]),
    ("ddh", {}, ["/platform_refs", "/platform_refs"]),
    ("ddh", {**DDH, "a/b~": "x"}, ["/platform_refs/a~1b~0"]),
    ("ddh", {**DDH, "version_id": ""}, ["/platform_refs/version_id"]),
    ("ddh", {**DDH, "version_id": "x" * 513}, ["/platform_refs/version_id"]),
    ("ddh", {**DDH, "version_id": "a\nb"}, ["/platform_refs/version_id"]),
    ("ddh", {**DDH, "version_id": " a"}, ["/platform_refs/version_id"]),
    ("ddh", {**DDH, "version_id": None}, ["/platform_refs/version_id"]),
    (
        "ddh",
        {"dataset_id": ["a"], "other": "x"},
        ["/platform_refs", "/platform_refs/other", "/platform_refs/dataset_id"],
    ),
]


@pytest.mark.parametrize(("platform_id", "refs", "places"), WRONG)
def test_all_that_is_wrong_is_told_with_its_place(platform_id: str, refs: dict[str, Any], places: list[str]) -> None:
    with pytest.raises(InvalidReferences) as refused:
        Platforms().check(platform_id, refs)
    assert [place for place, _ in refused.value.problems] == places


def test_references_are_kept_composed() -> None:
    references = Platforms().check("arcgis", {"item_id": "e\u0301", "layer_idx": "0"})
    assert references.refs == references.identity == {"item_id": "é", "layer_idx": "0"}


def test_other_platforms_come_by_registration() -> None:
    found = read_platforms(" geonode = dataset, layer? ; ckan=package, release:version;")
    assert found == (
        Platform("geonode", ("dataset",), ("layer",)),
        Platform("ckan", ("package",), version_ref="release"),
    )
    assert Platforms(found).names == ["arcgis", "ckan", "ddh", "geonode"]
    assert Platforms(found).check("geonode", {"dataset": "d"}).refs == {"dataset": "d"}


def test_the_version_label_is_no_part_of_the_identity() -> None:
    references = Platforms().check("ddh", {**DDH, "version_id": "3"})
    assert (references.version_label, references.identity) == ("3", DDH)
    assert references.asset_id == Platforms().check("ddh", DDH).asset_id == asset_id_of("ddh", DDH)
    assert references.id_with_version == asset_id_of("ddh", {**DDH, "version_id": "3"})
    assert Platforms().check("ddh", DDH).id_with_version is None


def test_an_inactive_platform_takes_no_orders() -> None:
    with pytest.raises(InvalidReferences, match="'ddh' is inactive and takes no orders"):
        Platforms([Platform("ddh", ("dataset_id",), active=False)]).check("ddh", {"dataset_id": "d"})


A = Platform("p", ("a", "b"), ("c",), "v")
CHANGES: list[tuple[Platform, str | None]] = [
    (Platform("p", ("b", "a"), ("c", "d"), "v"), None),
    (Platform("p", ("a", "b"), (), "c"), None),
    (Platform("p", ("a", "b"), ("c",)), None),
    (Platform("p", ("a",), ("c",), "v"), "its identity references are a, b"),
    (Platform("p", ("a", "b"), (), "v"), "assets may have the optional reference 'c'"),
    (Platform("p", ("a", "b"), ("c", "v")), "'v' names versions and identifies no asset"),
]


@pytest.mark.parametrize(("after", "reason"), CHANGES)
def test_which_change_of_a_platform_loses_assets(after: Platform, reason: str | None) -> None:
    assert identity_change(A, after) == reason


@pytest.mark.parametrize(
    ("platform", "places"),
    [
        (Platform("P", ("a",)), ["/platform_id"]),
        (Platform("p", ()), ["/identity_refs"]),
        (Platform("p", ("a", "B"), ("c d",), "é"), ["/identity_refs/1", "/optional_refs/0", "/version_ref"]),
        (Platform("p", ("a",), ("a",)), ["/identity_refs"]),
        (Platform("p", tuple(f"r{n}" for n in range(21))), ["/identity_refs"]),
    ],
)
def test_a_platform_that_contradicts_itself_is_refused(platform: Platform, places: list[str]) -> None:
    with pytest.raises(InvalidPlatform) as refused:
        check_platform(platform)
    assert [place.pointer for place in refused.value.places] == places


@pytest.mark.parametrize(
    "text",
    [
        "geonode",
        "geonode=",
        "=a",
        "Geo=a",
        "geo=a,a",
        "geo=a?",
        "geo=a,b:version,c:version",
        "geo=a:version",
        "ddh=x",
        "a=b;a=c",
        "a=b c",
    ],
)
def test_a_registration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="platform"):
        read_platforms(text)

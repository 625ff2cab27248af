"""When an asset gets its next revision: every rule, and a model of many orders in any order."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.assets.revisions import (
    AssetConflict,
    AssetState,
    Join,
    NextRevision,
    check_free,
    check_rollback,
    content_hash_of,
    decide_submission,
    params_digest_of,
    rollback_source,
)
from rmhdag.models.assets import OPEN_STATUSES, AssetKind, ProcessingStatus

RASTER = AssetKind.RASTER
STATES = st.builds(
    AssetState,
    asset_id=st.just("a" * 32),
    kind=st.just(RASTER),
    is_deleted=st.booleans(),
    latest_revision=st.integers(1, 50),
    status=st.sampled_from(ProcessingStatus),
    params_digest=st.sampled_from(["one", "two"]),
    job_id=st.just("job"),
    request_id=st.none() | st.just("request"),
    is_ending=st.booleans(),
)


@given(STATES, st.sampled_from(["one", "two"]), st.booleans())
def test_one_of_four_things_happens(asset: AssetState, digest: str, supersede: bool) -> None:
    under_way = asset.status in OPEN_STATUSES and not asset.is_ending
    same = digest == asset.params_digest
    if under_way and not same and not supersede:
        with pytest.raises(AssetConflict, match=asset.request_id or "job job"):
            decide_submission(asset, RASTER, digest, supersede=supersede)
        return
    step = decide_submission(asset, RASTER, digest, supersede=supersede)
    if not under_way:
        assert step == NextRevision(asset.latest_revision + 1)
    elif same:
        assert step == Join(asset.latest_revision, "job")
    else:
        assert step == NextRevision(asset.latest_revision + 1, "job")


@given(STATES)
def test_an_asset_never_becomes_something_else(asset: AssetState) -> None:
    with pytest.raises(AssetConflict, match="is a raster, and this workflow makes a vector"):
        decide_submission(asset, AssetKind.VECTOR, "one", supersede=True)


@given(STATES, st.none() | st.sampled_from(ProcessingStatus), st.integers(1, 5))
def test_only_a_completed_revision_of_an_idle_asset_is_gone_back_to(
    asset: AssetState, status: ProcessingStatus | None, revision: int
) -> None:
    """The current one is 4, which has the content of 2."""
    free = not asset.is_deleted and not asset.is_busy
    if free and status is ProcessingStatus.COMPLETED and revision not in (2, 4):
        assert check_rollback(asset, revision, status, 4, "rollback of 2") == asset.latest_revision + 1
    else:
        with pytest.raises(AssetConflict):
            check_rollback(asset, revision, status, 4, "rollback of 2")


@given(STATES)
def test_what_is_deleted_or_busy_is_not_free(asset: AssetState) -> None:
    if asset.is_deleted or asset.is_busy:
        with pytest.raises(AssetConflict) as refused:
            check_free(asset, "no")
        assert refused.value.code == ("asset_deleted" if asset.is_deleted else "asset_processing")
    else:
        check_free(asset, "no")


FILES = st.lists(st.tuples(st.sampled_from(["data", "thumbnail", "metadata"]), st.sampled_from(["a", "b", "c"])))


@given(FILES, st.randoms(use_true_random=False))
def test_content_is_the_data_in_any_order(files: list[tuple[str, str]], chance: object) -> None:
    shuffled = list(files)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert content_hash_of(shuffled) == content_hash_of(files)
    assert content_hash_of([*files, ("thumbnail", "z")]) == content_hash_of(files)
    assert content_hash_of([*files, ("data", "z")]) != content_hash_of(files)


def test_the_content_hash_as_the_contract_writes_it() -> None:
    lines = "data a\ndata b"
    assert content_hash_of([("data", "b"), ("data", "a")]) == hashlib.sha256(lines.encode()).hexdigest()
    assert content_hash_of([("thumbnail", "a")]) is None


def test_what_was_asked_for_is_compared_by_value() -> None:
    assert params_digest_of("w", {"a": 1, "b": [1, 2]}) == params_digest_of("w", {"b": [1, 2], "a": 1})
    assert params_digest_of("w", {"a": 1}) != params_digest_of("v", {"a": 1})
    assert params_digest_of("w", {"a": 1}) != params_digest_of("w", {"a": "1"})


def test_a_rollback_says_of_what() -> None:
    assert rollback_source(3) == "rollback of 3"

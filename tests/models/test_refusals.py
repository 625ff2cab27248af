"""One table says what each kind of refusal is to HTTP and to a shell; the way back loses nothing."""

import pytest

from rmhdag.client.errors import BY_KIND, error_of
from rmhdag.models.api.problems import ProblemBody
from rmhdag.models.refusals import KINDS_OF_CODES, MEANINGS, Kind, Place, Refusal, kind_of


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_meaning_and_an_error_of_the_client(kind: Kind) -> None:
    assert 400 <= MEANINGS[kind].status < 600
    assert BY_KIND[kind].exit_code == MEANINGS[kind].exit_code


@pytest.mark.parametrize("kind", Kind)
def test_the_kind_is_found_again_by_status_and_code(kind: Kind) -> None:
    code = next((code for code, other in KINDS_OF_CODES.items() if other is kind), "some_code")
    assert kind_of(MEANINGS[kind].status, code) is kind


def test_the_client_ends_with_the_exit_code_of_the_refusal() -> None:
    for code, kind in KINDS_OF_CODES.items():
        status = MEANINGS[kind].status
        problem = ProblemBody(type="about:blank", title="?", status=status, code=code, detail="no")
        assert error_of(problem).exit_code == Refusal(kind, code, "no").exit_code


def test_a_pointer_is_a_place_with_the_message() -> None:
    refusal = Refusal(Kind.INVALID, "wrong", "it is wrong", pointer="/a", places=[Place("/b", "so is this")])
    assert refusal.places == [Place("/a", "it is wrong"), Place("/b", "so is this")]
    assert str(refusal) == "it is wrong"

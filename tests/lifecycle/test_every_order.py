"""Decisions, new orders and unpublishing in every order, each twice: what is served, shown and kept always agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rmhdag.assets.reviews import ReviewConflict
from rmhdag.models.records import Records
from rmhdag.services.requests import Ordered
from rmhdag.services.unpublishing import unpublish
from rmhdag.store.unpublishing import Unpublish
from tests.lifecycle.reviewing import STEPS, check_agreement, key_of, reviewed_workflow, served, shown
from tests.orchestrator.assets import place_order
from tests.orchestrator.platform import Platform, Seat
from tests.orchestrator.test_publishing import blob, item, report

ACTIONS = ("order", "approve", "reject", "revoke", "unpublish")
DECIDED = {"approve": "approved", "reject": "rejected", "revoke": "revoked"}
NEEDED = {"approve": "pending_review", "reject": "pending_review", "revoke": "approved"}
# What becomes of a review whose content is unpublished.
CLOSED = {"pending_review": "rejected", "approved": "revoked"}


def every_order_of_three() -> Iterator[str]:
    """A de Bruijn sequence: each three actions follow each other somewhere in it."""
    count = len(ACTIONS)
    word = [0] * count * 3

    def extend(at: int, period: int) -> Iterator[int]:
        if at > 3:
            if 3 % period == 0:
                yield from word[1 : period + 1]
            return
        word[at] = word[at - period]
        yield from extend(at + 1, period)
        for letter in range(word[at - period] + 1, count):
            word[at] = letter
            yield from extend(at + 1, at)

    letters = list(extend(1, 1))
    assert len(letters) == count**3
    yield from (ACTIONS[letter] for letter in [*letters, *letters[:2]])


def content(number: int) -> Records:
    return blob(f"{number}.tif", sha=f"{number:064x}"), item("both", n=number), item(f"of-{number}", n=number)


def make(platform: Platform, seat: Seat, number: int) -> Ordered:
    ordered = place_order(platform.conn, input_params={"n": number})
    seat.work()
    [claimed] = platform.claim()
    report(platform, claimed, content(number))
    seat.work()
    return ordered


class Expected:
    """What each revision should be, by the rules of docs/reviewers.md."""

    def __init__(self) -> None:
        self.reviews: dict[int, str] = {}
        self.unpublished: set[int] = set()

    @property
    def newest(self) -> int:
        return max(self.reviews)

    @property
    def served(self) -> int | None:
        return max((number for number, review in self.reviews.items() if review == "approved"), default=None)

    def order(self) -> None:
        for number, review in self.reviews.items():
            if review == "pending_review":
                self.reviews[number] = "superseded"
        self.reviews[len(self.reviews) + 1] = "pending_review"

    def decide(self, action: str) -> bool:
        """Whether it is legal."""
        if self.reviews[self.newest] != NEEDED[action]:
            return False
        self.reviews[self.newest] = DECIDED[action]
        return True

    def unpublish(self) -> bool:
        """Whether there is something left to do."""
        number = self.newest
        is_first = number not in self.unpublished
        self.unpublished.add(number)
        self.reviews[number] = CLOSED.get(self.reviews[number], self.reviews[number])
        return is_first


def check(platform: Platform, expected: Expected) -> None:
    check_agreement(platform.conn)
    query = "SELECT revision, review_state::text, unpublished_at IS NOT NULL FROM dag_asset_revisions ORDER BY revision"
    rows = platform.conn.execute(query).fetchall()
    assert rows == [(number, review, number in expected.unpublished) for number, review in expected.reviews.items()]
    number = expected.served
    assert served(platform.conn) == number
    items = [] if number is None else [("both", number, number), (f"of-{number}", number, number)]
    assert shown(platform.conn) == items


def test_every_order_of_three_steps(platform: Platform) -> None:
    platform.register(reviewed_workflow())
    seat = platform.seat()
    expected = Expected()
    expected.order()
    key = key_of(make(platform, seat, 1))
    check(platform, expected)

    def step(action: str) -> None:
        target = key._replace(revision=expected.newest)
        if action == "unpublish":
            answer = unpublish(platform.conn, Unpublish("default", key.asset_id, target.revision, "ann", True))
            assert (answer.status is not None) == expected.unpublish()
        else:
            assert is_taken(lambda: STEPS[action](platform, target)) == expected.decide(action)

    for action in every_order_of_three():
        if action == "order":
            expected.order()
            make(platform, seat, expected.newest)
        else:
            step(action)
            check(platform, expected)
            step(action)
        check(platform, expected)


def is_taken(decide: Callable[[], object]) -> bool:
    try:
        decide()
    except ReviewConflict:
        return False
    return True

"""What all actors have in common: a life that can end at any pause, and a name that is new in each life."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmhdag.lab.simulation.faults import Fault

if TYPE_CHECKING:
    from rmhdag.lab.simulation.world import World


class Actor(ABC):
    """`live` is a generator of pauses in seconds. Whatever it keeps in `self` must be set anew at its beginning."""

    crash: Fault | None = None
    freeze: Fault | None = None
    freeze_in_danger: Fault | None = None
    letter = "a"

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.store = world.store
        self.faults = world.faults
        self.rng = world.rng
        self.number = number
        self.lives = 0
        self.actor_id = f"{self.letter}{number}.0"
        self.slowness = self.rng.choice((1.0, 1.0, 1.0, 4.0))
        self.listening = False  # a doorbell cuts the pause short
        self.doomed = False  # set by the actor itself: it will not survive this pause
        self.has_plans = False  # the world is not done before this actor is
        self.token = 0  # pauses that were cut short are recognised by an old token

    @abstractmethod
    def live(self) -> Iterator[float]: ...

    def begin_life(self) -> Iterator[float]:
        self.lives += 1
        self.actor_id = f"{self.letter}{self.number}.{self.lives}"
        self.listening = self.doomed = False
        return self.live()

    def moment(self) -> float:
        """A short pause: somebody else may act, and this actor may die or freeze."""
        return self.rng.uniform(0.002, 0.02) * self.slowness

    def danger(self) -> float:
        """The moment between having decided and saying so, at which a freeze hurts most."""
        if self.freeze_in_danger is not None and self.faults.happens(self.freeze_in_danger):
            self.world.note(self.actor_id, "freezes with something in mind")
            return self.rng.uniform(5.0, 40.0)
        return self.moment()

    def wait(self, seconds: float) -> float:
        """A pause until the next poll, unless the doorbell rings."""
        self.listening = True
        return self.rng.uniform(0.8, 1.2) * seconds

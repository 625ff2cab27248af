"""Looks at everything are rare where they are dear, and never too rare."""

import pytest

from rmhdag.messaging.pace import whole_pause_seconds


@pytest.mark.parametrize(("took", "pause"), [(0.0, 1.0), (0.02, 1.0), (0.1, 3.0), (2.0, 5.0)])
def test_a_look_that_takes_long_is_followed_by_a_longer_pause(took: float, pause: float) -> None:
    assert whole_pause_seconds(took) == pytest.approx(pause)


@pytest.mark.parametrize(("took", "pause"), [(0.0, 1.0), (0.3, 1.0), (1.0, 3.0), (9.0, 5.0)])
def test_a_loop_without_other_work_looks_more_often(took: float, pause: float) -> None:
    assert whole_pause_seconds(took, is_idle=True) == pytest.approx(pause)

"""An exception in a hook must not stop the training."""

import pytest

from mlbench_callbacks.hooks import guarded


@guarded
class _Hooks:
    def __init__(self) -> None:
        self.calls = 0

    def fits(self, number: int, *, twice: bool = False) -> int:
        self.calls += 1
        return 2 * number if twice else number

    def fails(self) -> None:
        raise AttributeError("'Trainer' has no such thing")

    def _inner(self) -> None:
        raise KeyError


def test_an_exception_disables_the_hooks_of_its_object_and_is_logged_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken, other = _Hooks(), _Hooks()
    assert broken.fits(2, twice=True) == 4
    for _ in range(3):
        broken.fails()
        broken.fits(1)
    assert (broken.calls, other.fits(3)) == (1, 3)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("mlbench: this training continues, but ")
    assert line.endswith("fails has failed: AttributeError: 'Trainer' has no such thing")

"""Killing code in the midst of what it does, as -9 would."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def killed_at(step: str) -> Iterator[None]:
    """Have the block end where it calls a function, given by its module and name."""

    def kill(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, kill)
        with pytest.raises(KeyboardInterrupt):
            yield

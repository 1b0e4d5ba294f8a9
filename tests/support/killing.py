"""Interrupt code at a chosen call, as SIGKILL would."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def killed_at(step: str) -> Iterator[None]:
    """Interrupt the block at its call of a function, given as ``module.name``."""

    def kill(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, kill)
        with pytest.raises(KeyboardInterrupt):
            yield

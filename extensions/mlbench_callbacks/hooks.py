"""Hooks that libraries call: an error in a hook never stops the training."""

import sys
from collections.abc import Callable
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from inspect import isfunction
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)


def guarded(cls: _Class) -> _Class:
    """Make a class's public methods report an error once, on stderr, and then do nothing.

    An object whose ``mlbench_off`` is set does nothing either. A class in
    ``mlbench_callbacks.NAME`` is one for the library of this name.
    """
    library = cls.__module__.rpartition(".")[2]
    for name, method in list(vars(cls).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _guarded(library, method))
    return cls


def complain(library: str, subject: str, error: Exception) -> None:
    """Report on stderr that the training of a library is no longer recorded."""
    try:
        source = f"{library} {version(library)}"
    except PackageNotFoundError:
        source = library
    print(
        f"mlbench: this training continues, but {source} records nothing more: "
        f"{subject} has failed: {type(error).__name__}: {error}",
        file=sys.stderr,
        flush=True,
    )


def _guarded(library: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if vars(self).get("mlbench_off"):
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.mlbench_off = True
            complain(library, method.__name__, error)
            return None

    return call

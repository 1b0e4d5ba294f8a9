"""A place of a set as an order: the values that it sweeps join what all of the set's runs share."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from mlbench.names import UNASKED_BANDWIDTH
from mlbench.records import Planned
from mlbench.runspec import SWEPT
from mlbench_master.errors import BadFieldError, RefusedError
from mlbench_master.fields import describe
from mlbench_master.runs.requests import RunRequest


def order_of(shared: Mapping[str, Any], place: Planned, name: str) -> RunRequest:
    """Return the order of a place's run, given what all runs of the set are ordered with.

    Raises:
        pydantic.ValidationError, BadFieldError: it is wrong (400).
    """
    fields = {}
    for key in place.swept.keys() & SWEPT:
        field, option = SWEPT[key]
        value = place.swept[key].removesuffix(option.unit)
        fields[field] = None if value == option.swept_out else value
    options = {key: value for key, value in place.swept.items() if key not in SWEPT}
    own = {"name": name, "num_workers": place.num_workers, "seed": place.seed}
    order = RunRequest(**{**shared, **fields, "args": shared.get("args", {}) | options, **own})
    if "max_bandwidth" in fields and order.max_bandwidth == UNASKED_BANDWIDTH:
        raise BadFieldError(
            "max_bandwidth",
            f"{UNASKED_BANDWIDTH} is what clients send where nothing is asked for, so it limits "
            f"nothing: write {UNASKED_BANDWIDTH - 1}, or none",
        )
    return order


def check_keys(shared: Mapping[str, Any], swept: Mapping[str, str]) -> None:
    """Make sure that what is swept is given to no run otherwise.

    Raises:
        BadFieldError: it is (400).
    """
    args = {_option(key) for key in shared.get("args", {})}
    for key in swept:
        field = _field(key)
        if field in shared or _option(key) in args:
            raise BadFieldError(f"swept.{key}", f"{field} is given for all runs: leave one out")
        if key == "seed":
            raise BadFieldError("swept.seed", "each repeat has its own; leave it out")


@contextmanager
def naming(swept: Mapping[str, str]) -> Iterator[None]:
    """Have errors name a swept value as ``swept.KEY``, not as the field that it becomes.

    Raises:
        RefusedError: one was raised.
    """
    try:
        yield
    except (ValidationError, BadFieldError) as error:
        text = describe(error) if isinstance(error, ValidationError) else str(error)
        for key in swept:
            field = re.sub("[-_]", "[-_]", _field(key))
            text = re.sub(rf"(^|; ){field}: ", rf"\1swept.{key}: ", text)
        raise RefusedError(text) from None


def _field(key: str) -> str:
    return SWEPT[key][0] if key in SWEPT else f"args.{key}"


def _option(key: str) -> str:
    """Return an option's own name, which may be given with hyphens."""
    return key.replace("-", "_")

"""Command options for runs, generated from ``mlbench/contract/runspec.py``."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer

from mlbench.contract.runspec import CommonSpec, Option, RunSpec, options_of

# Accepted units by the unit of the option, with their factors.
_UNITS: Mapping[str, Mapping[str, float]] = {
    "": {"": 1},
    "%": {"": 1, "%": 1},
    "Mbit/s": {"": 1, "kbit": 0.001, "Mbit": 1, "Gbit": 1000},
    "ms": {"": 1, "ms": 1, "s": 1000},
    "s": {"": 1, "s": 1, "m": 60, "h": 3600},
    "days": {"d": 1, "w": 7},
    "bytes": {
        f"{prefix}{unit}": 1000**power
        for power, prefix in enumerate(("", "k", "M", "G", "T"))
        for unit in ("", "B")
    },
}
_METAVARS = {
    **{"": "NUMBER", "%": "PERCENT", "Mbit/s": "RATE", "ms": "TIME", "s": "TIME"},
    **{"days": "AGE", "bytes": "SIZE"},
}
PERCENT = Option(unit="%", example="5%", gt=0, lt=100, type=float)
DURATION = Option(unit="s", example="90s, 15m or 2h", gt=0, type=float)
AGE = Option(unit="days", example="90d or 12w", ge=0, le=100_000, type=float)
SIZE = Option(unit="bytes", example="500MB or 20GB", ge=0, type=float)


def read_quantity(text: str | float, option: Option) -> Any:
    """Parse a number with a unit in any case; return it in the unit of the option.

    Examples are ``90s``, ``15m`` and ``2h``, ``5ms``, ``20Mbit`` and ``2Gbit/s``, ``20GB``.

    Raises:
        BadParameter: the text is not a number, or out of the bounds of the option.
    """
    units = {unit.casefold(): factor for unit, factor in _UNITS[option.unit].items()}
    match = re.fullmatch(r"(-?[0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)", str(text).removesuffix("/s"))
    if not match or match[2].casefold() not in units:
        form = f"of the form {option.example}" if option.example else "a number"
        raise typer.BadParameter(f"must be {form} (got {text!r})")
    number = float(match[1]) * units[match[2].casefold()]
    try:
        if option.is_whole and not number.is_integer():
            raise ValueError("must be a whole number")
        option.check(number)
    except ValueError as error:
        unit = f" {option.unit}" if option.unit and option.unit != "%" else option.unit
        example = f", such as {option.example}" if option.example else ""
        raise typer.BadParameter(f"{error}{unit}{example} (got {text})") from None
    return option.kind(number)


def quantity(option: Option, *flags: str, **settings: Any) -> Any:
    """Return the declaration of a command's option whose value is a number with a unit."""
    settings |= {"parser": partial(read_quantity, option=option), "metavar": _METAVARS[option.unit]}
    return typer.Option(*flags, **settings)


def declare(field: str, text: str = "") -> Any:
    """Return the declaration of the command's option for a field of RunSpec, with another help."""
    option = options_of(RunSpec)[field]
    kind = partial(quantity, option) if option.is_number else typer.Option
    return kind(option.flag, help=text or option.sentence_with_example)


Workers = Annotated[int, declare("num_workers")]
Seed = Annotated[int | None, declare("seed")]
Bandwidth = Annotated[float | None, declare("max_bandwidth")]
Latency = Annotated[float | None, declare("latency_ms")]
Loss = Annotated[float | None, declare("loss_percent")]
Cpus = Annotated[float | None, declare("num_cpus")]
Gpu = Annotated[bool, declare("gpu_enabled")]
Backend = Annotated[str | None, declare("backend")]
Light = Annotated[bool, declare("light_target")]
Deadline = Annotated[float | None, declare("deadline_seconds")]
Restarts = Annotated[int, declare("max_restarts")]
Faults = Annotated[str | None, declare("faults")]


def common_of(ctx: typer.Context) -> CommonSpec:
    """Return the options of a command for CommonSpec. Its parameters are named as the flags."""
    options = {name: option for name, option in options_of(CommonSpec).items() if option.flag}
    return CommonSpec(**{name: ctx.params[field.parameter] for name, field in options.items()})

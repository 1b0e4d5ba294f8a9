"""The options of a command that order a run, made of ``mlbench/contract/runspec.py``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, TypeVar

import typer

from mlbench.contract.runspec import Option, options_of

_Command = TypeVar("_Command", bound=Callable[..., None])

# How many of the option's unit are one of those that may be written.
_UNITS: Mapping[str, Mapping[str, float]] = {
    "": {"": 1},
    "%": {"": 1, "%": 1},
    "Mbit/s": {"": 1, "kbit": 0.001, "Mbit": 1, "Gbit": 1000},
    "ms": {"": 1, "ms": 1, "s": 1000},
    "s": {"": 1, "s": 1, "m": 60, "h": 3600},
}
_METAVARS = {"": "NUMBER", "%": "PERCENT", "Mbit/s": "RATE", "ms": "TIME", "s": "TIME"}
FILLED_IN: Any = None
"""The default of the parameter that ``takes`` fills in."""
PERCENT = Option("", unit="%", example="5%", above=0, below=100, kind=float)
DURATION = Option("", unit="s", example="90s, 15m or 2h", above=0, kind=float)


def takes(spec: type, **sentences: str) -> Callable[[_Command], Any]:
    """Give a command an option for each flag of a class of options, which it gets as ``spec``.

    ``sentences`` replace those of the class, by the name of its field.
    """
    usual = {field.name: field.default for field in fields(spec)}
    options = {name: option for name, option in options_of(spec).items() if option.flag}

    def decorate(command: _Command) -> Any:
        @wraps(command)
        def call(**given: Any) -> None:
            chosen = {name: given.pop(option.parameter) for name, option in options.items()}
            command(**given, spec=spec(**chosen))

        own = signature(command).parameters.values()
        added = [_parameter(opt, usual[name], sentences.get(name)) for name, opt in options.items()]
        parameters = [new for old in own for new in (added if old.name == "spec" else [old])]
        call.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return decorate


def _parameter(option: Option, default: Any, sentence: str | None) -> Parameter:
    text = sentence or option.sentence_with_example
    given: Any = typer.Option(option.flag, help=text)
    if option.is_number:
        reader = partial(read_quantity, option=option)
        given = typer.Option(option.flag, help=text, parser=reader, metavar=_METAVARS[option.unit])
    kind = option.kind if option.is_switch else option.kind | None
    return Parameter(
        option.parameter,
        Parameter.POSITIONAL_OR_KEYWORD,
        default=default,
        annotation=Annotated[kind, given],
    )


def read_quantity(text: str | float, option: Option) -> Any:
    """Return the number that a text has for an option, in its unit; raise BadParameter for others.

    ``90s``, ``15m`` and ``2h`` are durations, ``5ms`` a latency, ``20Mbit`` or ``2Gbit/s`` rates.
    """
    units = _UNITS[option.unit]
    match = re.fullmatch(r"(-?[0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)", str(text).removesuffix("/s"))
    if not match or match[2] not in units:
        right = f"of the form {option.example}" if option.example else "a number"
        raise typer.BadParameter(f"must be {right} (got {text!r})")
    number = float(match[1]) * units[match[2]]
    problem = option.problem(number)
    if option.is_whole and not number.is_integer():
        problem = "a whole number"
    if problem:
        unit = f" {option.unit}" if option.unit and option.unit != "%" else option.unit
        example = f", such as {option.example}" if option.example else ""
        raise typer.BadParameter(f"must be {problem}{unit}{example} (got {text})")
    return int(number) if option.is_whole else number

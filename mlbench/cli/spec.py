"""Command options for runs, generated from ``mlbench/contract/runspec.py``."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, TypeVar

import typer

from mlbench.contract.runspec import Option, options_of

_Command = TypeVar("_Command", bound=Callable[..., None])

# Accepted units by the unit of the option, with their factors.
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
    """Add the options of a spec class to a command, which receives the spec as ``spec``.

    ``sentences`` replace help texts of the class, by field name.
    """
    defaults = {field.name: field.default for field in fields(spec)}
    options = {name: option for name, option in options_of(spec).items() if option.flag}
    added = []
    for name, option in options.items():
        settings: dict[str, Any] = {"help": sentences.get(name) or option.sentence_with_example}
        if option.is_number:
            settings["parser"] = partial(read_quantity, option=option)
            settings["metavar"] = _METAVARS[option.unit]
        kind: Any = option.kind if option.is_switch else option.kind | None
        declaration = typer.Option(option.flag, **settings)
        added.append(
            Parameter(
                option.parameter,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=defaults[name],
                annotation=Annotated[kind, declaration],
            )
        )

    def decorate(command: _Command) -> Any:
        @wraps(command)
        def call(**arguments: Any) -> None:
            values = {name: arguments.pop(option.parameter) for name, option in options.items()}
            command(**arguments, spec=spec(**values))

        own = signature(command).parameters.values()
        parameters = [new for old in own for new in (added if old.name == "spec" else [old])]
        call.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return decorate


def read_quantity(text: str | float, option: Option) -> Any:
    """Parse a number with an optional unit; return it in the unit of the option.

    Examples are ``90s``, ``15m`` and ``2h``, ``5ms``, ``20Mbit`` and ``2Gbit/s``.

    Raises:
        BadParameter: the text is not a number, or out of the bounds of the option.
    """
    units = _UNITS[option.unit]
    match = re.fullmatch(r"(-?[0-9]+(?:\.[0-9]+)?)([A-Za-z%]*)", str(text).removesuffix("/s"))
    if not match or match[2] not in units:
        form = f"of the form {option.example}" if option.example else "a number"
        raise typer.BadParameter(f"must be {form} (got {text!r})")
    number = float(match[1]) * units[match[2]]
    problem = option.problem(number)
    if option.is_whole and not number.is_integer():
        problem = "a whole number"
    if problem:
        unit = f" {option.unit}" if option.unit and option.unit != "%" else option.unit
        example = f", such as {option.example}" if option.example else ""
        raise typer.BadParameter(f"must be {problem}{unit}{example} (got {text})")
    return int(number) if option.is_whole else number

"""Options of benchmarks: dataclasses that are parsed and validated by the master and the task.

Each field has a default and a type: bool, int, float, str, or a ``Literal`` of texts or numbers.
Its docstring is the help, and a ``Field`` in its annotation has the bounds. The closed division
allows only the default, unless the annotation has ``FREE`` or ``ruled``. A subclass that only
changes the default inherits help and bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from mlbench.contract.conversion import InvalidFieldsError, convert
from mlbench.contract.fields import Field, describe
from mlbench.contract.reported_settings import Setting, is_setting


@dataclass(frozen=True)
class Ruled:
    """The rule of the closed division for an option."""

    others: tuple[Setting, ...] | None
    """Further values that the closed division allows; None if any value is allowed."""


FREE = Ruled(None)
"""Any value is allowed in the closed division: hardware, systems, or how much is measured."""


def ruled(*others: Setting) -> Ruled:
    """Return the rule that the closed division allows the default and these values."""
    return Ruled(others)


def permitted(option: Field) -> tuple[Setting, ...] | None:
    """Return the values that the closed division allows, default first; None if any value is."""
    rules = [step.others for step in option.type.__metadata__ if isinstance(step, Ruled)] or [()]
    return None if rules[-1] is None else (option.default, *rules[-1])


class OptionError(ValueError):
    """An option is unknown, or its value is not allowed."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option} {problem}")
        self.option = option
        self.problem = problem


@dataclass(frozen=True)
class Options:
    """The base class of all options. Creating one raises an OptionError for a broken rule."""

    def _rules(self) -> dict[str, bool]:
        """Return each rule on several options, with whether it holds. Subclasses add rules.

        The first word of a rule is the option at fault.
        """
        return {}

    @classmethod
    def implied(cls, requested: Mapping[str, Any]) -> dict[str, Any]:
        """Return the defaults that follow from other options, in place of the class's defaults."""
        return {}

    def __post_init__(self) -> None:
        for name, option in describe(type(self)).items():
            try:
                option.check(getattr(self, name))
            except ValueError as error:
                raise OptionError(name, str(error)) from None
        for rule, holds in self._rules().items():
            if not holds:
                name, _, problem = rule.partition(" ")
                raise OptionError(name, problem)


C = TypeVar("C", bound=Options)


def read(config: type[C], texts: Mapping[str, str]) -> C:
    """Return options with these values; a name may have hyphens for underscores.

    Raises:
        OptionError: there is no such option, a text does not spell a value, or a rule is broken.
    """
    options = describe(config)
    values = {}
    for written_name, text in texts.items():
        name = written_name.replace("-", "_")
        if name not in options:
            close = get_close_matches(name, options, n=1)
            # Such as learning_rate for lr or rate.
            similar = close or [
                option
                for option in options
                if name == "".join(word[0] for word in option.split("_"))
                or (len(name) > 2 and (name in option or option in name))
            ]
            hint = f"do you mean {similar[0]}?" if similar else f"there are {', '.join(options)}"
            raise OptionError(written_name, f"is not an option of this task: {hint}")
        try:
            values[name] = convert(options[name].type, text)
        except InvalidFieldsError as error:
            [(_, problem)] = error.problems
            raise OptionError(name, problem) from None
        if not is_setting(values[name]):  # the run could not report it as a setting
            raise OptionError(name, f"must be below 2^63, or a shorter text (got {text!r:.80})")
    return config(**config.implied(values) | values)

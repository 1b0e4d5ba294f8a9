"""Variables as Grafana fills them in: a query's text becomes what Prometheus is asked."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.grafana.dashboards import Variable
from tests.grafana.references import REFERENCE

# What Grafana aims at when it chooses the step of a range: one point a pixel.
_POINTS = 1000
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_SPECIAL = re.compile(r"[$^*{}\[\]'+?.()|]")


@dataclass(frozen=True)
class TimeRange:
    """What the dashboard shows, in Unix seconds."""

    first: float
    last: float

    @property
    def seconds(self) -> int:
        """Length, in whole seconds."""
        return round(self.last - self.first)

    def step(self, least: float) -> float:
        """Return the seconds between two points of a graph, at least as many as given."""
        return max(least, round(self.seconds / _POINTS, 3))

    def built_in(self, least: float) -> dict[str, str]:
        """Return the values of Grafana's own variables.

        Args:
            least: the query's least step in seconds; without one of its own, that between scrapes.
        """
        step = self.step(least)
        return {
            "__interval": _duration(step),
            "__interval_ms": f"{step * 1000:.0f}",
            "__rate_interval": _duration(max(step + least, 4 * least)),
            "__range": _duration(self.seconds),
            "__range_s": f"{self.seconds}",
            "__range_ms": f"{self.seconds * 1000}",
            "__from": f"{self.first * 1000:.0f}",
            "__to": f"{self.last * 1000:.0f}",
        }


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms"


@dataclass(frozen=True)
class Chosen:
    """What a variable is set to."""

    values: tuple[str, ...]
    is_list: bool = False
    """Whether several may be chosen, so that the query expects a regular expression."""
    all_value: str = ""
    """What stands for all values, where all are chosen and the variable says so."""

    def text(self, style: str) -> str:
        """Return the values in one of Grafana's formats; the empty one is Prometheus's.

        Raises:
            ValueError: a format that is not known here.
        """
        if self.all_value and style in {"", "regex"}:
            return self.all_value
        match style:
            case "" if self.is_list:
                return _either([_escape(value, r"\\") for value in self.values])
            case "":
                return ",".join(
                    one.replace("\\", "\\\\").replace('"', '\\"') for one in self.values
                )
            case "regex":
                return _either([_escape(value, "\\") for value in self.values])
            case "pipe":
                return "|".join(self.values)
            case "csv" | "raw" | "text":
                return ",".join(self.values)
        raise ValueError(f"the format {style} is not known")


def _either(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({'|'.join(values)})"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _escape(value: str, backslash: str) -> str:
    """Return a value as a regular expression; a PromQL string takes two backslashes for one."""
    value = value.replace("\\", backslash * 2)
    return _SPECIAL.sub(lambda found: backslash + found.group(), value)


@dataclass(frozen=True)
class Scope:
    """The values of all variables at some place of a dashboard."""

    chosen: Mapping[str, Chosen] = field(default_factory=dict)
    built_in: Mapping[str, str] = field(default_factory=dict)

    def choose(self, name: str, chosen: Chosen) -> "Scope":
        """Return the scope with one variable set."""
        return replace(self, chosen={**self.chosen, name: chosen})

    def fill(self, text: str) -> str:
        """Return a text with every variable replaced by its value.

        Raises:
            KeyError: there is no variable of that name.
            ValueError: a format that is not known here.
        """
        return REFERENCE.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        name = found["plain"] or found["braced"] or found["old"]
        if name in self.built_in:
            return self.built_in[name]
        return self.chosen[name].text(found["format"] or found["old_format"] or "")


def seconds(duration: str) -> float:
    """Return a duration such as ``30s`` or ``>1m`` in seconds."""
    return sum(int(number) * _UNITS[unit] for number, unit in _DURATION.findall(duration))


def options_in(found: Iterable[str], regex: str) -> list[str]:
    """Return the values that a variable's regex picks out of what its query found, sorted.

    As in Grafana, ``/…/`` may surround it; the group ``value``, else the first group, else all of
    the match is the value.
    """
    if not regex:
        return sorted(set(found))
    pattern = re.compile(re.sub(r"^/(.*)/[gimsuy]*$", r"\1", regex).replace("(?<", "(?P<"))
    matches = [match for text in found for match in pattern.finditer(text)]
    if "value" in pattern.groupindex:
        return sorted({match["value"] for match in matches if match["value"]})
    return sorted({match[min(pattern.groups, 1)] for match in matches})


def variable_argument(query: str) -> str:
    """Return what a variable's query asks of Prometheus, e.g. ``up`` of ``label_values(up, job)``.

    Without a query, as in ``label_values(job)`` and ``metrics(.*)``, it is empty.
    """
    function, _, rest = query.strip().removesuffix(")").partition("(")
    if function == "query_result":
        return rest
    return rest.rpartition(",")[0] if function == "label_values" else ""


def offered_labels(variable: Variable) -> set[str]:
    """Return the labels whose values a variable offers."""
    function, _, rest = variable.query.strip().removesuffix(")").partition("(")
    if function == "label_values":
        return {rest.rpartition(",")[2].strip()}
    return set(re.findall(r"(\w+)=", variable.regex))


def fixed_options(variable: Variable) -> list[str]:
    """Return the values of a variable that asks nobody: a list, an interval, a constant."""
    if variable.type not in {"custom", "interval"}:
        return [variable.query]
    return [part.rpartition(" : ")[2].strip() for part in variable.query.split(",")]


def sample(text: str, variables: Sequence[Variable]) -> str:
    """Return a query with some value for each variable, so that a parser can read it."""
    scope = Scope(built_in=TimeRange(0, 3600).built_in(least=2))
    for variable in variables:
        value = "1" if variable.type == "query" else fixed_options(variable)[0]
        scope = scope.choose(variable.name, Chosen((value,)))
    return scope.fill(text)

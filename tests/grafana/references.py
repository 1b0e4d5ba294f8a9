"""Where a dashboard's texts mention variables and other dashboards."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.grafana.dashboards import Json

# $name, ${name}, ${name.field}, ${name:format} and [[name]], as Grafana reads them.
REFERENCE = re.compile(
    r"\$(?P<plain>[a-zA-Z_]\w*)"
    r"|\$\{(?P<braced>\w+)(?:\.(?P<field>[^:}]+))?(?::(?P<format>[^}]+))?\}"
    r"|\[\[(?P<old>[a-zA-Z_]\w*)(?::(?P<old_format>\w+))?\]\]"
)
# What Grafana itself gives a value.
BUILT_IN = frozenset(
    {
        "__all",
        "__all_variables",
        "__cell",
        "__dashboard",
        "__data",
        "__field",
        "__from",
        "__interval",
        "__interval_ms",
        "__name",
        "__org",
        "__range",
        "__range_ms",
        "__range_s",
        "__rate_interval",
        "__rate_interval_ms",
        "__series",
        "__timezone",
        "__to",
        "__url_time_range",
        "__user",
        "__value",
    }
)
_BOARD_LINK = re.compile(r"(?:^|[/(\"'\s])d/(?P<uid>[^/?\s)\"'#]+)(?P<rest>[^\s)\"']*)")
_PASSED = re.compile(r"[?&]var-(\w+)=|\$\{(\w+):queryparam\}")


@dataclass(frozen=True)
class BoardLink:
    """A link to a dashboard, and the variables that it sets there."""

    uid: str
    variables: tuple[str, ...]


def texts(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text of some JSON, with the keys that lead to it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from texts(inner, (*path, str(number)))


def variables_in(text: str) -> set[str]:
    """Return the names of all variables that a text mentions, Grafana's own included."""
    return {match["plain"] or match["braced"] or match["old"] for match in REFERENCE.finditer(text)}


def variables_of(json: Json) -> set[str]:
    """Return the names of all variables that some JSON mentions or repeats a panel by."""
    found: set[str] = set()
    for path, text in texts(json):
        if path[-1] == "repeat":
            found.add(text)
        else:
            found |= variables_in(text)
    return found


def board_links(json: Json) -> list[BoardLink]:
    """Return the links to dashboards in some JSON, data links included."""
    return [
        BoardLink(match["uid"], tuple(a or b for a, b in _PASSED.findall(match["rest"])))
        for _, text in texts(json)
        for match in _BOARD_LINK.finditer(text)
    ]

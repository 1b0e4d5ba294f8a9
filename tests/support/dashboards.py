"""Dashboard JSON, parsed for the tests."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "grafana" / "dashboards"

# Grafana accepts $name, ${name} and ${name:format}.
REFERENCE = re.compile(r"\$(?:\{(?P<braced>\w+)[^}]*\}|(?P<plain>[a-zA-Z_]\w*))")

Json = dict[str, Any]


@dataclass(frozen=True)
class Dashboard:
    """A dashboard's JSON, with access to its queries."""

    uid: str
    json: Json

    @property
    def panels(self) -> list[Json]:
        """All panels except row headings, including those in collapsed rows."""
        panels = [panel for row in self.json["panels"] for panel in (row, *row.get("panels", ()))]
        return [panel for panel in panels if panel["type"] != "row"]

    @property
    def variables(self) -> list[Json]:
        """The variables, in order."""
        return list(self.json["templating"]["list"])

    @property
    def annotations(self) -> list[Json]:
        """The annotations that query Prometheus."""
        return [query for query in self.json["annotations"]["list"] if "expr" in query]

    @property
    def queries(self) -> list[tuple[str, str]]:
        """All Prometheus queries, each with the place where it is used."""
        return [
            *((panel["title"], t["expr"]) for panel in self.panels for t in panel["targets"]),
            *((f"annotation {note['name']}", note["expr"]) for note in self.annotations),
            *(
                (f"variable {variable['name']}", variable_argument(variable["definition"]))
                for variable in self.variables
                if variable["type"] == "query"
            ),
        ]


def load_all() -> list[Dashboard]:
    """Return every dashboard of the project, sorted by file name."""
    return [Dashboard(path.stem, json.loads(path.read_text())) for path in sorted(FOLDER.glob("*"))]


def load(uid: str) -> Dashboard:
    return Dashboard(uid, json.loads((FOLDER / f"{uid}.json").read_text()))


def variable_argument(query: str) -> str:
    """Return the selector in a variable's query: ``up`` for ``label_values(up, job)``."""
    function, _, rest = query.removesuffix(")").partition("(")
    return rest.rpartition(",")[0] if function == "label_values" else rest


def texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in a JSON value, with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for inner_key, inner in value.items():
            yield from texts(inner, inner_key)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, key)


def variables_in(json: object) -> set[str]:
    """Return the names of all variables that a JSON value mentions or repeats a panel by."""
    referenced = set()
    for key, text in texts(json):
        if key == "repeat":
            referenced.add(text)
        referenced |= {match["braced"] or match["plain"] for match in REFERENCE.finditer(text)}
    return referenced

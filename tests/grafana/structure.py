"""Rules of what hangs together: ids, places, references, links, and the series that are named."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from mlbench import names
from tests.grafana.dashboards import Dashboard, Json, Panel
from tests.grafana.faults import Fault, Rule
from tests.grafana.promql import Selector, selectors
from tests.grafana.references import BUILT_IN, board_links, texts, variables_in, variables_of
from tests.grafana.templating import offered_labels, variable_argument

_WIDTH = 24
_ANNOTATED = (names.RUN_STARTED, names.RUN_FINISHED, names.RUN_GOAL_REACHED)
# Labels whose values differ from run to run, or from machine to machine.
_CHANGING = frozenset({"run_id", "pod", "node", "instance", "namespace", "uuid", "name"})
_OPEN_VALUES = frozenset({"", ".*", ".+"})
_OF_A_MACHINE = re.compile(
    rf"{names.LOCAL_POD_PREFIX}\d|\b\d+\.\d+\.\d+\.\d+\b|\blocalhost\b|mlbench-worker-\d"
)
# As a column's name, aggregated or in a matrix, and as a field in a link.
_NUMBERED_VALUE = re.compile(r"^Value #(.+?)(?: \(\w+\)|\\.*)?$|[\"']Value #([^\"']+)[\"']")
_BY_QUERY = frozenset({"byFrameRefID", "byRefId"})
_OUR_SERIES = re.compile(r"(mlbench|container|machine)_")
_PART_OF_SERIES = re.compile(r"_(total|bucket|sum|count)$")


def uid_is_file_name(board: Dashboard) -> Iterator[Fault]:
    """A dashboard's uid is its file's name, and so no two are the same."""
    if board.uid != board.file_name:
        yield Fault("dashboard", f"the uid is {board.uid!r}")


def unique_panel_ids(board: Dashboard) -> Iterator[Fault]:
    """Every panel has an id of its own, above 0."""
    counts = Counter(panel.id for panel in board.panels)
    for panel in board.panels:
        if not panel.id or counts[panel.id] > 1:
            yield Fault(panel.title, f"the id is {panel.id}")


def unique_ref_ids(board: Dashboard) -> Iterator[Fault]:
    """Every query of a panel has a name of its own."""
    for panel in board.panels:
        ref_ids = [one.ref_id for one in panel.targets]
        if "" in ref_ids or len(set(ref_ids)) < len(ref_ids):
            yield Fault(panel.title, f"the queries are {ref_ids}")


def grid(board: Dashboard) -> Iterator[Fault]:
    """Panels lie side by side, inside the page's 24 columns; those of a row among themselves."""
    for panel in board.panels:
        place = panel.grid
        if place.x < 0 or place.y < 0 or place.w < 1 or place.h < 1 or place.x + place.w > _WIDTH:
            yield Fault(panel.title, f"lies at {place}")
    for one, other in combinations(board.panels, 2):
        if one.row == other.row and one.grid.overlaps(other.grid):
            yield Fault(one.title, f"lies on {other.title!r}")


def datasource_first(board: Dashboard) -> Iterator[Fault]:
    """The data source is chosen first."""
    if [one.name for one in board.variables][:1] != ["datasource"]:
        yield Fault("dashboard", f"the variables are {[one.name for one in board.variables]}")


def unique_variables(board: Dashboard) -> Iterator[Fault]:
    """Every variable has a name of its own, and a label."""
    counts = Counter(one.name for one in board.variables)
    for one in board.variables:
        if counts[one.name] > 1 or not one.label:
            yield Fault(f"variable {one.name}", "is declared twice or has no label")


def variables_refer_backwards(board: Dashboard) -> Iterator[Fault]:
    """A variable depends on those before it alone."""
    known = set(BUILT_IN)
    for one in board.variables:
        if unknown := variables_of(one.json) - known:
            yield Fault(f"variable {one.name}", f"refers to {sorted(unknown)}")
        known.add(one.name)


def references_declared(board: Dashboard) -> Iterator[Fault]:
    """Every variable that is mentioned anywhere is declared."""
    known = BUILT_IN | {one.name for one in board.variables}
    for path, text in texts(board.json):
        mentioned = {text} if path[-1] == "repeat" else variables_in(text)
        if unknown := mentioned - known:
            yield Fault("/".join(path), f"mentions {sorted(unknown)}")


def variables_used(board: Dashboard) -> Iterator[Fault]:
    """Every variable is mentioned somewhere else than in its own declaration."""
    elsewhere = variables_of({key: board.json[key] for key in board.json if key != "templating"})
    for one in board.variables:
        others = (variables_of(other.json) for other in board.variables if other is not one)
        if one.name not in elsewhere.union(*others):
            yield Fault(f"variable {one.name}", "is not used")


def ref_ids_exist(board: Dashboard) -> Iterator[Fault]:
    """What names the values of a query, ``Value #B``, names a query of the panel."""
    for panel in board.panels:
        ref_ids = {one.ref_id for one in panel.targets}
        if unknown := _mentioned_ref_ids(panel) - ref_ids:
            yield Fault(panel.title, f"mentions the queries {sorted(unknown)}")


def _mentioned_ref_ids(panel: Panel) -> set[str]:
    of_the_panel = {key: panel.json[key] for key in panel.json if key not in {"targets", "panels"}}
    numbered = {
        whole or in_link
        for text in _all_texts(of_the_panel)
        for whole, in_link in _NUMBERED_VALUE.findall(text)
    }
    overrides = panel.json.get("fieldConfig", {}).get("overrides", ())
    matchers = [one["matcher"] for one in overrides]
    matchers += [one["filter"] for one in panel.transformations if "filter" in one]
    return numbered | {one["options"] for one in matchers if one["id"] in _BY_QUERY}


def _all_texts(json: Json) -> Iterator[str]:
    """Yield the texts of some JSON, and its keys: a column is renamed by its name as a key."""
    for path, text in texts(json):
        yield from (*path, text)
    for transformation in json.get("transformations", ()):
        for option in transformation.get("options", {}).values():
            if isinstance(option, dict):
                yield from option


def annotations_of_runs(board: Dashboard) -> Iterator[Fault]:
    """A run's start, end and goal are marked on the time axis."""
    asked = {found.name for one in board.annotations for found in selectors(one.expr)}
    if missing := [series for series in _ANNOTATED if series not in asked]:
        yield Fault("dashboard", f"nothing marks {missing}")


def nothing_hard_coded(board: Dashboard) -> Iterator[Fault]:
    """No run, pod or machine is named: the dashboard is for all of them."""
    for path, text in texts(board.json):
        if found := _OF_A_MACHINE.search(text):
            yield Fault("/".join(path), f"names {found.group()!r}")
    for place, selector in _selectors(board):
        for matcher in selector.matchers:
            is_open = matcher.value in _OPEN_VALUES or variables_in(matcher.value)
            if matcher.label in _CHANGING and not is_open:
                yield Fault(place, f"selects {matcher.label}{matcher.operator}{matcher.value!r}")
    for variable in board.variables:
        chosen = set(variable.current) - {"$__all"}
        if variable.type == "query" and chosen and offered_labels(variable) & _CHANGING:
            yield Fault(f"variable {variable.name}", f"is set to {variable.current}")


def links_arrive(boards: Sequence[Dashboard]) -> Rule:
    """Return the rule that links lead to dashboards that exist, and set variables they have."""
    by_uid = {board.uid: board for board in boards}
    tags = {tag for board in boards for tag in board.tags}

    def links(board: Dashboard) -> Iterator[Fault]:
        for link in board_links(board.json):
            target = by_uid.get(link.uid)
            if target is None:
                yield Fault("dashboard", f"a link leads to {link.uid!r}")
                continue
            if unknown := [one for one in link.variables if target.variable(one) is None]:
                yield Fault("dashboard", f"a link sets {unknown} of {link.uid!r}")
        for link in board.json.get("links", ()):
            if link["type"] == "dashboards" and not tags.issuperset(link["tags"]):
                yield Fault("dashboard", f"a link leads to all with the tags {link['tags']}")

    return links


def series_exist(exposed: frozenset[str], recorded: frozenset[str]) -> Rule:
    """Return the rule that every series is one that the code exposes or a rule records.

    Args:
        exposed: names in the code, with or without the suffix that its type adds.
        recorded: names of the recording rules.
    """
    stems = {_stem(one) for one in exposed}

    def series(board: Dashboard) -> Iterator[Fault]:
        for place, selector in _selectors(board):
            if ":" in selector.name:
                exists = selector.name in recorded
            else:
                exists = not _OUR_SERIES.match(selector.name) or _stem(selector.name) in stems
            if not exists:
                yield Fault(place, f"there is no {selector.name}")

    return series


def _stem(series: str) -> str:
    return _PART_OF_SERIES.sub("", series)


def _selectors(board: Dashboard) -> Iterator[tuple[str, Selector]]:
    """Yield all selectors of a dashboard, each with the place where it is asked for."""
    for panel in board.panels:
        for target in panel.targets:
            yield from ((panel.title, one) for one in selectors(target.expr))
    for annotation in board.annotations:
        yield from ((f"annotation {annotation.name}", one) for one in selectors(annotation.expr))
    for variable in board.variables:
        if variable.type == "query":
            argument = variable_argument(variable.query)
            yield from ((f"variable {variable.name}", one) for one in selectors(argument))


RULES: tuple[Callable[[Dashboard], Iterator[Fault]], ...] = (
    uid_is_file_name,
    unique_panel_ids,
    unique_ref_ids,
    grid,
    datasource_first,
    unique_variables,
    variables_refer_backwards,
    references_declared,
    variables_used,
    ref_ids_exist,
    annotations_of_runs,
    nothing_hard_coded,
)

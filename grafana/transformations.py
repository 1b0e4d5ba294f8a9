r"""Transformations, which join and reshape the results of queries before they are drawn.

Versions of Grafana name the first column of a matrix differently (``row\column`` or ``row``), so
both names are given. A ``groupBy`` adds its aggregation to a column's name.
"""

from collections.abc import Iterable, Mapping, Sequence

from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, MatcherConfig

from grafana.thresholds import METRIC_TITLES


def step(kind: str, **options: object) -> DataTransformerConfig:
    """Return one transformation as Grafana stores it."""
    return DataTransformerConfig(id_val=kind, options=options)


def over(x: str, value: str, curve: str) -> list[DataTransformerConfig]:
    """Turn the queries ``value`` and ``x``, in this order and both over time, into curves over x.

    The label ``curve`` assigns rows to curves. The last of several values at one ``x``, such as
    those of a repeated step, counts.
    """
    column, values = f"Value #{x}", f"Value #{value}"
    key: dict[str, object] = {"operation": "groupby", "aggregations": []}
    aggregated = {"operation": "aggregate", "aggregations": ["lastNotNull"]}
    return [
        step("merge"),
        _present(values),
        _present(column),
        step("groupBy", fields={column: key, curve: key, values: aggregated}),
        sorted_by(column),
        organized((), {column: x}),
        *matrix(x, curve, f"{values} (lastNotNull)", x=x),
        _converted(x, "number"),
    ]


def over_clock(
    values: Sequence[str], clocks: Sequence[str], curve: str, x: str
) -> list[DataTransformerConfig]:
    """Turn samples into curves over a clock that was recorded at the same moments.

    ``values`` are the queries of samples and of reference lines. ``clocks``, which follow them, are
    the queries of their positions. The first query of each returns raw samples. A sample without a
    clock is left out. The label ``curve`` of a last query assigns rows to curves.
    """
    # Rows of all queries are merged by their common fields: the time, for raw samples.
    binary = {"left": "Time", "operator": "*", "right": "1", "reducer": "sum"}
    at = step("calculateField", mode="binary", alias="at", binary=binary, replaceFields=False)
    at.filter_val = MatcherConfig(id_val="byRefId", options=f"/^({values[0]}|{clocks[0]})$/")
    return [
        _converted("Time", "number"),
        at,
        organized((), {}, without=("Time", "metric", "__name__")),
        step("merge"),
        # Without samples, nothing was merged.
        step("concatenate", frameNameMode="drop"),
        _either("sample", values),
        _present("sample"),
        _either("seconds", clocks),
        _present("seconds"),
        sorted_by("seconds"),
        *matrix("seconds", curve, "sample", x=x),
        _converted(x, "number"),
    ]


def metrics_titled() -> list[DataTransformerConfig]:
    """Replace the name of a target's metric at the end of a legend by its title."""
    return [
        step("renameByRegex", regex=f"^(.*) {metric}$", renamePattern=f"$1: {title}")
        for metric, title in METRIC_TITLES.items()
    ]


def matrix(row: str, column: str, value: str, *, x: str) -> list[DataTransformerConfig]:
    """Turn rows into a matrix of the columns ``row``, which is renamed to ``x``, and ``column``."""
    fields = {"rowField": row, "columnField": column, "valueField": value}
    return [
        step("groupingToMatrix", **fields, emptyValue="null"),
        organized((), {f"{row}\\{column}": x, row: x}),
    ]


def states(column: str, state: str) -> list[DataTransformerConfig]:
    """Turn rows with times into a strip for each ``column`` that shows the text ``state``."""
    return [*matrix("Time", column, state, x="time"), _converted("time", "time")]


def organized(
    columns: Iterable[str], titles: Mapping[str, str], without: Iterable[str] = ()
) -> DataTransformerConfig:
    """Move columns to the front in this order, rename some, and leave others out."""
    return step(
        "organize",
        excludeByName=dict.fromkeys(without, True),
        indexByName={name: at for at, name in enumerate(columns)},
        renameByName=dict(titles),
    )


def one_row(titles: Mapping[str, str]) -> list[DataTransformerConfig]:
    """Join the results of queries with one row each, in the order of the titles."""
    return [step("merge"), organized(titles, titles)]


def _either(name: str, queries: Sequence[str]) -> DataTransformerConfig:
    """Add a column with the value of the query that has one in the row."""
    reduce = {"reducer": "max", "include": [f"Value #{query}" for query in queries]}
    return step("calculateField", mode="reduceRow", alias=name, reduce=reduce)


def sorted_by(column: str) -> DataTransformerConfig:
    """Sort rows by a column, in ascending order."""
    return step("sortBy", fields={}, sort=[{"field": column, "desc": False}])


def _present(column: str) -> DataTransformerConfig:
    """Keep only rows with a value in the column."""
    present = {"fieldName": column, "config": {"id": "isNotNull", "options": {}}}
    return step("filterByValue", type="include", match="all", filters=[present])


def _converted(column: str, kind: str) -> DataTransformerConfig:
    return step("convertFieldType", conversions=[{"targetField": column, "destinationType": kind}])

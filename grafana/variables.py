"""Variables: choices at the top of a board. Each may depend on the previous ones."""

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.models.dashboard import (
    VariableHide,
    VariableModel,
    VariableOption,
    VariableRefresh,
    VariableSort,
    VariableType,
)

from grafana.queries import DATASOURCE, by, latest, moment, named
from mlbench.local.grafana_api import DATA_SOURCE_NAME, DATA_SOURCE_UID

_ALL: Final = VariableOption(text=["All"], value=["$__all"])


def datasource() -> VariableModel:
    """Choose MLBench's own Prometheus, or the only one. This is the first variable of every board.

    It is hidden, because few users have several; ``var-datasource`` in a URL chooses another.
    """
    return VariableModel(
        type_val=VariableType.DATASOURCE,
        name="datasource",
        label="Data source",
        description="Prometheus data source of all panels.",
        query="prometheus",
        current=VariableOption(text=DATA_SOURCE_NAME, value=DATA_SOURCE_UID),
        hide=VariableHide.HIDE_VARIABLE,
        options=[],
        refresh=VariableRefresh.ON_DASHBOARD_LOAD,
        regex="",
    )


def query(
    name: str,
    label: str,
    expr: str,
    *,
    multi: bool = False,
    hidden: bool = False,
    regex: str = "",
    sort: VariableSort = VariableSort.ALPHABETICAL_ASC,
    description: str = "",
    all_value: str | None = None,
    refresh: VariableRefresh = VariableRefresh.ON_DASHBOARD_LOAD,
) -> VariableModel:
    """Let the user choose a value of a query; with ``multi``, several values or all."""
    return VariableModel(
        type_val=VariableType.QUERY,
        name=name,
        label=label,
        description=description,
        datasource=DATASOURCE,
        query={"query": expr, "refId": name},
        definition=expr,
        regex=regex,
        sort=sort,
        refresh=refresh,
        hide=VariableHide.HIDE_VARIABLE if hidden else VariableHide.DONT_HIDE,
        multi=multi,
        include_all=multi,
        all_value=all_value,
        current=_ALL if multi else None,
        options=[],
    )


def choice(name: str, label: str, values: Sequence[str], description: str) -> VariableModel:
    """Let the user choose one of several values; the first is the default."""
    options = [VariableOption(text=text, value=text, selected=text == values[0]) for text in values]
    return VariableModel(
        type_val=VariableType.CUSTOM,
        name=name,
        label=label,
        description=description,
        query=",".join(values),
        refresh=VariableRefresh.NEVER,
        options=options,
        current=options[0],
    )


_RUN_TEXT: Final = '/run="(?<text>[^"]+)",run_id="(?<value>[^"]+)"/'


def run() -> VariableModel:
    """Let the user choose a run by number and name; the value is the run's id.

    The first run is the default.
    """
    # Sort keys: active runs, then ended ones, then the queue. Timestamps are far less than 1e10.
    order = (
        f"({moment('finished')} or on (run_id) {moment('started')} + 1e10"
        f" or on (run_id) {moment('created')} - 1e10)"
    )
    return query(
        "run_id",
        "Run",
        f"query_result(sort_desc({_named_runs()} * on (run_id) group_left () {order}))",
        regex=_RUN_TEXT,
        sort=VariableSort.DISABLED,
        refresh=VariableRefresh.ON_TIME_RANGE_CHANGED,
        description="Runs in the time range: the active run, ended runs (newest first) and "
        "waiting runs.",
    )


def runs(selector: str, newest: str) -> VariableModel:
    """Let the user choose several of the ``newest`` runs that match the label selector."""
    # Same name as the variable of a single run, so that links pass on the choice.
    return query(
        "run_id",
        "Runs",
        f"query_result(topk({newest},"
        f" {_named_runs(selector)} * on (run_id) group_left () {moment('created')}))",
        multi=True,
        regex=_RUN_TEXT,
        sort=VariableSort.NUMERICAL_DESC,
        refresh=VariableRefresh.ON_TIME_RANGE_CHANGED,
        description="Runs in the time range, newest first.",
    )


def _named_runs(selector: str = "") -> str:
    """Return runs, with their number and name as the label ``run``."""
    return by("run, run_id", named(latest(f"mlbench_run_info{{{selector}}}")))


def benchmark_of_newest_run(description: str) -> VariableModel:
    """Let the user choose benchmarks; the default is the one of the newest run.

    The value of the user's own code is ``^$``, because its runs have no benchmark. So a selector
    must use ``${benchmark:pipe}``, which escapes nothing.
    """
    runs = f"{latest('mlbench_run_info')} * on (run_id) group_left () {moment('created')}"
    newest = f"max by (benchmark, name) (label_replace({runs}, 'name', '$1', 'benchmark', '(.*)'))"
    texts = f"label_replace({newest}, 'name', 'own code', 'benchmark', '')"
    values = f"label_replace({texts}, 'benchmark', '^$', 'benchmark', '')"
    benchmark = query(
        "benchmark",
        "Benchmarks",
        f"query_result(sort_desc({values}))",
        multi=True,
        regex='/benchmark="(?<value>[^"]+)",name="(?<text>[^"]+)"/',
        sort=VariableSort.DISABLED,
        description=description,
    )
    # Without "All", the first benchmark is the default.
    benchmark.include_all = False
    benchmark.current = None
    return benchmark


def benchmarks(description: str) -> VariableModel:
    """Let the user choose benchmarks, which limits the choice of runs."""
    return query(
        "benchmark",
        "Benchmarks",
        "label_values(mlbench_run_info, benchmark)",
        multi=True,
        all_value=".*",
        description=description,
    )


def master() -> VariableModel:
    """Look up the address of the master for browsers; hidden, only for links."""
    return query("master", "Master", "label_values(mlbench_master_info, url)", hidden=True)

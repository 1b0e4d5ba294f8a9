"""Fields by which runs are searched, sorted and grouped, and their SQL expressions."""

import json
import operator
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, reduce
from typing import Any, Literal

from peewee import Case, Cast, Value, fn

from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.fields import describe
from mlbench.contract.masking import mask_command
from mlbench.contract.names import OUTCOMES, RUN_STATES
from mlbench.contract.records import RunField
from mlbench.contract.reported_settings import Setting, is_setting
from mlbench_master import timestamps
from mlbench_master.database.connection import database_kind
from mlbench_master.database.models import Rank, Run, Stream
from mlbench_master.errors import BadFieldError
from mlbench_master.runs.run_query import QueryError, Term

_SQL = Any  # peewee has no types

_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_AGO = {"min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MBIT = {"kbit": 0.001, "mbit": 1, "gbit": 1000}
_BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_PERCENT = {"%": 1}
_SHARE = {"%": 0.01}
_METRIC_HELP = (
    "Metric: best value for the metric of a target, else the last value of the first rank"
)
_EXTREMES = {"last": "Last value", "max": "Largest value", "min": "Smallest value"}
# Numbers that both databases can read without overflow.
_NUMBER = r"^-?[0-9]{1,100}(\.[0-9]{1,100})?([eE][-+]?[0-9]{1,2})?$"
_DAY = re.compile(r"\d{4}-\d\d-\d\d$")
_COMPARE: Mapping[str, Callable[[_SQL, Any], _SQL]] = {
    "=": operator.eq,
    ":": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True)
class QueryField:
    """A field of runs."""

    kind: Literal["number", "text", "moment", "tags", "setting"]
    help: str
    sql: Callable[[], _SQL]
    """Returns the SQL expression of the field, for the database in use."""
    units: Mapping[str, float] = field(default_factory=dict)
    """Units that numbers may have, with their factors."""
    choices: tuple[str, ...] = ()
    is_command: bool = False
    """Whether the field is a command, whose secrets are masked."""

    @property
    def unit(self) -> str:
        """Unit of the field's numbers; empty if they have none."""
        return next((unit for unit, factor in self.units.items() if factor == 1), "")

    @property
    def order(self) -> tuple[_SQL, ...]:
        """SQL expressions to sort by: numbers before strings."""
        sql = self.sql()
        if self.kind == "setting":
            return _number(sql), fn.LOWER(sql)
        return (fn.LOWER(sql),) if self.kind == "text" else (sql,)

    def format_value(self, value: Any) -> Setting:
        """Return a value of the database as the API shows it."""
        match self.kind, value:
            case _, None:
                return None
            case "moment", float():
                return timestamps.seconds_to_text(value)
            case "tags", _:
                return ", ".join(json.loads(value) if isinstance(value, str) else value)
            case "setting", str():
                try:
                    number = json.loads(value)
                except ValueError:
                    return value
                is_number = isinstance(number, int | float) and is_setting(number)
                return number if is_number else value
            case _:
                return mask_command(value) if self.is_command else value


def _at(column: _SQL, *path: str) -> _SQL:
    """Return the value at a path of a JSON column; in PostgreSQL as a string."""
    if database_kind() == "postgresql":
        return fn.json_extract_path_text(column.cast("json"), *path)
    return fn.json_extract(column, _json_path(path)).coerce(False)


def _json_path(path: Iterable[str]) -> str:
    return "".join(("$", *(f'."{part}"' for part in path)))


def _text(column: _SQL, name: str) -> _SQL:
    """Return a value of a JSON column as a string."""
    if database_kind() == "postgresql":
        return _at(column, name)
    kind, value = fn.json_type(column, _json_path([name])), _at(column, name).cast("text")
    # SQLite returns booleans as 0 and 1.
    return Case(None, ((kind.in_(("true", "false")), kind),), value)


def _number(text: _SQL) -> _SQL:
    """Return a string as a number; null if it is not a number."""
    if database_kind() == "postgresql":
        return Case(None, ((text.regexp(_NUMBER), text.cast("float8")),))
    is_number = fn.json_valid(text) & fn.json_type(text).in_(("integer", "real"))
    return Case(None, ((is_number, text.cast("real")),))


def _figure(*path: str) -> Callable[[], _SQL]:
    """Return a number of the result; the values at these paths are numbers or null."""

    def sql() -> _SQL:
        value = _at(Run.figures, *path)
        return value.cast("float8") if database_kind() == "postgresql" else value

    return sql


def _target(*parts: str) -> Callable[[], _SQL]:
    """Return the best value of the target's metric, if its name contains one of these parts."""

    def sql() -> _SQL:
        metric = _text(Run.figures, "metric")
        return _best_if(reduce(operator.or_, [metric.contains(part) for part in parts]))

    return sql


def _best_if(matches: _SQL) -> _SQL:
    """Return the best value of the target's metric if a condition holds; else null."""
    return Case(None, ((matches, _figure("best_value")()),))


def _machine(*path: str) -> Callable[[], _SQL]:
    """Return a fact about the machine of rank 0."""

    def sql() -> _SQL:
        rank_0 = Rank.run == Run.id, Rank.attempt == Run.attempt, Rank.rank == 0
        return Cast(Rank.select(_at(Rank.machine, *path)).where(*rank_0), "text")

    return sql


def _swept() -> _SQL:
    """Return the swept values as a string: ``exchange=flat, cpus=2``."""
    inside = fn.SUBSTR(fn.NULLIF(Run.swept.cast("text"), "{}"), 3)
    pairs = fn.REPLACE(fn.REPLACE(inside, '": "', "="), '", "', ", ")
    return fn.REPLACE(pairs, '"}', "")


def _size() -> _SQL:
    """Return the bytes of a run that stay: archives, logs and output files."""
    is_of_run = Stream.owner == Value("run/").concat(Run.id.cast("text"))
    bytes_ = fn.SUM(Stream.size - Stream.gap_end + Stream.gap_start)
    streams = Stream.select(fn.COALESCE(bytes_, 0).cast("bigint")).where(
        is_of_run, Stream.name.in_(("stdout", "stderr", "files"))
    )
    return (fn.COALESCE(Run.archive_bytes, 0) + streams).coerce(False)


# A setting is the value that the run reported; before its report, the requested value.
_SETTINGS = (Run.settings, Run.args, Run.swept)
_NAME = Case(
    None, ((Run.title != "", Run.title), (Run.display_name != "", Run.display_name)), Run.name
)
_DIVISION = Case(None, ((Run.benchmark == "", "open"),), "closed")
_WORLD_SIZE = fn.COALESCE(Run.stated_world_size, Run.num_workers).coerce(False)

FIELDS: Mapping[str, QueryField] = {
    "id": QueryField("number", "Run id", lambda: Run.id),
    "name": QueryField("text", "Title or name", lambda: _NAME),
    "user": QueryField("text", "User who submitted or recorded the run", lambda: Run.user),
    "state": QueryField("text", "State", lambda: Run.state, choices=RUN_STATES),
    "outcome": QueryField(
        "text",
        "Outcome, once the result is computed",
        lambda: _at(Run.figures, "outcome", "kind").cast("text"),
        choices=tuple(OUTCOMES),
    ),
    "benchmark": QueryField("text", "Benchmark", lambda: Run.benchmark),
    "division": QueryField("text", "Division", lambda: _DIVISION, choices=("closed", "open")),
    "command": QueryField("text", "Custom command", lambda: Run.command, is_command=True),
    "image": QueryField("text", "Custom image", lambda: Run.image),
    "tag": QueryField("tags", "Tag", lambda: Run.tags),
    "launcher": QueryField("text", "Launcher of an external job", lambda: Run.launcher),
    "set": QueryField("text", "Benchmark set", lambda: Run.set_name),
    "swept": QueryField("text", "Swept values", _swept),
    "backend": QueryField("text", "Communication backend", lambda: Run.backend),
    "workers": QueryField("number", "Number of workers", lambda: Run.num_workers),
    "ranks": QueryField("number", "Number of training processes", lambda: _WORLD_SIZE),
    "cores": QueryField("number", "Cores per worker", lambda: Run.num_cpus),
    "bandwidth": QueryField(
        "number", "Bandwidth limit per worker in Mbit/s", lambda: Run.max_bandwidth, _MBIT
    ),
    "latency": QueryField(
        "number", "Added latency in ms", lambda: Run.latency_ms, {"ms": 1, "s": 1000}
    ),
    "packet_loss": QueryField(
        "number", "Packet loss in percent", lambda: Run.loss_percent, _PERCENT
    ),
    "seed": QueryField("number", "Random seed", lambda: Run.seed),
    "attempt": QueryField("number", "Number of attempts", lambda: Run.attempt),
    "machine": QueryField("text", "CPU model of rank 0", _machine("cpu_model")),
    "host": QueryField("text", "Host name of rank 0", _machine("hostname")),
    "commit": QueryField("text", "Git commit of the code", _machine("git", "commit")),
    "code": QueryField("text", "Source file of the command, with a digest", _machine("code")),
    "created": QueryField("moment", "Time of submission", lambda: Run.created_at),
    "finished": QueryField("moment", "Time of the end", lambda: Run.finished_at),
    "duration": QueryField(
        "number", "Seconds from start to end", lambda: Run.finished_at - Run.started_at, _SECONDS
    ),
    "size": QueryField("number", "Bytes of archive, logs and output files", _size, _BYTES),
    "time_to_target": QueryField(
        "number", "Training seconds until the target", lambda: Run.target_train_seconds, _SECONDS
    ),
    "training": QueryField("number", "Training seconds", _figure("training_seconds"), _SECONDS),
    "step_time": QueryField("number", "Mean seconds per step", _figure("step_seconds"), _SECONDS),
    "throughput": QueryField("number", "Samples per second", _figure("samples_per_second")),
    "communication": QueryField(
        "number", "Share of training time, 0 to 1", _figure("communication_share"), _SHARE
    ),
    "goodput": QueryField(
        "number",
        "Goodput: share of worker time that advanced the final model, 0 to 1",
        _figure("goodput_share"),
        _SHARE,
    ),
    "waited": QueryField("number", "CPU contention, 0 to 1", _figure("contention_share"), _SHARE),
    "accuracy": QueryField("number", "Best recorded accuracy", _target("Prec@", "acc"), _PERCENT),
    "perplexity": QueryField("number", "Best perplexity", _target("erplexity")),
    "best": QueryField("number", "Best value of the target's metric", _figure("best_value")),
    "last": QueryField("number", "Last value of the target's metric", _figure("last_value")),
}
"""Fields of all runs. Settings, and metrics of runs that have ended, are further fields."""


def find(name: str, parameter: str) -> QueryField:
    """Return the field that a parameter of a request names.

    Raises:
        BadFieldError: no run has the field (400).
    """
    if name in FIELDS:
        return FIELDS[name]
    if name in _settings_of_tasks() or _occurs(f'"{name}": ', _SETTINGS):
        return QueryField(
            "setting",
            "Setting",
            lambda: fn.COALESCE(*(_text(column, name) for column in _SETTINGS)),
        )
    if _occurs(f'"metric": "{name}"', (Run.figures,)) or _is_metric(name):
        last = _figure("metrics", name, "last")

        def value() -> _SQL:
            # A part of a name is another metric: "loss" is not the target "val_loss".
            best = _best_if(_text(Run.figures, "metric") == name)
            return fn.COALESCE(best, last()).coerce(False)

        return QueryField("number", _METRIC_HELP, value)
    metric, _, statistic = name.rpartition(".")
    if statistic in _EXTREMES and _is_metric(metric):
        return QueryField("number", _EXTREMES[statistic], _figure("metrics", metric, statistic))
    close = get_close_matches(name, [field.name for field in all_fields()], n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Use {', '.join(FIELDS)}, or a setting."
    raise BadFieldError(parameter, f"unknown field {name}. {hint}")


def all_fields() -> list[RunField]:
    """Return the fields for completion, with settings of benchmarks and metrics of recent runs."""
    settings = _settings_of_tasks() - FIELDS.keys()
    runs = Run.select(Run.figures).where(Run.figures.is_null(False)).order_by(Run.id.desc())
    metrics = {name for run in runs.limit(50) for name in (run.figures or {}).get("metrics", ())}
    return [
        *(RunField(name, field.help, field.unit) for name, field in FIELDS.items()),
        *(RunField(name, "Setting") for name in sorted(settings)),
        *(RunField(name, _METRIC_HELP) for name in sorted(metrics - settings - FIELDS.keys())),
    ]


@cache
def _settings_of_tasks() -> set[str]:
    return {name for task in BENCHMARKS.values() for name in describe(task.options)}


def _is_metric(name: str) -> bool:
    return _occurs(f'"{name}": {{"min": ', (Run.figures,))


def _occurs(text: str, columns: Iterable[_SQL]) -> bool:
    anywhere = reduce(operator.or_, [column.cast("text").contains(text) for column in columns])
    return Run.select().where(anywhere).exists()


def condition(term: Term) -> _SQL:
    """Return a term of the parameter ``query`` in SQL.

    Raises:
        BadFieldError: the field is unknown, or does not allow the value or operator (400).
    """
    try:
        return _condition(find(term.field, "query"), term.operator, term.value)
    except QueryError as error:
        raise BadFieldError("query", f"{term}: {error}") from None


def negation(condition: _SQL) -> _SQL:
    """Return the negation of a condition, which is also true for null."""
    return Case(None, ((condition, 0),), 1) == 1


def _condition(field: QueryField, sign: str, value: str) -> _SQL:
    if sign == "!=":
        return negation(_condition(field, "=", value))
    sql = field.sql()
    if not value and sign in "=:":
        return sql.is_null() | (sql.cast("text") == ("[]" if field.kind == "tags" else ""))
    number = _read_number(value, field.units)
    match field.kind:
        case "moment":
            moment, is_equal = _read_moment(value), sign in "=:"
            if is_equal and not value[:4].isdecimal():
                raise QueryError(f"a relative time requires >, >=, < or <= (got {sign!r})")
            on_day = (sql >= moment) & (sql < moment + _SECONDS["d"])
            return on_day if is_equal and _DAY.match(value) else _COMPARE[sign](sql, moment)
        case "number":
            if number is None:
                units = ", ".join(field.units)
                kind = f"a number, with or without a unit ({units})" if units else "a number"
                raise QueryError(f"must be {kind} (got {value!r})")
            return _COMPARE[sign](sql, Value(number, converter=False))
        case "setting" if number is not None:
            return _COMPARE[sign](_number(sql), number)
    return _text_condition(field, sign, value)


def _text_condition(field: QueryField, sign: str, value: str) -> _SQL:
    if sign not in "=:":
        if field.kind == "setting":
            raise QueryError(f"must be a number (got {value})")
        raise QueryError(f"requires one of the operators =, != and : (got {sign!r})")
    sql = field.sql()
    if field.choices:
        if value.lower() not in map(str.lower, field.choices):
            raise QueryError(f"must be one of {', '.join(field.choices)} (got {value!r})")
    elif field.kind == "tags":
        return sql.cast("text").contains(json.dumps(value))
    elif sign == ":":
        return sql.contains(value)
    return fn.LOWER(sql) == value.lower()


def _read_number(text: str, units: Mapping[str, float]) -> float | None:
    """Return a string such as ``5min`` as a number of base units; None if it is not a number."""
    bare = text.rstrip("%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(bare) :].lower()
    try:
        number = float(bare)
    except ValueError:
        return None
    if unit and unit not in units:
        return None
    return number * units.get(unit, 1)


def _read_moment(text: str) -> float:
    ago = _read_number(text, _AGO) if text[-1:].isalpha() else None
    if ago is not None:
        return time.time() - ago
    try:
        return timestamps.parse(text) / 1e6
    except ValueError:
        raise QueryError(
            f"must be a time such as 2018-08-03, 2018-08-03T09:21 or 7d, 7 days ago (got {text!r})"
        ) from None

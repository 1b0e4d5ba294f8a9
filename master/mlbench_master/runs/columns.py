"""The fields of runs by which they are searched, sorted and grouped, and what these are in SQL."""

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

from mlbench.benchmarks.options import describe
from mlbench.benchmarks.registry import BENCHMARKS
from mlbench.contract.masking import mask_command
from mlbench.contract.names import OUTCOMES, RUN_STATES
from mlbench.contract.records import RunField
from mlbench.contract.stated import Setting, is_setting
from mlbench_master import times
from mlbench_master.database.connection import database_kind
from mlbench_master.database.models import Rank, Run
from mlbench_master.errors import BadFieldError
from mlbench_master.runs.query import QueryError, Term

_SQL = Any  # of peewee, which has no types

_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_AGO = {"min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MBIT = {"kbit": 0.001, "mbit": 1, "gbit": 1000}
_PERCENT = {"%": 1}
_SHARE = {"%": 0.01}
_OF_METRIC = "A metric: of a goal's the best value, else the last one of the first rank"
_EXTREMES = {"last": "Its last value", "max": "Its largest value", "min": "Its least value"}
# As many runs name metrics in completions.
_NEWEST = 50
# Both databases read these as numbers, and none overflows.
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
class Field:
    """A field of all runs."""

    kind: Literal["number", "text", "moment", "tags", "setting"]
    help: str
    sql: Callable[[], _SQL]
    """What it is in SQL, for the database in use."""
    units: Mapping[str, float] = field(default_factory=dict)
    """What a number may have after it, and by how much that multiplies it."""
    choices: tuple[str, ...] = ()
    is_command: bool = False
    """Whether it is a command, whose secrets are masked."""

    @property
    def unit(self) -> str:
        """What its numbers are in, as a value spells it; empty where they are bare."""
        return next((unit for unit, factor in self.units.items() if factor == 1), "")

    @property
    def order(self) -> tuple[_SQL, ...]:
        """What it is sorted by: numbers before texts."""
        sql = self.sql()
        if self.kind == "setting":
            return _number(sql), fn.LOWER(sql)
        return (fn.LOWER(sql),) if self.kind == "text" else (sql,)

    def spell(self, value: Any) -> Setting:
        """Return a value of the database as the API shows it."""
        match self.kind, value:
            case _, None:
                return None
            case "moment", float():
                return times.seconds_to_text(value)
            case "tags", str():
                return ", ".join(json.loads(value))
            case "tags", list():
                return ", ".join(value)
            case "setting", str():
                return _read_setting(value)
            case _:
                return mask_command(value) if self.is_command else value


def _at(column: _SQL, *path: str) -> _SQL:
    """Return what a column of JSON has at a path: in PostgreSQL as a text."""
    if database_kind() == "postgresql":
        return fn.json_extract_path_text(column.cast("json"), *path)
    return fn.json_extract(column, _spell_path(path)).coerce(False)


def _spell_path(path: Iterable[str]) -> str:
    return "".join(("$", *(f'."{part}"' for part in path)))


def _text(column: _SQL, name: str) -> _SQL:
    """Return the text of a value in a column of JSON."""
    if database_kind() == "postgresql":
        return _at(column, name)
    kind, value = fn.json_type(column, _spell_path([name])), _at(column, name).cast("text")
    # SQLite has no truth values.
    return Case(None, ((kind.in_(("true", "false")), kind),), value)


def _number(text: _SQL) -> _SQL:
    """Return the number that a text spells; null for another text."""
    if database_kind() == "postgresql":
        return Case(None, ((text.regexp(_NUMBER), text.cast("float8")),))
    is_number = fn.json_valid(text) & fn.json_type(text).in_(("integer", "real"))
    return Case(None, ((is_number, text.cast("real")),))


def _figure(*path: str) -> Callable[[], _SQL]:
    """Return a number of the result, each of which is a number or null."""

    def sql() -> _SQL:
        value = _at(Run.figures, *path)
        return value.cast("float8") if database_kind() == "postgresql" else value

    return sql


def _outcome() -> _SQL:
    """Return the kind of the run's outcome; null until its result is computed."""
    return _at(Run.figures, "outcome", "kind").cast("text")


def _goal(*parts: str) -> Callable[[], _SQL]:
    """Return the best value of a goal's metric whose name has one of these parts."""

    def sql() -> _SQL:
        metric = _text(Run.figures, "metric")
        is_it = reduce(operator.or_, [metric.contains(part) for part in parts])
        return Case(None, ((is_it, _figure("best_value")()),))

    return sql


def _best_or_last(name: str) -> Callable[[], _SQL]:
    last = _figure("metrics", name, "last")
    return lambda: fn.COALESCE(_goal(name)(), last()).coerce(False)


def _machine(*path: str) -> Callable[[], _SQL]:
    """Return what rank 0 has stated of its machine."""

    def sql() -> _SQL:
        of_run = Rank.run == Run.id, Rank.attempt == Run.attempt, Rank.rank == 0
        return Cast(Rank.select(_at(Rank.machine, *path)).where(*of_run), "text")

    return sql


def _swept() -> _SQL:
    """Return the swept values as a text: ``exchange=flat, cpus=2``."""
    inside = fn.SUBSTR(fn.NULLIF(Run.swept.cast("text"), "{}"), 3)
    pairs = fn.REPLACE(fn.REPLACE(inside, '": "', "="), '", "', ", ")
    return fn.REPLACE(pairs, '"}', "")


def _setting(name: str) -> Callable[[], _SQL]:
    """Return what a task stated; before it does, or where it does not, what it was ordered with."""
    return lambda: fn.COALESCE(*(_text(column, name) for column in _SETTINGS))


_SETTINGS = (Run.settings, Run.args, Run.swept)
_NAME = Case(
    None, ((Run.title != "", Run.title), (Run.display_name != "", Run.display_name)), Run.name
)
_DIVISION = Case(None, ((Run.benchmark == "", "open"),), "closed")
_WORLD_SIZE = fn.COALESCE(Run.stated_world_size, Run.num_workers).coerce(False)

FIELDS: Mapping[str, Field] = {
    "id": Field("number", "Its id", lambda: Run.id),
    "name": Field("text", "Its name", lambda: _NAME),
    "state": Field("text", "Its state", lambda: Run.state, choices=RUN_STATES),
    "outcome": Field("text", "What it achieved", _outcome, choices=tuple(OUTCOMES)),
    "benchmark": Field("text", "The official task", lambda: Run.benchmark),
    "division": Field("text", "Its division", lambda: _DIVISION, choices=("closed", "open")),
    "command": Field("text", "The command of its own", lambda: Run.command, is_command=True),
    "image": Field("text", "The image of its own", lambda: Run.image),
    "tag": Field("tags", "A tag of its user", lambda: Run.tags),
    "launcher": Field("text", "Who started its processes", lambda: Run.launcher),
    "set": Field("text", "The set that it is of", lambda: Run.set_name),
    "swept": Field("text", "What it has of what its set sweeps", _swept),
    "backend": Field("text", "What workers communicate with", lambda: Run.backend),
    "workers": Field("number", "Workers", lambda: Run.num_workers),
    "ranks": Field("number", "Processes that train", lambda: _WORLD_SIZE),
    "cores": Field("number", "Cores of each worker", lambda: Run.num_cpus),
    "bandwidth": Field("number", "Mbit/s of a worker", lambda: Run.max_bandwidth, _MBIT),
    "latency": Field("number", "Extra ms", lambda: Run.latency_ms, {"ms": 1, "s": 1000}),
    "packet_loss": Field("number", "Percent", lambda: Run.loss_percent, _PERCENT),
    "seed": Field("number", "Its seed", lambda: Run.seed),
    "attempt": Field("number", "Its attempts", lambda: Run.attempt),
    "machine": Field("text", "The processor of rank 0", _machine("cpu_model")),
    "host": Field("text", "The host of rank 0", _machine("hostname")),
    "commit": Field("text", "The Git commit of its code", _machine("git", "commit")),
    "created": Field("moment", "When it was ordered", lambda: Run.created_at),
    "finished": Field("moment", "When it ended", lambda: Run.finished_at),
    "duration": Field(
        "number", "Seconds from start to end", lambda: Run.finished_at - Run.started_at, _SECONDS
    ),
    "time_to_goal": Field(
        "number", "Training seconds until the goal", lambda: Run.goal_train_seconds, _SECONDS
    ),
    "training": Field("number", "Training seconds", _figure("training_seconds"), _SECONDS),
    "step_time": Field("number", "Mean seconds of a step", _figure("step_seconds"), _SECONDS),
    "throughput": Field("number", "Samples a second", _figure("samples_per_second")),
    "communication": Field("number", "Of training, 0 to 1", _figure("communication_share"), _SHARE),
    "waited": Field("number", "For a core, 0 to 1", _figure("waiting_share"), _SHARE),
    "accuracy": Field("number", "The best, in percent", _goal("Prec@", "acc"), _PERCENT),
    "perplexity": Field("number", "The best", _goal("erplexity")),
    "best": Field("number", "The best value of the goal's metric", _figure("best_value")),
    "last": Field("number", "The last value of the goal's metric", _figure("last_value")),
}
"""Besides them, there are all settings, and the metrics of runs that have ended, by their names."""


def find(name: str, parameter: str) -> Field:
    """Return the field that a parameter of a request names.

    Raises:
        BadFieldError: no run has such a field (400).
    """
    if name in FIELDS:
        return FIELDS[name]
    if name in _settings_of_tasks() or _occurs(f'"{name}": ', _SETTINGS):
        return Field("setting", "A setting", _setting(name))
    if _occurs(f'"metric": "{name}"', (Run.figures,)) or _is_metric(name):
        return Field("number", _OF_METRIC, _best_or_last(name))
    metric, _, which = name.rpartition(".")
    if which in _EXTREMES and _is_metric(metric):
        return Field("number", _EXTREMES[which], _figure("metrics", metric, which))
    close = get_close_matches(name, [field.name for field in all_fields()], n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Use {', '.join(FIELDS)}, or a setting."
    raise BadFieldError(parameter, f"unknown field {name}. {hint}")


def all_fields() -> list[RunField]:
    """Return all fields for completion: settings of tasks, and metrics of the newest runs."""
    settings = _settings_of_tasks() - FIELDS.keys()
    newest = Run.select(Run.figures).where(Run.figures.is_null(False)).order_by(Run.id.desc())
    metrics = {
        name for run in newest.limit(_NEWEST) for name in (run.figures or {}).get("metrics", ())
    }
    return [
        *(RunField(name, field.help, field.unit) for name, field in FIELDS.items()),
        *(RunField(name, "A setting") for name in sorted(settings)),
        *(RunField(name, _OF_METRIC) for name in sorted(metrics - settings - FIELDS.keys())),
    ]


@cache
def _settings_of_tasks() -> set[str]:
    return {option.name for task in BENCHMARKS.values() for option in describe(task.options)}


def _is_metric(name: str) -> bool:
    return _occurs(f'"{name}": {{"min": ', (Run.figures,))


def _occurs(text: str, columns: Iterable[_SQL]) -> bool:
    anywhere = reduce(operator.or_, [column.cast("text").contains(text) for column in columns])
    return Run.select().where(anywhere).exists()


def condition(term: Term) -> _SQL:
    """Return a term of the parameter ``query`` in SQL.

    Raises:
        BadFieldError: there is no such field, or its value or operator cannot be (400).
    """
    try:
        return _condition(find(term.field, "query"), term.operator, term.value)
    except QueryError as error:
        raise BadFieldError("query", f"{term}: {error}") from None


def negation(condition: _SQL) -> _SQL:
    """Return the opposite of a condition, which also holds where there is no value."""
    return Case(None, ((condition, 0),), 1) == 1


def _condition(of: Field, sign: str, value: str) -> _SQL:
    if sign == "!=":
        same = _condition(of, "=", value)
        return negation(same)
    sql = of.sql()
    if not value and sign in "=:":
        return sql.is_null() | (sql.cast("text") == ("[]" if of.kind == "tags" else ""))
    number = _read_number(value, of.units)
    match of.kind:
        case "moment":
            return _moment_condition(sql, sign, value)
        case "number":
            if number is None:
                units = f", with or without a unit ({', '.join(of.units)})" if of.units else ""
                raise QueryError(f"must be a number{units} (got {value!r})")
            return _COMPARE[sign](sql, Value(number, converter=False))
        case "setting" if number is not None:
            return _COMPARE[sign](_number(sql), number)
    return _text_condition(of, sign, value)


def _moment_condition(sql: _SQL, sign: str, value: str) -> _SQL:
    moment = _read_moment(value)
    if sign in "=:" and not value[:4].isdecimal():
        raise QueryError(f"a relative time requires >, >=, < or <= (got {sign!r})")
    if _DAY.match(value) and sign in "=:":
        return (sql >= moment) & (sql < moment + _SECONDS["d"])
    return _COMPARE[sign](sql, moment)


def _text_condition(of: Field, sign: str, value: str) -> _SQL:
    if sign not in "=:":
        if of.kind == "setting":
            raise QueryError(f"must be a number (got {value})")
        raise QueryError(f"requires one of the operators =, != and : (got {sign!r})")
    sql = of.sql()
    if of.choices:
        if value.lower() not in map(str.lower, of.choices):
            raise QueryError(f"must be one of {', '.join(of.choices)} (got {value!r})")
    elif of.kind == "tags":
        return sql.cast("text").contains(json.dumps(value))
    elif sign == ":":
        return sql.contains(value)
    return fn.LOWER(sql) == value.lower()


def _read_number(text: str, units: Mapping[str, float]) -> float | None:
    """Return the number that a text spells, in the base unit; None for another text."""
    bare = text.rstrip("%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(bare) :].lower()
    try:
        number = float(bare)
    except ValueError:
        return None
    if unit and unit not in units:
        return None
    return number * units.get(unit, 1)


def _read_setting(text: str) -> Setting:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) and is_setting(value) else text


def _read_moment(text: str) -> float:
    ago = _read_number(text, _AGO) if text[-1:].isalpha() else None
    if ago is not None:
        return time.time() - ago
    try:
        return times.parse(text) / 1e6
    except ValueError:
        raise QueryError(
            f"must be a time such as 2018-08-03, 2018-08-03T09:21 or 7d, 7 days ago (got {text!r})"
        ) from None

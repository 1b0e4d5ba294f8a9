"""Benchmark sets: register what is to be run, order its runs, describe what became of them."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from pydantic import ValidationError

from mlbench.benchmarks.options import read
from mlbench.contract import records
from mlbench.contract.masking import mask_command
from mlbench.contract.names import UNASKED_BANDWIDTH
from mlbench.contract.records import Planned
from mlbench.contract.runspec import SWEPT
from mlbench.contract.sweeps import SetAnalysis
from mlbench.evaluation import official_rules, sweeps
from mlbench.evaluation.official_rules import Entry, SetAtSealing
from mlbench.evaluation.run_attributes import to_text
from mlbench.evaluation.sweeps import RunFigures
from mlbench_master.database.connection import STATE, exclusive, snapshot
from mlbench_master.database.models import Run, RunSet
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError, RefusedError
from mlbench_master.http.fields import describe as describe_error
from mlbench_master.notify import notify
from mlbench_master.runs import faults, life
from mlbench_master.runs.feasible import check_feasible
from mlbench_master.runs.requests import LONGEST_NAME, NextRunRequest, RunRequest, SetRequest
from mlbench_master.settings import Limits
from mlbench_master.times import seconds_to_text


def register(order: SetRequest, limits: Limits) -> RunSet:
    """Store what is to be run; the same once more changes nothing.

    Raises:
        RefusedError: one of its runs could not be ordered, or not be scored.
        ConflictError: a set of this name is registered otherwise.
    """
    asked = [Planned(**asdict(place)) for place in order.places]
    shared = order.shared()
    plan = []
    for name, place in zip(official_rules.run_names(order.name, asked), asked, strict=True):
        if len(name) > LONGEST_NAME:
            raise BadFieldError(
                "name", f"run names must have at most {LONGEST_NAME} characters (got {name!r})"
            )
        _check_keys(shared, place.swept)
        with _naming(place.swept):
            run = _order_of(shared, place, name)
            check_feasible(run, limits)
            if run.faults and place.seed is None:
                raise BadFieldError(
                    "faults", "schedules are drawn from seeds, which this task does not take"
                )
        if order.official:
            _check_can_be_scored(run)
        drawn = faults.draw(run.faults, place.seed, place.num_workers)
        plan.append(replace(place, faults=drawn))
    wanted = {
        "official": order.official,
        "until_percent": order.until_percent,
        "order": shared,
        "places": [_stored(place) for place in plan],
    }
    with exclusive(STATE):
        existing = RunSet.get_or_none(RunSet.name == order.name)
        if existing is None:
            return RunSet.create(name=order.name, created_at=time.time(), **wanted)
    differing = [name for name, value in wanted.items() if getattr(existing, name) != value]
    if differing:
        raise ConflictError(
            f"name: set {order.name} is already registered with "
            f"{' and '.join(_difference(existing, wanted, name) for name in differing)}. "
            "Choose another name."
        )
    return existing


def _order_of(shared: Mapping[str, Any], place: Planned, name: str) -> RunRequest:
    """Return the order of a place's run, given what all runs of the set are ordered with.

    Raises:
        pydantic.ValidationError, BadFieldError: it is wrong (400).
    """
    fields = {}
    for key in place.swept.keys() & SWEPT:
        field, option = SWEPT[key]
        value = place.swept[key].removesuffix(option.unit)
        fields[field] = None if value == option.swept_out else value
    options = {key: value for key, value in place.swept.items() if key not in SWEPT}
    own = {"name": name, "num_workers": place.num_workers, "seed": place.seed}
    order = RunRequest(**{**shared, **fields, "args": shared.get("args", {}) | options, **own})
    if "max_bandwidth" in fields and order.max_bandwidth == UNASKED_BANDWIDTH:
        raise BadFieldError(
            "max_bandwidth",
            f"{UNASKED_BANDWIDTH} means no limit, because clients send this value by default. "
            f"Use {UNASKED_BANDWIDTH - 1}, or none.",
        )
    return order


def _check_keys(shared: Mapping[str, Any], swept: Mapping[str, str]) -> None:
    """Make sure that what is swept is given to no run otherwise.

    Raises:
        BadFieldError: it is (400).
    """
    args = {_option(key) for key in shared.get("args", {})}
    for key in swept:
        field = _field(key)
        if field in shared or _option(key) in args:
            raise BadFieldError(
                f"swept.{key}", f"{field} is already set for all runs. Leave out one of the two."
            )
        if key == "seed":
            raise BadFieldError("swept.seed", "each repeat has a seed of its own. Leave out seed.")


@contextmanager
def _naming(swept: Mapping[str, str]) -> Iterator[None]:
    """Have errors name a swept value as ``swept.KEY``, not as the field that it becomes.

    Raises:
        RefusedError: one was raised.
    """
    try:
        yield
    except (ValidationError, BadFieldError) as error:
        text = describe_error(error) if isinstance(error, ValidationError) else str(error)
        for key in swept:
            field = re.sub("[-_]", "[-_]", _field(key))
            text = re.sub(rf"(^|; ){field}: ", rf"\1swept.{key}: ", text)
        raise RefusedError(text) from None


def _field(key: str) -> str:
    return SWEPT[key][0] if key in SWEPT else f"args.{key}"


def _option(key: str) -> str:
    """Return an option's own name, which may be given with hyphens."""
    return key.replace("-", "_")


def _check_can_be_scored(order: RunRequest) -> None:
    """Refuse a run that its task's rules keep from being scored, as far as its order tells that."""
    task = order.task
    if task is None:
        return
    if task.goal is None:
        raise BadFieldError("official", f"{task.name} has no goal, so its runs cannot be scored")
    settings = vars(read(task.options, order.all_args))
    for name, right in task.broken_rules(settings).items():
        if name in settings:  # the others are stated by the run alone
            rule = f"must be {' or '.join(map(to_text, right))} in an official set"
            raise BadFieldError(f"args.{name}", f"{rule} (got {to_text(settings[name])})")


def _difference(known: RunSet, wanted: Mapping[str, object], name: str) -> str:
    """Tell how a set was registered: of its order, by the fields that differ."""
    was, now = getattr(known, name), wanted[name]
    if isinstance(was, dict) and isinstance(now, dict):
        fields = [key for key in {**was, **now} if was.get(key) != now.get(key)]
        shown = _shown(was)
        return ", ".join(f"{key}={shown.get(key)}" for key in fields)
    return f"other {name}" if isinstance(was, list) else f"{name}={was}"


def find(name: str) -> RunSet:
    """Return a set.

    Raises:
        NotFoundError: there is none of this name.
    """
    found = RunSet.get_or_none(RunSet.name == name)
    if found is None:
        raise NotFoundError(f"name: set {name[:80]!r} not found")
    return found


def order_run(name: str, wanted: NextRunRequest, limits: Limits) -> Run:
    """Order a run for a place of a set, just as it was registered.

    Raises:
        NotFoundError: there is no such set or place.
        ConflictError: the place wants none, or another run is active.
    """
    with exclusive(STATE):
        run_set = find(name)
        places = _places(run_set)
        if wanted.place > len(places):
            raise NotFoundError(f"place: set {name} has {len(places)} places (got {wanted.place})")
        place = places[wanted.place - 1]
        if not place.is_open:
            raise ConflictError(
                f"place: slot {place.number} of set {name} is taken by "
                f"{', '.join(f'run {trial.run_id}' for trial in place.trials)}"
            )
        planned = Planned(place.num_workers, official_rules.next_seed(place, places), place.swept)
        order = _order_of(run_set.order | {"queue": wanted.queue}, planned, place.name)
        in_set = {"set_name": name, "place": place.number, "swept": place.swept}
        # The registered faults also hit a run with another seed, which follows a crash.
        in_set["injected"] = faults.stored(place.faults)
        ordered = life.create(order, limits, in_set)
    notify()  # once more, as the run is there only now
    return ordered


def _stored(place: Planned) -> dict[str, Any]:
    """Return a place as it is stored: what it does not sweep is left out, and no failures are."""
    may_lack = {"swept", "faults"}
    fields = json.loads(json.dumps(asdict(place)))
    return {name: value for name, value in fields.items() if name not in may_lack or value}


def _shown(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return what runs are ordered with, with the secrets in their command masked."""
    name = "custom_image_command"
    return {**order, **({name: mask_command(order[name])} if order.get(name) else {})}


def analyze(found: RunSet) -> SetAnalysis:
    """Return how the runs of a set did over what it sweeps, and what is left of it."""
    runs = Run.select().where(Run.set_name == found.name)
    return sweeps.analyze(describe(found), {run.id: _figures(run) for run in runs})


def _figures(run: Run) -> RunFigures:
    rate = run.figures.get("samples_per_second") if run.figures else None
    ended = run.finished_at or time.time()
    wall_seconds = None if run.started_at is None else ended - run.started_at
    return RunFigures(run.goal_train_seconds, rate, wall_seconds)


def describe_all() -> list[records.RunSet]:
    """Return all sets, the oldest first."""
    with snapshot():
        return [describe(found) for found in RunSet.select().order_by(RunSet.created_at)]


def describe(run_set: RunSet) -> records.RunSet:
    """Return a set with its ledger."""
    places = _places(run_set)
    return records.RunSet(
        name=run_set.name,
        created_at=seconds_to_text(run_set.created_at),
        official=run_set.official,
        until_percent=run_set.until_percent,
        order=_shown(run_set.order),
        places=places,
        text=official_rules.describe(places),
    )


def at_sealing(run: Run) -> SetAtSealing:
    """Return what the archive of a set's run states of the set: its plan, and the runs before."""
    found = describe(RunSet.get(RunSet.name == run.set_name))
    trials = [trial for place in found.places for trial in place.trials]
    before = tuple(sorted(trial.run_id for trial in trials if trial.run_id < run.id))
    return SetAtSealing(found.created_at, found.plan_sha256, before)


def _places(run_set: RunSet) -> tuple[records.SetPlace, ...]:
    plan = [Planned.from_fields(place) for place in run_set.places]
    deleted = [Entry(**fields) for fields in run_set.deleted]
    entries = [*deleted, *life.entries_of(Run.set_name == run_set.name)]
    return official_rules.places_of(run_set.name, plan, entries, official=run_set.official)

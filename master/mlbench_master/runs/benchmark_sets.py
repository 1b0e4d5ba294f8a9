"""Benchmark sets: register plans, request their runs, describe the results."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from pydantic import ValidationError

from mlbench.benchmarks.options import read
from mlbench.contract import records
from mlbench.contract.limits import MAX_RESOURCE_NAME_LENGTH
from mlbench.contract.masking import mask_command
from mlbench.contract.names import UNASKED_BANDWIDTH
from mlbench.contract.records import Planned
from mlbench.contract.runspec import SWEPT
from mlbench.contract.sweeps import SetAnalysis
from mlbench.evaluation import official_rules, sweeps
from mlbench.evaluation.official_rules import Entry, SetAtSealing
from mlbench.evaluation.run_attributes import to_text
from mlbench.evaluation.sweeps import RunSummaryMetrics
from mlbench_master.database.connection import STATE, exclusive, snapshot
from mlbench_master.database.models import Run, RunSet
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError, RefusedError
from mlbench_master.http.fields import describe as describe_error
from mlbench_master.notify import notify
from mlbench_master.runs import lifecycle, run_faults
from mlbench_master.runs.admission import validate_against_limits
from mlbench_master.runs.requests import NextRunRequest, RunRequest, SetRequest
from mlbench_master.settings import InstallationLimits
from mlbench_master.timestamps import seconds_to_text


def register(order: SetRequest, limits: InstallationLimits) -> RunSet:
    """Store the plan of a benchmark set. Storing the same plan again changes nothing.

    Raises:
        RefusedError: a run of the plan could not be submitted, or not be scored.
        ConflictError: the name is registered with another plan.
    """
    slots = [Planned(**asdict(slot)) for slot in order.slots]
    shared = order.shared()
    plan = []
    for name, slot in zip(official_rules.run_names(order.name, slots), slots, strict=True):
        if len(name) > MAX_RESOURCE_NAME_LENGTH:
            raise BadFieldError(
                "name",
                f"run names must have at most {MAX_RESOURCE_NAME_LENGTH} characters (got {name!r})",
            )
        _check_keys(shared, slot.swept)
        try:
            run = _order_of(shared, slot, name)
            validate_against_limits(run, limits)
            if run.faults and slot.seed is None:
                raise BadFieldError(
                    "faults", "schedules are drawn from seeds, which this task does not take"
                )
        except (ValidationError, BadFieldError) as error:
            # The message names swept values as the request does, not the fields that they set.
            text = describe_error(error) if isinstance(error, ValidationError) else str(error)
            for key in slot.swept:
                field = re.sub("[-_]", "[-_]", _field(key))
                text = re.sub(rf"(^|; ){field}: ", rf"\1swept.{key}: ", text)
            raise RefusedError(text) from None
        if order.official:
            _check_can_be_scored(run)
        schedule = run_faults.draw(run.faults, slot.seed, slot.num_workers)
        plan.append(replace(slot, faults=schedule))
    optional = {"swept", "faults"}
    columns = {
        "official": order.official,
        "until_percent": order.until_percent,
        "order": shared,
        # The column leaves out empty swept values and faults.
        "slots": [
            {name: value for name, value in fields.items() if value or name not in optional}
            for fields in json.loads(json.dumps(list(map(asdict, plan))))
        ],
    }
    with exclusive(STATE):
        existing = RunSet.get_or_none(RunSet.name == order.name)
        if existing is None:
            return RunSet.create(name=order.name, created_at=time.time(), **columns)
    differences = []
    for name, value in columns.items():
        registered = getattr(existing, name)
        if registered == value:
            continue
        if name == "order":
            fields = [key for key in registered | shared if registered.get(key) != shared.get(key)]
            shown = _shown(registered)
            differences.append(", ".join(f"{key}={shown.get(key)}" for key in fields))
        else:
            differences.append("other slots" if name == "slots" else f"{name}={registered}")
    if differences:
        raise ConflictError(
            f"name: set {order.name} is already registered with {' and '.join(differences)}. "
            "Choose another name."
        )
    return existing


def _order_of(shared: Mapping[str, Any], slot: Planned, name: str) -> RunRequest:
    """Return the request for the run of a slot, from the fields that all runs share.

    Raises:
        pydantic.ValidationError, BadFieldError: a field is wrong (400).
    """
    fields = {}
    for key in slot.swept.keys() & SWEPT:
        field, option = SWEPT[key]
        value = slot.swept[key].removesuffix(option.unit)
        fields[field] = None if value == option.swept_out else value
    options = {key: value for key, value in slot.swept.items() if key not in SWEPT}
    order = RunRequest(
        **{**shared, **fields, "args": shared.get("args", {}) | options},
        name=name,
        num_workers=slot.num_workers,
        seed=slot.seed,
    )
    if "max_bandwidth" in fields and order.max_bandwidth == UNASKED_BANDWIDTH:
        raise BadFieldError(
            "max_bandwidth",
            f"{UNASKED_BANDWIDTH} means no limit, because clients send this value by default. "
            f"Use {UNASKED_BANDWIDTH - 1}, or none.",
        )
    return order


def _check_keys(shared: Mapping[str, Any], swept: Mapping[str, str]) -> None:
    """Check that no swept field is also set for all runs.

    Raises:
        BadFieldError: a field is set twice (400).
    """
    args = {_option(key) for key in shared.get("args", {})}
    for key in swept:
        field = _field(key)
        if field in shared or _option(key) in args:
            raise BadFieldError(
                f"swept.{key}", f"{field} is already set for all runs. Leave out one of the two."
            )
        if key == "seed":
            raise BadFieldError(
                "swept.seed", "each repeat has its own seed. Leave out this setting."
            )


def _field(key: str) -> str:
    return SWEPT[key][0] if key in SWEPT else f"args.{key}"


def _option(key: str) -> str:
    """Return the name of an option, with underscores instead of hyphens."""
    return key.replace("-", "_")


def _check_can_be_scored(order: RunRequest) -> None:
    """Refuse a run that breaks the rules of its benchmark, as far as its request shows."""
    task = order.task
    if task is None:
        return
    if task.target is None:
        raise BadFieldError("official", f"{task.name} has no target, so its runs cannot be scored")
    settings = vars(read(task.options, order.all_args))
    for name, values in task.broken_rules(settings).items():
        if name in settings:  # the run itself reports the others
            rule = f"must be {' or '.join(map(to_text, values))} in an official set"
            raise BadFieldError(f"args.{name}", f"{rule} (got {to_text(settings[name])})")


def find(name: str) -> RunSet:
    """Return a benchmark set.

    Raises:
        NotFoundError: no set has this name.
    """
    run_set: RunSet | None = RunSet.get_or_none(RunSet.name == name)
    if run_set is None:
        raise NotFoundError(f"name: set {name[:80]!r} not found")
    return run_set


def order_run(name: str, request: NextRunRequest, limits: InstallationLimits) -> Run:
    """Submit the run for a slot of a benchmark set, as registered.

    Raises:
        NotFoundError: the set or the slot does not exist.
        ConflictError: the slot has its run, or another run is active.
    """
    with exclusive(STATE):
        run_set = find(name)
        slots = _slots(run_set)
        if request.slot > len(slots):
            raise NotFoundError(f"slot: set {name} has {len(slots)} slots (got {request.slot})")
        slot = slots[request.slot - 1]
        if not slot.is_open:
            raise ConflictError(
                f"slot: slot {slot.number} of set {name} is taken by "
                f"{', '.join(f'run {trial.run_id}' for trial in slot.trials)}"
            )
        planned = Planned(slot.num_workers, official_rules.next_seed(slot, slots), slot.swept)
        order = _order_of(run_set.order | {"queue": request.queue}, planned, slot.name)
        in_set = {"set_name": name, "slot": slot.number, "swept": slot.swept}
        # After a crash, the next run has another seed, but keeps the registered faults.
        in_set["injected"] = run_faults.stored(slot.faults)
        run = lifecycle.create(order, limits, in_set)
    notify()  # again, because the run is visible only after the lock is released
    return run


def _shown(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that all runs share, with secrets in their command masked."""
    name = "custom_image_command"
    return {**order, **({name: mask_command(order[name])} if order.get(name) else {})}


def analyze(run_set: RunSet) -> SetAnalysis:
    """Return the results of a set's runs over its swept values, and its remaining slots."""
    figures = {}
    for run in Run.select().where(Run.set_name == run_set.name):
        rate = run.figures.get("samples_per_second") if run.figures else None
        end = run.finished_at or time.time()
        wall_seconds = None if run.started_at is None else end - run.started_at
        figures[run.id] = RunSummaryMetrics(run.target_train_seconds, rate, wall_seconds)
    return sweeps.analyze(describe(run_set), figures)


def describe_all() -> list[records.RunSet]:
    """Return all benchmark sets, oldest first."""
    with snapshot():
        return [describe(run_set) for run_set in RunSet.select().order_by(RunSet.created_at)]


def describe(run_set: RunSet) -> records.RunSet:
    """Return a benchmark set with its ledger."""
    slots = _slots(run_set)
    return records.RunSet(
        name=run_set.name,
        created_at=seconds_to_text(run_set.created_at),
        official=run_set.official,
        until_percent=run_set.until_percent,
        order=_shown(run_set.order),
        slots=slots,
        text=official_rules.describe(slots),
    )


def at_sealing(run: Run) -> SetAtSealing:
    """Return the facts about a run's set for its archive: the plan, and the earlier runs."""
    run_set = describe(RunSet.get(RunSet.name == run.set_name))
    trials = [trial for slot in run_set.slots for trial in slot.trials]
    earlier = tuple(sorted(trial.run_id for trial in trials if trial.run_id < run.id))
    return SetAtSealing(run_set.created_at, run_set.plan_sha256, earlier)


def _slots(run_set: RunSet) -> tuple[records.Slot, ...]:
    plan = [Planned.from_fields(slot) for slot in run_set.slots]
    deleted = [Entry(**fields) for fields in run_set.deleted]
    entries = [*deleted, *lifecycle.entries_of(Run.set_name == run_set.name)]
    return official_rules.slots_of(run_set.name, plan, entries, official=run_set.official)

"""Benchmark sets: register plans, submit their runs, stop, resume and describe them."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from mlbench.benchmarks.options import read
from mlbench.contract import names, records
from mlbench.contract.command_settings import insert_settings, read_command
from mlbench.contract.conversion import InvalidFieldsError, convert
from mlbench.contract.limits import MAX_RESOURCE_NAME_LENGTH
from mlbench.contract.masking import mask_command
from mlbench.contract.names import ACTIVE_STATES, UNASKED_BANDWIDTH
from mlbench.contract.records import Planned, SetState
from mlbench.contract.runspec import SWEPT
from mlbench.contract.sweeps import SetAnalysis
from mlbench.evaluation import official_rules, sweeps
from mlbench.evaluation.official_rules import Entry, SetAtSealing
from mlbench.evaluation.run_attributes import to_text
from mlbench.evaluation.sweeps import RunSummaryMetrics
from mlbench_master.database.connection import STATE, exclusive, snapshot, store
from mlbench_master.database.models import Run, RunSet
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError, RefusedError
from mlbench_master.notify import notify
from mlbench_master.runs import lifecycle, run_faults
from mlbench_master.runs.admission import validate_against_limits
from mlbench_master.runs.presenters import columns_of
from mlbench_master.runs.requests import RunRequest, SetRequest
from mlbench_master.settings import InstallationLimits

# Sealing takes processor time that the next run would lack on the same machine in its first steps.
# A set waits no longer than this, because archives may be impossible to write.
_MAX_SEALING_SECONDS = 30.0
_CAN_CONTINUE = """
    state = 'running' AND NOT EXISTS (
        SELECT 1 FROM run WHERE set_name = runset.name AND (
            run.state IN (?, ?)
            OR sealed_at IS NULL AND archive_problem = '' AND finished_at > ?
        )
    ) ORDER BY created_at, name
"""


def register(order: SetRequest, limits: InstallationLimits, user: str = "") -> RunSet:
    """Store the plan of a benchmark set, which the controller then carries out.

    Storing the same plan again changes nothing.

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
        run = _order_of(shared, slot, name, limits)
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
        fields = columns | {"created_at": time.time(), "user": user}
        run_set: RunSet = RunSet.get_or_create(name=order.name, defaults=fields)[0]
    notify()
    differences = []
    for name, value in columns.items():
        registered = getattr(run_set, name)
        if registered == value:
            continue
        if name == "order":
            keys = [key for key in registered | shared if registered.get(key) != shared.get(key)]
            shown = _shown(registered)
            differences.append(", ".join(f"{key}={shown.get(key)}" for key in keys))
        else:
            differences.append("other slots" if name == "slots" else f"{name}={registered}")
    if differences:
        raise ConflictError(
            f"name: set {order.name} is already registered with {' and '.join(differences)}. "
            "Choose another name."
        )
    return run_set


def _order_of(
    shared: Mapping[str, Any], slot: Planned, name: str, limits: InstallationLimits
) -> RunRequest:
    """Return the request for the run of a slot, from the fields that all runs share.

    Raises:
        RefusedError: a field is wrong, or exceeds the limits of the pool (400).
    """
    fields = {}
    for key in slot.swept.keys() & SWEPT:
        field, option = SWEPT[key]
        value = slot.swept[key].removesuffix(option.unit)
        fields[field] = None if value == option.swept_out else value
    options = {key: value for key, value in slot.swept.items() if key not in SWEPT}
    if command := shared.get("custom_image_command"):
        fields["custom_image_command"] = insert_settings(command, options)
    else:
        fields["args"] = shared.get("args", {}) | options
    try:
        whole = {**shared, **fields, "name": name}
        whole |= {"num_workers": slot.num_workers, "seed": slot.seed, "queue": True}
        order = convert(RunRequest, whole)
        if "max_bandwidth" in fields and order.max_bandwidth == UNASKED_BANDWIDTH:
            raise BadFieldError(
                "max_bandwidth",
                f"{UNASKED_BANDWIDTH} means no limit, because clients send this value by default. "
                f"Use {UNASKED_BANDWIDTH - 1}, or none.",
            )
        validate_against_limits(order, limits)
        if order.faults and slot.seed is None:
            raise BadFieldError(
                "faults", "schedules are drawn from seeds, which this task does not take"
            )
    except (InvalidFieldsError, BadFieldError) as error:
        # The message names swept values as the request does, not the fields that they set.
        text = str(error)
        for key in slot.swept:
            field = re.sub("[-_]", "[-_]", _field(key))
            text = re.sub(rf"(^|; ){field}: ", rf"\1swept.{key}: ", text)
        raise RefusedError(text) from None
    return order


def _check_keys(shared: Mapping[str, Any], swept: Mapping[str, str]) -> None:
    """Check that no swept field is also set for all runs.

    Raises:
        BadFieldError: a field is set twice, or MLBench sets it itself (400).
    """
    args = {_option(key) for key in shared.get("args", {})}
    command = shared.get("custom_image_command", "")
    in_command = read_command(command).settings
    for key in swept:
        field = _field(key)
        if field in shared or _option(key) in args:
            raise BadFieldError(
                f"swept.{key}", f"{field} is already set for all runs. Leave out one of the two."
            )
        if _option(key) in in_command and key not in SWEPT and f"{{{key}}}" not in command:
            raise BadFieldError(
                f"swept.{key}",
                f"the command already has --{key}. Write {{{key}}} as its value, or leave it out.",
            )
        if command and key in ("rank", "hosts", "run_id", "backend"):
            raise BadFieldError(f"swept.{key}", f"MLBench fills in {{{key}}}. Choose another name.")
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


def find_next() -> list[RunSet]:
    """Return the running sets whose last run has ended and is sealed, oldest first."""
    return RunSet.rows(_CAN_CONTINUE, *ACTIVE_STATES, time.time() - _MAX_SEALING_SECONDS)


def submit(name: str, number: int, limits: InstallationLimits) -> None:
    """Submit the run of a slot, as registered, unless the slot no longer waits for it.

    The row of the run is all that is written, so a killed controller leaves nothing half done.

    Raises:
        RefusedError: limits or options have changed since the registration.
        NoRoomError: the disk is too full for logs and samples.
    """
    with exclusive(STATE):
        run_set = find(name)
        described = describe(run_set)
        if number not in described.waiting or any(slot.active for slot in described.slots):
            return
        slot = described.slots[number - 1]
        seed = official_rules.next_seed(slot, described.slots)
        planned = Planned(slot.num_workers, seed, slot.swept)
        order = _order_of(run_set.order, planned, slot.name, limits)
        in_set = {"set_name": name, "slot": number, "swept": slot.swept}
        # After a crash, the next run has another seed, but keeps the registered faults.
        in_set["injected"] = run_faults.stored(slot.faults)
        lifecycle.create(order, limits, in_set, user=run_set.user)
        settle(name, "running")
    notify()  # again, because the run is visible only after the lock is released


def settle(name: str, state: SetState, reason: str = "") -> None:
    """Store the state of a running set, and the reason for it."""
    with exclusive(STATE):
        changed = RunSet.update(state=state, reason=reason)
        changed.where(RunSet.name == name, RunSet.state == "running").execute()


def stop(name: str, user: str = "") -> RunSet:
    """Stop a running set and its active run. A set that is not running does not change.

    Raises:
        NotFoundError: no set has this name.
    """
    with exclusive(STATE):
        if find(name).state == "running":
            settle(name, "stopped")
            for run in Run.rows("set_name = ? AND state IN (?, ?)", name, *ACTIVE_STATES):
                lifecycle.stop(run, user)
    notify()
    return find(name)


def resume(name: str) -> RunSet:
    """Have the runs of all open slots submitted, unless the set is running.

    Raises:
        NotFoundError: no set has this name.
    """
    with exclusive(STATE):
        run_set = find(name)
        described = describe(run_set)
        if described.state != "running" and any(slot.is_open for slot in described.slots):
            newest = max((trial.run_id for trial in described.trials), default=0)
            store(run_set, state="running", reason="", resumed_after=newest)
    notify()
    return find(name)


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
        metrics = run.figures.get("metrics", {}) if run.figures and not run.target else {}
        last_values = {
            name: extremes["last"] for name, extremes in metrics.items() if not names.is_total(name)
        }
        figures[run.id] = RunSummaryMetrics(
            *(run.target_train_seconds, rate, wall_seconds), last_values=last_values
        )
    return sweeps.analyze(describe(run_set), figures)


def describe_all() -> list[records.RunSet]:
    """Return all benchmark sets, oldest first."""
    with snapshot():
        return [describe(run_set) for run_set in RunSet.select().order_by(RunSet.created_at)]


def describe(run_set: RunSet) -> records.RunSet:
    """Return a benchmark set with its ledger."""
    plan = [Planned.from_fields(slot) for slot in run_set.slots]
    deleted = [Entry(**fields) for fields in run_set.deleted]
    entries = [*deleted, *lifecycle.entries_of(Run.set_name == run_set.name)]
    slots = official_rules.slots_of(run_set.name, plan, entries, official=run_set.official)
    is_running = run_set.state == "running"
    waiting = official_rules.waiting_slots(slots, run_set.resumed_after) if is_running else ()
    state: SetState = "finished"
    if waiting or any(slot.active for slot in slots):
        state = "running" if is_running else "stopping"
    elif run_set.state == "stopped" and any(slot.is_open for slot in slots):
        state = "stopped"
    described = {
        "order": _shown(run_set.order),
        "slots": slots,
        "text": official_rules.describe(slots),
        "state": state,
        "waiting": waiting,
        "progress": official_rules.progress(slots, waiting),
    }
    return records.RunSet(**columns_of(run_set, records.RunSet) | described)


def at_sealing(run: Run) -> SetAtSealing:
    """Return the facts about a run's set for its archive: the plan, and the earlier runs."""
    run_set = describe(RunSet.get(RunSet.name == run.set_name))
    earlier = tuple(sorted(t.run_id for t in run_set.trials if t.run_id < run.id))
    return SetAtSealing(run_set.created_at, run_set.plan_sha256, earlier)

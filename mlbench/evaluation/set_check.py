"""Whether the ledger of a set agrees with the archives of its runs. Pure.

All that follows from the archives is recomputed: what became of each run, which runs count, and the
summary of the set. Each archive also states the set as it was when its run was sealed, so that a
set cannot be registered anew, or lose a place or a run, without a contradiction. Archives of
earlier versions state no set; of theirs, a missing run can only be told by a gap between ids.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlbench.contract.records import Planned, Record, Run, RunSet, SetPlace, Trial
from mlbench.contract.words import numbered
from mlbench.evaluation.ledger import Entry, describe, places_of


@dataclass(frozen=True)
class SetAtSealing(Record):
    """What an archive states of its set, as it was when the run was sealed."""

    created_at: str
    plan_sha256: str
    runs: tuple[int, ...]
    """The runs that the set had ordered before this one, also those that were deleted."""


def check_ledger(
    run_set: RunSet, archived: Mapping[int, tuple[Run, SetAtSealing | None]]
) -> tuple[list[str], list[str]]:
    """Compare a set with the archives of its runs, by their ids; return problems and notes."""
    trials = {trial.run_id: (place, trial) for place in run_set.places for trial in place.trials}
    problems = [f"run {run_id} is none of the ledger's" for run_id in archived.keys() - trials]
    for run_id, (run, stated) in sorted(archived.items()):
        if run_id in trials:
            found = [*_contradictions(run_set, *trials[run_id], run)]
            found += _from_stated(run_set, stated, trials.keys()) if stated else []
            problems += [f"run {run_id}: {text}" for text in found]
    problems += _recomputed(run_set, archived)
    return problems, [] if problems else _gaps([*trials])


def _contradictions(run_set: RunSet, place: SetPlace, trial: Trial, run: Run) -> Iterator[str]:
    both = {
        "set": (run_set.name, run.set_name),
        "place": (place.number, run.place),
        "name": (place.name, run.resource_name),
        "workers": (place.num_workers, run.num_workers),
        "swept values": (dict(place.swept), dict(run.swept)),
        "seed": (trial.seed, run.seed),
        "state": (trial.state, run.state),
        "reason": (trial.reason, run.reason),
        "disturbed": (trial.disturbed, run.disturbed),
    }
    for name, (listed, sealed) in both.items():
        if listed != sealed:
            yield f"the ledger has {name} {listed!r}, its archive {sealed!r}"
    if run.created_at < run_set.created_at:
        yield f"it was ordered at {run.created_at}, before the set was registered"


def _from_stated(run_set: RunSet, stated: SetAtSealing, listed: Collection[int]) -> Iterator[str]:
    if stated.created_at != run_set.created_at:
        yield f"its set was registered at {stated.created_at}, not at {run_set.created_at}"
    if stated.plan_sha256 != run_set.plan_sha256:
        yield f"its set had the plan {stated.plan_sha256}, not {run_set.plan_sha256}"
    if missing := sorted(set(stated.runs) - set(listed)):
        yield f"the ledger lacks {numbered('run', missing)} of its set"


def _recomputed(
    run_set: RunSet, archived: Mapping[int, tuple[Run, SetAtSealing | None]]
) -> Iterator[str]:
    """Yield what the ledger says otherwise than what follows from the archives."""

    def entry(trial: Trial) -> Entry:
        run, _ = archived.get(trial.run_id, (None, None))
        is_disturbed = run.disturbed if run else trial.disturbed
        told = (run.state, run.reason) if run else (trial.state, trial.reason)
        return Entry(trial.place, trial.run_id, trial.seed, *told, is_disturbed, trial.deleted)

    entries = [entry(trial) for place in run_set.places for trial in place.trials]
    plan = [Planned(one.num_workers, one.seed, one.swept, one.faults) for one in run_set.places]
    places = places_of(run_set.name, plan, entries, official=run_set.official)
    for place, listed in zip(places, run_set.places, strict=True):
        counted, told = ([t.run_id for t in one.trials if t.counts] for one in (place, listed))
        if counted != told:
            yield f"place {place.number}: {_those(counted)} counts, the ledger has {_those(told)}"
    if (text := describe(places)) != run_set.text:
        yield f"the ledger says {run_set.text!r}, and its runs give {text!r}"


def _those(run_ids: Sequence[int]) -> str:
    return numbered("run", run_ids) if run_ids else "no run"


def _gaps(run_ids: Sequence[int]) -> list[str]:
    """Name the ids between those of a set's runs that are none of them."""
    missing = [id_ for one, other in pairwise(sorted(run_ids)) for id_ in range(one + 1, other)]
    if not missing:
        return []
    verb = "was" if len(missing) == 1 else "were"
    ordered = f"{numbered('run', missing)} {verb} ordered between the runs of this set"
    return [f"{ordered}: of another set, or left out"]

"""Diagnoses: requests to diagnose a hung run, and the evidence of its ranks."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Protocol, cast

from peewee import fn

from mlbench.contract.diagnosis import Diagnosis as DiagnosisRecord
from mlbench.contract.diagnosis import Evidence, Reason, StackLine, Verdict
from mlbench.contract.extensions import registered
from mlbench.contract.humanize import join, printable, spans
from mlbench.contract.pod_token import PodIdentity
from mlbench_master import timestamps
from mlbench_master.database.connection import STATE, exclusive, run_sql
from mlbench_master.database.models import Diagnosis, Rank, RankEvidence, Run
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError
from mlbench_master.notify import notify
from mlbench_master.runs import lifecycle
from mlbench_master.runs.presenters import columns_of

ANSWER_SECONDS = 20.0
"""Time for ranks to send evidence. Later evidence would be of another moment."""
_MAX_DIAGNOSES = 5
"""Maximum number of diagnoses per run. The oldest ones are deleted."""
_MAX_NUMBER = 2**53
"""Largest integer that JSON readers in all languages keep exact."""
_MAX_TEXT_LENGTH, _MAX_OUTPUT_LENGTH = 500, 16 << 10
# Raw SQL, because a thousand agents poll.
_PENDING = """
    SELECT id, native_rank FROM autopsy AS diagnosis
    WHERE run_id = ? AND attempt = ? AND asked_at > ? AND NOT EXISTS (
        SELECT 1 FROM rankevidence WHERE autopsy_id = diagnosis.id AND rank = ?)
    ORDER BY id DESC LIMIT 1
"""
_SILENT = """
    SELECT COUNT(*) FROM "rank" AS mine WHERE run_id = ? AND attempt = ? AND lost = ''
        AND (exit_code IS NULL OR ? = 'failed') AND NOT EXISTS (
            SELECT 1 FROM rankevidence WHERE autopsy_id = ? AND rankevidence.rank = mine.rank)
"""


class Judgement(Protocol):
    """What the evidence of ranks says, as the entry point ``hang`` of ``mlbench.judgements``."""

    def judge(self, evidence: Sequence[Evidence], world_size: int, /) -> Verdict:
        """Return the verdict on a run with this number of ranks."""

    def merge_stacks(self, evidence: Sequence[Evidence], /) -> tuple[StackLine, ...]:
        """Return the stacks of all ranks as one tree."""

    def split(self, evidence: Evidence, /) -> Iterator[Evidence]:
        """Yield the evidence of each rank of a worker."""


def can_diagnose() -> bool:
    """Return whether an extension that judges evidence is installed."""
    return bool(registered("mlbench.judgements"))


@cache
def _judgement() -> Judgement:
    return cast("Judgement", registered("mlbench.judgements")["hang"].load())


def ask(run_id: int, reason: Reason, native_rank: int | None = None) -> Diagnosis:
    """Start a diagnosis of a run, or return a pending one that requests the same evidence.

    Args:
        run_id: the run.
        reason: why the diagnosis is made.
        native_rank: rank whose C frames are requested; None for none.

    Raises:
        NotFoundError: the run does not exist.
        BadFieldError: the native rank is not running.
        ConflictError: no rank of the run is running, or no extension judges evidence.
    """
    with exclusive(STATE):
        run = lifecycle.find(run_id)
        if not can_diagnose():
            raise ConflictError("diagnosis: no extension that diagnoses runs is installed")
        ranks = [rank for rank in _ranks(run_id, run.attempt) if rank.exit_code is None]
        if run.state != "STARTED" or not ranks:
            raise ConflictError(f"run {run_id} is not running, so there is no process to look at")
        running = sorted(number for rank in ranks for number in rank.ranks)
        if native_rank is not None and native_rank not in running:
            problem = (
                f"must be one of the ranks {join(spans(running))}, which run (got {native_rank})"
            )
            raise BadFieldError("native", problem)
        earlier = asked_of(run_id)
        last = earlier[-1] if earlier and earlier[-1].attempt == run.attempt else None
        if last and native_rank in (None, last.native_rank) and not is_done(last):
            return last
        for old in earlier[: 1 - _MAX_DIAGNOSES]:
            old.delete_instance()
        diagnosis: Diagnosis = Diagnosis.create(
            run=run,
            asked_at=time.time(),
            attempt=run.attempt,
            reason=reason,
            native_rank=native_rank,
        )
    notify()
    return diagnosis


def asked_of(run_id: int) -> list[Diagnosis]:
    """Return the diagnoses of a run, oldest first."""
    return Diagnosis.rows("run_id = ? ORDER BY id", run_id)


def wanted_of(
    run_id: int | None, attempt: int | None, rank: int | None
) -> tuple[int | None, int | None]:
    """Return the diagnosis that awaits evidence of a rank, and its native rank; None for none."""
    if run_id is None:
        return None, None
    since = time.time() - ANSWER_SECONDS
    return run_sql(_PENDING, run_id, attempt, since, rank).fetchone() or (None, None)


def answer(pod: PodIdentity, diagnosis_id: int, fields: Any) -> None:
    """Store the evidence of a pod's rank; only the first one counts.

    Raises:
        BadFieldError: the evidence is malformed.
        NotFoundError: the diagnosis does not exist, or is of another run.
        ConflictError: the evidence arrives too late.
    """
    try:
        evidence = Evidence.from_fields(_bounded(fields))
    except (ValueError, RecursionError) as error:
        raise BadFieldError("body", str(error)[:_MAX_TEXT_LENGTH]) from None
    with exclusive(STATE):
        rows = Diagnosis.rows("id = ?", min(diagnosis_id, _MAX_NUMBER))
        if not rows or not Rank.is_of_pod(pod, rows[0].run_id, rows[0].attempt, evidence.rank):
            raise NotFoundError(f"diagnosis_id: no diagnosis {diagnosis_id} for this rank")
        [diagnosis] = rows
        if time.time() > diagnosis.asked_at + ANSWER_SECONDS:
            raise ConflictError(f"diagnosis {diagnosis_id} is closed: the agent answered too late")
        RankEvidence.insert(
            diagnosis=diagnosis, rank=evidence.rank, evidence=evidence.to_fields()
        ).on_conflict_ignore().execute()


def _bounded(value: Any, name: str = "") -> Any:
    """Return JSON with texts that are printable and not too long. They come from user processes.

    Raises:
        ValueError: a number is too large for other JSON readers.
    """
    match value:
        case str() if name in {"stdout_end", "stderr_end"}:
            return printable(value[-_MAX_OUTPUT_LENGTH:], allowed="\n\t")
        case str():
            return printable(value[:_MAX_TEXT_LENGTH])
        case list():
            return [_bounded(part) for part in value]
        case dict():
            return {key: _bounded(part, key) for key, part in value.items()}
        case int() if abs(value) > _MAX_NUMBER:
            raise ValueError(f"{name or 'numbers'}: must be at most 2^53")
    return value


def is_done(diagnosis: Diagnosis) -> bool:
    """Return whether all ranks that can have sent evidence, or the time for evidence has passed."""
    if time.time() > diagnosis.asked_at + ANSWER_SECONDS:
        return True
    key = (diagnosis.run_id, diagnosis.attempt, diagnosis.reason, diagnosis.get_id())
    [silent] = run_sql(_SILENT, *key).fetchone()
    return not silent


def describe(diagnosis: Diagnosis) -> DiagnosisRecord:
    """Return the API record of a diagnosis: evidence, merged stacks and verdict."""
    rows = RankEvidence.select().where(RankEvidence.diagnosis == diagnosis)
    by_rank = {row.rank: Evidence.from_fields(row.evidence) for row in rows}
    ranks = _ranks(diagnosis.run_id, diagnosis.attempt)
    for rank in ranks:
        number, exited_at = rank.rank, rank.exited_at or diagnosis.asked_at
        has_exited = rank.exit_code is not None and exited_at < diagnosis.asked_at
        if number not in by_rank and has_exited:
            by_rank[number] = _evidence_of_exit(rank, exited_at)
        if number in by_rank and rank.processes and not by_rank[number].ranks:
            by_rank[number] = replace(by_rank[number], ranks=tuple(rank.ranks))
    parts = [part for number in sorted(by_rank) for part in _judgement().split(by_rank[number])]
    evidence = tuple(sorted(parts, key=lambda part: part.rank))
    known_ranks = sum(len(rank.ranks) for rank in ranks)
    world_size = max(known_ranks, *(part.world_size for part in evidence), 0)
    return DiagnosisRecord(
        **columns_of(diagnosis, DiagnosisRecord),
        done=is_done(diagnosis),
        verdict=_judgement().judge(evidence, world_size),
        stacks=_judgement().merge_stacks(evidence),
        evidence=evidence,
    )


def restore(run: Run, listed: Any) -> None:
    """Store the diagnoses of an imported run, as listed in its archive.

    Raises:
        ValueError: the list is malformed.
    """
    for fields in listed[-_MAX_DIAGNOSES:] if can_diagnose() else ():
        record = DiagnosisRecord.from_fields(_bounded(fields))
        diagnosis = Diagnosis.create(
            run=run,
            asked_at=timestamps.parse(record.asked_at) / 1e6,
            attempt=record.attempt,
            reason=record.reason,
        )
        for evidence in record.evidence:
            RankEvidence.create(
                diagnosis=diagnosis, rank=evidence.rank, evidence=evidence.to_fields()
            )


def verdicts_of(run_ids: Sequence[int]) -> Iterator[tuple[int, str, float]]:
    """Yield run id, verdict and time of the last diagnosis of each run, if it is done."""
    last = Diagnosis.select(fn.MAX(Diagnosis.id)).where(Diagnosis.run.in_(run_ids))
    for diagnosis in Diagnosis.select().where(Diagnosis.id.in_(last.group_by(Diagnosis.run))):
        if is_done(diagnosis):
            yield diagnosis.run_id, sentence_of(diagnosis), diagnosis.asked_at


def sentence_of(diagnosis: Diagnosis) -> str:
    """Return the verdict of a finished diagnosis as a sentence."""
    query = "SELECT COUNT(*) FROM rankevidence WHERE autopsy_id = ?"
    [count] = run_sql(query, diagnosis.get_id()).fetchone()
    return _cached_sentence(diagnosis.get_id(), count)


@lru_cache(maxsize=256)
def _cached_sentence(diagnosis_id: int, evidence_count: int) -> str:
    return describe(Diagnosis.get_by_id(diagnosis_id)).verdict.sentence


def _evidence_of_exit(rank: Rank, exited_at: float) -> Evidence:
    """Return the evidence of a rank that exited before the diagnosis: its exit code."""
    return Evidence(
        rank=rank.rank,
        at=exited_at,
        gathered_in_seconds=0.0,
        steps=0,
        exit_code=rank.exit_code,
        processes=(),
        threads=(),
        stacks_by="",
        collectives=(),
        memory_bytes=None,
        memory_limit_bytes=None,
        out_of_memory_kills=0,
        throttled_seconds=None,
        stdout_end="",
        stderr_end="",
        gpu_errors=(),
        missing=(),
        failure=rank.failure,
    )


def _ranks(run_id: int, attempt: int) -> list[Rank]:
    """Return the ranks of an attempt, without their large columns."""
    rows = Rank.select_without(*Rank.LARGE).where(Rank.run == run_id, Rank.attempt == attempt)
    return list(rows.order_by(Rank.rank))

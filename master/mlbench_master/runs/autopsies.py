"""Asking the ranks of a run why it does not go on, and what they answer."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from peewee import fn

from mlbench.contract.autopsy import Autopsy as AutopsyRecord
from mlbench.contract.autopsy import Evidence, Reason
from mlbench.contract.pod_token import PodIdentity
from mlbench.contract.words import join, spans
from mlbench.evaluation.hang_diagnosis import judge, merge_stacks, split
from mlbench_master import times
from mlbench_master.database.connection import STATE, exclusive, run_sql
from mlbench_master.database.models import Autopsy, Rank, RankEvidence, Run
from mlbench_master.errors import BadFieldError, ConflictError, NotFoundError
from mlbench_master.notify import notify
from mlbench_master.runs import life

ANSWER_SECONDS = 20.0
"""Ranks that have not answered by then have nothing to say: evidence has to be of one moment."""
# Of a run that is asked more often, the oldest are forgotten.
_MOST = 5
_LARGEST = 2**53
_LONGEST_TEXT, _LONGEST_OUTPUT = 500, 16 << 10
_OUTPUTS = ("stdout_end", "stderr_end")
# Spelled in SQL, as a thousand agents poll.
_WANTED = """
    SELECT id, native_rank FROM autopsy
    WHERE run_id = ? AND attempt = ? AND asked_at > ? AND NOT EXISTS (
        SELECT 1 FROM rankevidence WHERE autopsy_id = autopsy.id AND rank = ?)
    ORDER BY id DESC LIMIT 1
"""
_COUNT = "SELECT COUNT(*) FROM rankevidence WHERE autopsy_id = ?"
_SILENT = """
    SELECT COUNT(*) FROM "rank" AS mine WHERE run_id = ? AND attempt = ? AND lost = ''
        AND (exit_code IS NULL OR ? = 'failed') AND NOT EXISTS (
            SELECT 1 FROM rankevidence WHERE autopsy_id = ? AND rankevidence.rank = mine.rank)
"""


def ask(run_id: int, reason: Reason, native_rank: int | None = None) -> Autopsy:
    """Ask the ranks of a run, unless they are being asked this, and maybe one for frames of C.

    Raises:
        NotFoundError: there is no such run.
        BadFieldError: it has no such rank.
        ConflictError: none of its ranks is running.
    """
    with exclusive(STATE):
        run = life.find(run_id)
        ranks = [rank for rank in _ranks(run_id, run.attempt) if rank.exit_code is None]
        if run.state != "STARTED" or not ranks:
            raise ConflictError(f"run {run_id} is not running, so there is no process to look at")
        running = sorted(number for rank in ranks for number in rank.ranks)
        if native_rank is not None and native_rank not in running:
            problem = (
                f"must be one of the ranks {join(spans(running))}, which run (got {native_rank})"
            )
            raise BadFieldError("native", problem)
        asked = asked_of(run_id)
        last = asked[-1] if asked and asked[-1].attempt == run.attempt else None
        if last and native_rank in (None, last.native_rank) and not is_done(last):
            return last
        for old in asked[: 1 - _MOST]:
            old.delete_instance()
        its = {"attempt": run.attempt, "reason": reason, "native_rank": native_rank}
        new: Autopsy = Autopsy.create(run=run, asked_at=time.time(), **its)
    notify()
    return new


def asked_of(run_id: int) -> list[Autopsy]:
    """Return when a run was asked, the latest last."""
    return Autopsy.rows("run_id = ? ORDER BY id", run_id)


def wanted_of(
    run_id: int | None, attempt: int | None, rank: int | None
) -> tuple[int | None, int | None]:
    """Return the autopsy that waits for the evidence of a rank, and whose frames of C it wants."""
    if run_id is None:
        return None, None
    since = time.time() - ANSWER_SECONDS
    return run_sql(_WANTED, run_id, attempt, since, rank).fetchone() or (None, None)


def answer(pod: PodIdentity, autopsy_id: int, fields: Any) -> None:
    """Store the evidence of a pod's rank; the first one counts.

    Raises:
        BadFieldError: it is no evidence.
        NotFoundError: there is no such autopsy, or it does not ask this pod.
        ConflictError: it has waited long enough.
    """
    try:
        evidence = Evidence.from_fields(_bounded(fields))
    except (ValueError, RecursionError) as error:
        raise BadFieldError("body", str(error)[:_LONGEST_TEXT]) from None
    with exclusive(STATE):
        asked = Autopsy.rows("id = ?", min(autopsy_id, _LARGEST))
        rank = evidence.rank
        if not asked or not Rank.is_of_pod(pod, asked[0].run_id, asked[0].attempt, rank):
            raise NotFoundError(f"autopsy_id: no autopsy {autopsy_id} for this rank")
        if time.time() > asked[0].asked_at + ANSWER_SECONDS:
            raise ConflictError(f"autopsy {autopsy_id} is closed: the agent answered too late")
        its = {"autopsy": asked[0], "rank": rank, "evidence": evidence.to_fields()}
        RankEvidence.insert(its).on_conflict_ignore().execute()


def _bounded(value: Any, name: str = "") -> Any:
    """Return JSON whose texts can be shown, and are not too long; what a process says is foreign.

    Raises:
        ValueError: it has a number that no other part can read.
    """
    match value:
        case str() if name in _OUTPUTS:
            return _printable(value[-_LONGEST_OUTPUT:], "\n\t")
        case str():
            return _printable(value[:_LONGEST_TEXT])
        case list():
            return [_bounded(part) for part in value]
        case dict():
            return {key: _bounded(part, key) for key, part in value.items()}
        case int() if abs(value) > _LARGEST:
            raise ValueError(f"{name or 'numbers'}: must be at most 2^53")
    return value


def _printable(text: str, besides: str = "") -> str:
    return "".join(one if one.isprintable() or one in besides else "?" for one in text)


def is_done(asked: Autopsy) -> bool:
    """Tell whether all ranks have answered that can, or had the time to."""
    if time.time() > asked.asked_at + ANSWER_SECONDS:
        return True
    about = (asked.run_id, asked.attempt, asked.reason, asked.get_id())
    [silent] = run_sql(_SILENT, *about).fetchone()
    return not silent


def describe(asked: Autopsy) -> AutopsyRecord:
    """Return what the ranks have answered, and judge by it."""
    parts = (part for answer in _evidence_of(asked) for part in split(answer))
    evidence = tuple(sorted(parts, key=lambda part: part.rank))
    ranks = sum(len(rank.ranks) for rank in _ranks(asked.run_id, asked.attempt))
    world_size = max(ranks, *(part.world_size for part in evidence), 0)
    return AutopsyRecord(
        id=asked.get_id(),
        attempt=asked.attempt,
        reason=cast("Reason", asked.reason),
        asked_at=times.seconds_to_text(asked.asked_at),
        done=is_done(asked),
        verdict=judge(evidence, world_size),
        stacks=merge_stacks(evidence),
        evidence=evidence,
    )


def restore(run: Run, listed: Any) -> None:
    """Store the autopsies of an imported run, as its archive has them.

    Raises:
        ValueError: it has something else.
    """
    for fields in listed[-_MOST:]:
        autopsy = AutopsyRecord.from_fields(_bounded(fields))
        its = {"attempt": autopsy.attempt, "reason": autopsy.reason}
        asked = Autopsy.create(run=run, asked_at=times.parse(autopsy.asked_at) / 1e6, **its)
        for evidence in autopsy.evidence:
            RankEvidence.create(autopsy=asked, rank=evidence.rank, evidence=evidence.to_fields())


def verdicts_of(run_ids: Sequence[int]) -> Iterator[tuple[int, str, float]]:
    """Yield runs with the sentence of their last autopsy, if it is done, and when it was asked."""
    last = Autopsy.select(fn.MAX(Autopsy.id)).where(Autopsy.run.in_(run_ids))
    for one in Autopsy.select().where(Autopsy.id.in_(last.group_by(Autopsy.run))):
        if is_done(one):
            yield one.run_id, sentence_of(one), one.asked_at


def sentence_of(asked: Autopsy) -> str:
    """Return the verdict of an autopsy that is done, in a sentence."""
    [answers] = run_sql(_COUNT, asked.get_id()).fetchone()
    return _sentence(asked.get_id(), answers)


@lru_cache(maxsize=256)
def _sentence(autopsy_id: int, answers: int) -> str:
    return describe(Autopsy.get_by_id(autopsy_id)).verdict.sentence


def _evidence_of(asked: Autopsy) -> tuple[Evidence, ...]:
    """Return what the ranks have answered; of those that had ended before, their exit codes."""
    rows = RankEvidence.rows("autopsy_id = ? ORDER BY rank", asked.get_id())
    answers = {row.rank: Evidence.from_fields(row.evidence) for row in rows}
    for rank in _ranks(asked.run_id, asked.attempt):
        number, at = rank.rank, rank.exited_at
        if number not in answers and rank.exit_code is not None and at and at < asked.asked_at:
            answers[number] = _evidence_of_end(rank, at)
        if number in answers and rank.processes and not answers[number].ranks:
            answers[number] = replace(answers[number], ranks=tuple(rank.ranks))
    return tuple(answers[rank] for rank in sorted(answers))


def _evidence_of_end(rank: Rank, at: float) -> Evidence:
    return Evidence(
        rank=rank.rank,
        at=at,
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
    """Return the ranks of an attempt, without what takes room."""
    its = Rank.select_without(*Rank.LARGE).where(Rank.run == run_id, Rank.attempt == attempt)
    return list(its.order_by(Rank.rank))

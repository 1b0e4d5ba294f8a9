"""Counts of data that a run's record lacks.

Indexing counts malformed lines. Agents report their own counts in the metrics stream. The API
counts the bytes that it refuses, and sealing the pods whose usage it could not read. All surfaces
show the counts from ``describe``.
"""

from collections.abc import Mapping
from typing import Any

from mlbench.contract.records import NotRecorded
from mlbench_master.database.connection import exclusive, store
from mlbench_master.database.models import Run, find_run, run_owner

_BYTES, _PODS = "refused_bytes", "pods_without_usage"
# Singular and plural, in the order of the phrase.
_PHRASES: Mapping[str, tuple[str, str]] = {
    "malformed_lines": ("malformed line", "malformed lines"),
    "refused_values": ("value beyond the limit of series", "values beyond the limit of series"),
    "refused_calls": ("refused client call", "refused client calls"),
    "unanswered_calls": (
        "client call that broke off or timed out",
        "client calls that broke off or timed out",
    ),
    "unread_files": ("event file not read to its end", "event files not read to their end"),
    "unwritten_values": ("value without room on the disk", "values without room on the disk"),
    _BYTES: ("byte of a lost rank", "bytes of lost ranks"),
    _PODS: (
        "pod whose resource usage Prometheus did not return",
        "pods whose resource usage Prometheus did not return",
    ),
    "untimed_gpu_ranks": ("rank's communication on GPUs", "ranks' communication on GPUs"),
    "untimed_jax_ranks": (
        "rank's communication in programs of JAX",
        "ranks' communication in programs of JAX",
    ),
    "untimed_python_ranks": (
        "rank's communication (that needs Python 3.11)",
        "ranks' communication (that needs Python 3.11)",
    ),
    "untimed_other_ranks": (
        "rank's communication (none by torch.distributed's calls)",
        "ranks' communication (none by torch.distributed's calls)",
    ),
}
STATED = frozenset(_PHRASES) - {"malformed_lines", "refused_values", _BYTES, _PODS}
"""Counts that an agent, or a process, may report."""


def add(run: Run, counts: Mapping[str, int]) -> None:
    """Add counts of a batch of samples, which is indexed once."""
    stored: dict[str, Any] = dict(run.not_recorded or {})
    for name, number in counts.items():
        stored[name] = stored.get(name, 0) + number
    store(run, not_recorded=stored)


def refuse_bytes(run_id: int, stream: str, size: int) -> None:
    """Store the number of refused bytes of a stream; the same bytes count once."""
    with exclusive(run_owner(run_id)):
        run = Run.get_or_none(Run.id == run_id)
        if run is not None:
            stored: dict[str, Any] = run.not_recorded or {}
            refused = stored.get(_BYTES, {})
            refused |= {stream: max(size, refused.get(stream, 0))}
            store(run, not_recorded=stored | {_BYTES: refused})


def store_pods_without_usage(run: Run, pods: int) -> None:
    """Store the number of pods whose resource usage the archive of a run lacks."""
    with exclusive(run_owner(run.id)):
        current = find_run(run_owner(run.id))
        stored: dict[str, Any] = (current and current.not_recorded) or {}
        if stored.get(_PODS, 0) != pods:
            store(run, not_recorded=stored | {_PODS: pods})


def describe(run: Run) -> NotRecorded | None:
    """Return the counts of a run; None if nothing is known to be missing."""
    counts: dict[str, Any] = dict(run.not_recorded or {})
    refused = (run.refused or {}).get("samples", 0)
    counts["refused_values"] = counts.get("refused_values", 0) + refused
    counts[_BYTES] = sum(counts.get(_BYTES, {}).values())
    phrases = [
        f"{number:,} {words[number > 1]}"
        for name, words in _PHRASES.items()
        if (number := counts.get(name, 0))
    ]
    if not phrases:
        return None
    return NotRecorded(", ".join(phrases), **{name: counts.get(name, 0) for name in _PHRASES})

"""The names that fields of sealed documents had in earlier versions.

A sealed archive never changes, so its JSON keeps the field names of the version that wrote it.
"""

from collections.abc import Mapping
from typing import Any

_FORMER_NAMES: Mapping[str, str] = {
    "abandoned_steps": "discarded_steps",
    "culprits": "at_fault",
    "departures": "rule_violations",
    "disturbance": "interference",
    "disturbances": "interferences",
    "goal": "target",
    "goal_reached_at": "target_reached_at",
    "goal_train_seconds": "target_train_seconds",
    "in_database": "record_only",
    "kept": "record_only",
    "names_ranks": "has_other_ranks",
    "own_waiting_seconds": "self_contention_seconds",
    "place": "slot",
    "places": "slots",
    "time_to_accuracy": "time_to_target",
    "times_as_fast": "speedup_without",
    "waiting_share": "contention_share",
}
_FORMER_VERDICTS: Mapping[str, str] = {
    "going": "progressing",
    "gone": "exited",
    "device": "blocked_io",
    "behind": "not_in_collective",
    "shared": "same_line",
}
# Objects whose keys users, tasks or programs have chosen (``top`` has names of programs), and the
# plan of a set, whose digest is sealed.
_FREE_KEYS = frozenset(
    {"args", "data", "job_metadata", "order", "packages", "settings", "swept", "top", "values"}
)


def with_current_names(document: Any) -> Any:
    """Return a sealed JSON document with the field names and verdicts of this version."""
    if isinstance(document, list):
        return [with_current_names(item) for item in document]
    if not isinstance(document, dict):
        return document
    renamed = {
        _FORMER_NAMES.get(name, name): value if name in _FREE_KEYS else with_current_names(value)
        for name, value in document.items()
    }
    if {"slots", "text"} <= renamed.keys():  # of a benchmark set
        renamed["text"] = renamed["text"].replace(" places have", " slots have")
    if "certainty" in renamed:  # of a hang diagnosis
        renamed["kind"] = _FORMER_VERDICTS.get(renamed["kind"], renamed["kind"])
    return renamed

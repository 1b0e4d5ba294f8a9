"""Annotations of a run: title, tags and note, which can change at any time.

They are part of neither the archive nor the result.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from mlbench.archive import ANNOTATIONS_SUFFIX
from mlbench.contract.fields import NO_NUL, Field
from mlbench_master.database.connection import STATE, exclusive
from mlbench_master.database.models import ANNOTATION_COLUMNS, Run
from mlbench_master.errors import BadFieldError
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.runs import lifecycle

_MAX_TAGS = 50


def _check_title(title: str) -> str:
    # Control characters could control a terminal.
    if re.search(r"[\x00-\x1f\x7f-\x9f]", title) or title != title.strip():
        raise ValueError("must not have control characters, nor spaces at either end")
    return title


_Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/:-]{1,64}$")]
_Tags = Annotated[list[_Tag], Field(max_length=_MAX_TAGS), lambda tags: sorted({*tags})]


@dataclass(frozen=True, kw_only=True)
class AnnotationsRequest:
    """Annotations to change. Fields that are missing or null stay unchanged."""

    title: Annotated[str | None, Field(max_length=200), _check_title] = None
    """Title, shown instead of the name of the run; empty for the name."""
    tags: _Tags | None = None
    """All tags of the run. A tag consists of letters, digits and `._/:-`."""
    add_tags: _Tags = field(default_factory=list)
    """Tags to add."""
    remove_tags: _Tags = field(default_factory=list)
    """Tags to remove."""
    note: Annotated[str | None, Field(max_length=10_000, pattern=NO_NUL)] = None
    """Note in Markdown."""


def change(run_id: int, words: AnnotationsRequest) -> Run:
    """Change the annotations of a run, and return the run.

    Raises:
        NotFoundError: the run does not exist.
        BadFieldError: the run would have too many tags.
    """
    changes: dict[str, Any] = {
        name: value for name in ANNOTATION_COLUMNS if (value := getattr(words, name)) is not None
    }
    with exclusive(STATE):
        if words.add_tags or words.remove_tags:
            tags = changes.get("tags", lifecycle.find(run_id).tags)
            changes["tags"] = sorted({*tags, *words.add_tags} - {*words.remove_tags})
            if len(changes["tags"]) > _MAX_TAGS:
                raise BadFieldError(
                    "add_tags",
                    f"a run can have at most {_MAX_TAGS} tags (got {len(changes['tags'])})",
                )
        if changes:
            Run.update(changes).where(Run.id == run_id).execute()
        return lifecycle.find(run_id)


def keep(run: Run, archives: ArchiveStore) -> None:
    """Write the annotations of a run to a file next to its archive, like an export.

    Raises:
        ArchiveError: the file cannot be written.
    """
    words = {column: getattr(run, column) for column in sorted(ANNOTATION_COLUMNS)}

    def write(draft: Path) -> str:
        draft.write_text(json.dumps({run.job_id: words}, indent=1), encoding="utf-8")
        return ""

    if run.archive is not None and any(words.values()):
        archives.put(f"{run.archive}{ANNOTATIONS_SUFFIX}", write)

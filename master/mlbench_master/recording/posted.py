"""The streams of posted samples: each body is stored once, however often it is sent.

Such a stream has attempt 0 and rank -1. Clients post samples one at a time, so bodies that arrive
together share a transaction, and the statements are SQL: composing them with peewee takes longer
than running them.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence

from mlbench.errors import MLBenchError
from mlbench_master.database import exclusive, run_sql
from mlbench_master.errors import NotFoundError
from mlbench_master.group_commit import GroupCommit
from mlbench_master.models import run_owner
from mlbench_master.notify import notify

_OPEN = (
    "INSERT INTO stream (owner, attempt, rank, name, size, delivered, recorded, gap_start, "
    "gap_end) VALUES (?, 0, -1, 'posted', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING"
)
_GROW = (
    "UPDATE stream SET size = size + ? "
    "WHERE owner = ? AND attempt = 0 AND rank = -1 AND name = 'posted' RETURNING id, size"
)
_ADD_CHUNK = 'INSERT INTO chunk (stream_id, "offset", data) VALUES (?, ?, ?)'
_IS_ENDED = "SELECT added FROM run WHERE id = ? AND finished_at IS NOT NULL"
_COUNT_ADDED = "UPDATE run SET added = ? WHERE id = ?"
_KNOWN = "SELECT digest FROM postedbody WHERE owner = ? AND digest IN ({})"
_REMEMBER = (
    "INSERT INTO postedbody (owner, digest) VALUES {} ON CONFLICT DO NOTHING RETURNING digest"
)


class MovedError(MLBenchError):
    """The samples belong to the run's other owner: to ``added_owner`` once it has ended."""


def open_posted(owner: str) -> None:
    """Create the stream of an owner's posted samples, if there is none."""
    run_sql(_OPEN, owner)


def append_posted(owner: str, lines: bytes) -> None:
    """Append a body's lines to the stream of an owner's posted samples, unless it has them.

    Raises:
        NotFoundError: there is no such stream, or no more (404).
        MovedError: they belong to the run's other owner.
    """
    _group.write((owner, lines))


def _append_all(bodies: Sequence[tuple[str, bytes]]) -> Sequence[None]:
    by_owner: dict[str, dict[bytes, bytes]] = {}
    for owner, lines in bodies:
        by_owner.setdefault(owner, {})[hashlib.sha256(lines).digest()] = lines
    for owner, by_digest in by_owner.items():
        _append(owner, by_digest)
    notify("samples")
    return [None] * len(bodies)


def _append(owner: str, bodies: Mapping[bytes, bytes]) -> None:
    """Store those of the bodies, which come by their digests, that are new."""
    kind, _, name = owner.partition("/")
    with exclusive(owner):
        ended = run_sql(_IS_ENDED, int(name)).fetchone() if kind != "pod" else None
        if kind != "pod" and (ended is None) == (kind == "added"):
            raise MovedError(f"run {name} has {'ended' if ended else 'not ended'}")
        if kind == "added":
            bodies = _without_known(run_owner(int(name)), bodies)
        if not bodies:
            return
        remember = _REMEMBER.format(", ".join(["(?, ?)"] * len(bodies)))
        values = [value for digest in bodies for value in (owner, digest)]
        new = b"".join([bodies[bytes(row[0])] for row in run_sql(remember, *values).fetchall()])
        if not new:
            return
        grown = run_sql(_GROW, len(new), owner).fetchone()
        if grown is None:
            raise NotFoundError(f"there is no {owner.replace('/', ' ')} any more")
        stream_id, size = grown
        run_sql(_ADD_CHUNK, stream_id, size - len(new), new)
        if ended is not None:
            now, added = time.time(), json.loads(ended[0] or "{}")
            samples = added.get("samples", 0) + new.count(b"\n")
            added = {"first_at": now, **added, "samples": samples, "last_at": now}
            run_sql(_COUNT_ADDED, json.dumps(added), int(name))


def _without_known(owner: str, bodies: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the bodies that an owner does not have: a client may send one again after the end."""
    known = _KNOWN.format(", ".join("?" * len(bodies)))
    found = {bytes(row[0]) for row in run_sql(known, owner, *bodies).fetchall()}
    return {digest: lines for digest, lines in bodies.items() if digest not in found}


_group = GroupCommit(_append_all)

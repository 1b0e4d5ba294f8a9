"""Verification of archives: their digests, their results, and what Prometheus has of their runs."""

import hashlib
import time

from mlbench.archive import ArchiveError
from mlbench.contract.records import Verification
from mlbench.evaluation.verification import check
from mlbench_master.database.models import Run
from mlbench_master.reading.counting import SampleCounts
from mlbench_master.reading.files import contents
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.runs import lifecycle, presenters

# An archive that is written again is in its place before its digest is in the database. A problem
# is reported if it is still there after this long.
_REWRITTEN_SECONDS = 2.0


def verify(archives: ArchiveStore, run: Run) -> Verification:
    """Verify the archive of a run that has ended.

    Raises:
        NotFoundError: the run was deleted meanwhile.
    """
    found = _verify(archives, run)
    until = time.monotonic() + _REWRITTEN_SECONDS
    while found.problems and time.monotonic() < until:
        time.sleep(0.1)
        latest = lifecycle.find(run.id)
        if (latest.archive_sha256, latest.added) != (run.archive_sha256, run.added):
            run, found = latest, _verify(archives, latest)
    return found


def _verify(archives: ArchiveStore, run: Run) -> Verification:
    problems: list[str] = []
    try:
        if run.archive is None or run.sealed_at is None:
            raise ArchiveError(run.archive_problem or "it is not sealed yet: ask again")
        with archives.open(run.archive) as archive:
            if archive.digest != run.archive_sha256:
                problems.append(f"{run.archive} is not the archive that was written")
            problems += check(archive)
            if run.delivery and not run.origin:  # Prometheus has no samples of imported runs
                series = archive.series.items()
                sealed = sum(each.samples + each.kept for name, each in series if not name.pod)
                recorded = run.delivery["recorded"]
                if sealed != recorded:
                    problems.append(f"the archive has {sealed} of the {recorded} recorded samples")
                if disagreement := SampleCounts(**run.delivery).disagreement:
                    problems.append(disagreement)
    except ArchiveError as error:
        problems.append(str(error))
    added = run.added or {}
    try:
        if "archive" in added:
            with archives.open(added["archive"]) as archive:
                samples = sum(s.samples + s.kept for s in archive.series.values())
                if archive.digest != added["sha256"] or samples != added["sealed"]:
                    problems.append(f"{added['archive']} is not the archive that was written")
                else:
                    problems += archive.check()
    except ArchiveError as error:
        problems.append(str(error))
    if not run.origin:
        problems += [
            f"{file.name} of rank {file.rank} is not the file that its rank left"
            for file, content in contents(run)
            if hashlib.sha256(content).hexdigest() != file.sha256
        ]
    return Verification(
        *(run.id, run.archive, run.archive_sha256, run.delivery, tuple(problems)),
        added=presenters.added_to(run),
    )

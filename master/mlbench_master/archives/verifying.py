"""Verification of archives against Prometheus, and restoring of samples that it lacks."""

import hashlib
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

from mlbench.archive import Archive, ArchiveError, SeriesName, digest_of
from mlbench.contract import names
from mlbench.contract.records import Verification
from mlbench.contract.series import SeriesKey
from mlbench.evaluation.verification import check
from mlbench_master.archives.contents import to_piece
from mlbench_master.database.models import Run, run_owner
from mlbench_master.notify import notify
from mlbench_master.reading import stored, windows
from mlbench_master.reading.counting import span_of
from mlbench_master.reading.files import contents
from mlbench_master.reading.promql import PrometheusClient, select
from mlbench_master.reading.selection import Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording.remote_write import RemoteWriter, TimeSeries
from mlbench_master.recording.samples import encoded_labels
from mlbench_master.runs import presenters

# Prometheus accepts samples that are at most 24 hours older than its newest sample.
_YOUNG_SECONDS = 23 * 3600.0


@dataclass(frozen=True)
class Verifier:
    """Verifies the archives of runs against Prometheus."""

    reader: SeriesReader
    prometheus_url: str

    def verify(self, run: Run, *, restore: bool) -> Verification:
        """Verify the archive of a run that has ended.

        With ``restore``, samples that Prometheus lacks are written to Prometheus. A damaged archive
        is sealed again if Prometheus has all samples.

        Raises:
            PrometheusError, UnavailableError: Prometheus does not respond.
        """
        restored = 0
        problems: list[str] = []
        differences: dict[SeriesKey, str] = {}
        try:
            if run.archive is None or run.sealed_at is None:
                raise ArchiveError(run.archive_problem or "it is not sealed yet: ask again")
            with self.reader.archives.open(run.archive) as archive:
                if archive.digest != run.archive_sha256:
                    problems.append(f"{run.archive} is not the archive that was written")
                problems += check(archive)
                if not problems:
                    differences = dict(self._differences(run, archive))
                if restore and differences:
                    restored = self._restore(run, archive, list(differences))
                    differences = dict(self._differences(run, archive))
        except ArchiveError as error:
            problems.append(str(error))
        if restore and problems and run.archive is not None and not run.origin:
            delivered = stored.load(run_owner(run.id)).delivered
            counts = _count(self.reader.prometheus, run)
            if all(counts.get(key, 0) >= series.samples for key, series in delivered.items()):
                # The controller then writes the archive again.
                Run.update(archive=None, sealed_at=None).where(Run.id == run.id).execute()
                notify()
                problems.append("it is sealed again from what Prometheus has: verify it once more")
        problems += [*differences.values(), *self._check_added(run)]
        if not run.origin:
            problems += [
                f"{file.name} of rank {file.rank} is not the file that its rank left"
                for file, content in contents(run)
                if hashlib.sha256(content).hexdigest() != file.sha256
            ]
        return Verification(
            *(run.id, run.archive, run.archive_sha256, run.delivery, tuple(problems), restored),
            added=presenters.added_to(run),
        )

    def _check_added(self, run: Run) -> list[str]:
        """Check the archive of the samples that were posted after a run's end, if there is one."""
        added = run.added or {}
        if "archive" not in added:
            return []
        try:
            with self.reader.archives.open(added["archive"]) as archive:
                samples = sum(series.samples + series.kept for series in archive.series.values())
                if archive.digest != added["sha256"] or samples != added["sealed"]:
                    return [f"{added['archive']} is not the archive that was written"]
                return archive.check()
        except ArchiveError as error:
            return [str(error)]

    def _differences(self, run: Run, archive: Archive) -> Iterator[tuple[SeriesKey, str]]:
        """Yield the series of which Prometheus has other samples, with a description."""
        if run.origin:  # Prometheus has no samples of imported runs
            return
        sealed_samples = {
            (name.metric, name.rank): sealed.samples
            for name, sealed in archive.series.items()
            if sealed.samples and not name.pod
        }
        counts = _count(self.reader.prometheus, run)
        complete = []
        for key, samples in sealed_samples.items():
            if (count := counts.get(key, 0)) != samples:
                has = f"Prometheus has {count} of the {samples} samples"
                yield key, f"{has} of series {SeriesName(*key)}"
            else:
                complete.append(key)
        loaded = stored.load(run_owner(run.id))
        for start in range(0, len(complete), 100):  # series that are read at once
            batch = complete[start : start + 100]
            with ExitStack() as stack:
                delivered = self.reader.delivered(loaded, batch, Selection(), stack)
                for key in batch:
                    points = loaded.read_delivered(key, delivered.get(key))
                    sealed = archive.read(SeriesName(*key), kept=False)
                    if digest_of(map(to_piece, points)) != digest_of(sealed):
                        yield key, f"Prometheus has other samples of series {SeriesName(*key)}"

    def _restore(self, run: Run, archive: Archive, keys: list[SeriesKey]) -> int:
        """Write series of an archive to Prometheus, and return the number of accepted samples."""
        oldest_us = round((time.time() - _YOUNG_SECONDS) * 1e6)
        sent = 0
        with closing(RemoteWriter(self.prometheus_url)) as writer:
            for key in keys:
                labels = encoded_labels(run_owner(run.id), key)
                for piece in archive.read(SeriesName(*key), kept=False):
                    young = bisect_right(piece.times_us, oldest_us)
                    points = zip(piece.times_us[young:], piece.values[young:], strict=True)
                    if samples := [(time_us // 1000, value) for time_us, value in points]:
                        series = TimeSeries(labels, samples)
                        sent += len(samples) - len(writer.send_all([series]))
        return sent


def _count(prometheus: PrometheusClient, run: Run) -> dict[SeriesKey, int]:
    span = span_of(run_owner(run.id))
    if span is None:
        return {}
    selector = select({"__name__": names.RUN_METRIC, "run_id": str(run.id)})
    return windows.count(prometheus, selector, span)

"""Plan the place of each sample: Prometheus, or the database. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlbench.contract import names
from mlbench.contract.series import SeriesKey
from mlbench_master.recording.samples import Sample

# After a sample from the future, Prometheus refuses every sample of today.
FUTURE_MS = 60_000
# Below `out_of_order_time_window` in prometheus.yml; Prometheus refuses older samples.
PAST_MS = 23 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """The samples to send to Prometheus, by series and in order of time, and those to keep."""

    send: Mapping[SeriesKey, Sequence[Sample]]
    """Numbers, in strictly increasing milliseconds."""
    keep: Sequence[Sample]

    def without(self, refused: set[tuple[SeriesKey, int]]) -> "Plan":
        """Return a plan that keeps the samples that Prometheus refused, by series and ms."""
        send: dict[SeriesKey, list[Sample]] = {}
        keep = list(self.keep)
        for key, samples in self.send.items():
            for sample in samples:
                if (key, _millisecond(sample)) in refused:
                    keep.append(sample)
                else:
                    send.setdefault(key, []).append(sample)
        return Plan(send, keep)


def plan(samples: Iterable[Sample], last_ms: Mapping[SeriesKey, int], now_ms: int) -> Plan:
    """Choose the place of each sample.

    ``last_ms`` has the newest millisecond of each series in Prometheus. Samples that are not later
    are kept in the database, because Prometheus may have another value at their time. If a rank's
    step is kept, because it is the second one of a millisecond, all later samples of the same
    millisecond are kept, too: only kept samples have microseconds, which identify their step.
    """
    by_series: defaultdict[SeriesKey, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_series[sample[:2]].append(sample)
    send: dict[SeriesKey, list[Sample]] = {}
    keep: list[Sample] = []
    latest = now_ms + FUTURE_MS
    # The time of the first kept step, by rank and millisecond.
    kept_steps: dict[tuple[str, int], int] = {}
    for key, samples_of in sorted(by_series.items(), key=lambda one: one[0][0] != names.STEP):
        if len(samples_of) > 1:
            # Sorting is stable: of one millisecond, the first to arrive is sent, also next time.
            samples_of.sort(key=_millisecond)
        earliest = max(now_ms - PAST_MS, last_ms.get(key, 0) + 1)
        sent = []
        for sample in samples_of:
            ms = sample.time_us // 1000
            of_kept_step = kept_steps.get((key[1], ms), sample.time_us + 1) <= sample.time_us
            fits = earliest <= ms <= latest and not of_kept_step
            if fits and not isinstance(sample.value, str):
                sent.append(sample)
                earliest = ms + 1
            else:
                keep.append(sample)
                if key[0] == names.STEP:
                    kept_steps.setdefault((key[1], ms), sample.time_us)
        if sent:
            send[key] = sent
    return Plan(send, keep)


def _millisecond(sample: Sample) -> int:
    return sample.time_us // 1000

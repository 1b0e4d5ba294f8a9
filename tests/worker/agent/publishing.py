"""Publish forged series, like a malicious training process."""

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from mlbench.contract import names


def main() -> None:
    """Leave forged series and invalid files in prometheus-client's folder."""

    def gauge(name: str, **labels: str) -> None:
        Gauge(name, "forged", [*labels], multiprocess_mode="max").labels(**labels).set(1e9)

    own, other = os.environ[names.ENV_RUN_ID], "2000000"
    gauge(names.RUN_METRIC, run_id=own, metric="train_loss", rank="0")
    gauge(names.RUN_STATE, run_id=other, state="FAILED")
    gauge(names.WORKER_RUNNING, run_id=other, rank="0")
    gauge(names.WORKER_INFO, pod="forged", run_id=other, rank="0")
    gauge("container_memory_usage_bytes", pod="local-mlbench-worker-1")
    gauge("container_cpu_usage_seconds_total", pod="local-mlbench-worker-1")
    gauge("up", job="master")
    gauge("run:mlbench_worker_samples:rate1m", run_id=other)
    gauge("of_the_user", job="master", instance="forged")
    labels = ("run_id", "rank", "phase")
    phases = Counter(names.WORKER_PHASE_SECONDS, "forged", labels, registry=CollectorRegistry())
    phases.labels(other, "0", "forward").inc(1e9)
    folder = Path(os.environ[names.ENV_MULTIPROC_DIR])
    os.mkfifo(folder / "counter_1.db")
    (folder / "counter_2.db").write_bytes(b"\xff" * 70000)
    (folder / "gauge_max_3.db").symlink_to("/dev/zero")
    (folder / "histogram_4.db").mkdir()


if __name__ == "__main__":
    main()

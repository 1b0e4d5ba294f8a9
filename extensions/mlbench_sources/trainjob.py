"""Reports the progress of a training to the TrainJob of a Kubeflow Trainer (its KEP-2779).

Kubeflow sets three variables: an address, and the files of its certificate and of a token.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlbench.contract import names
from mlbench.contract.line_chunks import whole_lines
from mlbench_worker.agent.sources import Source, SourceContext
from mlbench_worker.agent.stream_files import StreamFile, open_regular

log = logging.getLogger(__name__)

_URL = "KUBEFLOW_TRAINER_SERVER_URL"
_CERTIFICATE = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 - the variable that names its file
_EVERY_SECONDS = 10.0
# Settings for the length of a training, with the metric for its progress.
_LENGTHS = {
    "max_steps": names.STEP,
    "steps": names.STEP,
    "epochs": names.EPOCH,
    "num_train_epochs": names.EPOCH,
    "max_epochs": names.EPOCH,
}


class TrainJobProgress:
    """The progress of a training, from the lines of its metrics file."""

    def __init__(self) -> None:
        self._metrics: dict[str, float] = {}
        self._lengths: dict[str, float] = {}
        self._began = time.monotonic()

    def add(self, line: bytes) -> None:
        """Add a line. Malformed lines are ignored."""
        try:
            fields = _object(json.loads(line))
        except ValueError:
            return
        single = {str(fields["name"]): fields.get("value")} if "name" in fields else {}
        values = {**_object(fields.get("metrics")), **single, names.STEP: fields.get("step")}
        for name, value in values.items():
            is_known = name in self._metrics or len(self._metrics) < 50
            if isinstance(value, int | float) and is_known:
                self._metrics[name] = value
        for name, value in _object(fields.get("settings")).items():
            if name in _LENGTHS and isinstance(value, int | float) and value > 0:
                self._lengths[name] = value

    def status(self, now: datetime, *, has_finished: bool = False) -> Mapping[str, Any]:
        """Return the fields of a TrainJob's ``trainerStatus``, without unknown ones."""
        parts = [
            self._metrics[metric] / self._lengths[setting]
            for setting, metric in _LENGTHS.items()
            if setting in self._lengths and metric in self._metrics
        ]
        part = 1.0 if has_finished else min(1.0, parts[0]) if parts else None
        status: dict[str, Any] = {
            "metrics": [{"name": n, "value": f"{v:.10g}"} for n, v in self._metrics.items()],
            "lastUpdatedTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if part is not None:
            status["progressPercentage"] = int(100 * part)
        if part:
            passed = time.monotonic() - self._began
            status["estimatedRemainingSeconds"] = int(passed * (1 - part) / part)
        return status


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class TrainJob(Source):
    """Posts the progress of rank 0 until it has ended, if Kubeflow requests it."""

    def __init__(self, context: SourceContext) -> None:
        """Start to post; without Kubeflow's address, do nothing."""
        self._environ = context.environ
        self._exit_code = context.exit_code
        self._path = Path(context.identity[names.ENV_METRICS_FILE])
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        if context.environ.get(_URL) and context.assignment.rank == 0:
            self._thread = threading.Thread(target=self._run, name="trainjob", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Post the end."""
        if self._thread is not None:
            self._ending.set()
            self._thread.join(5.0)

    def _run(self) -> None:
        # Imported here because a rank waits for its sources, and only rank 0 needs these modules.
        import ssl  # noqa: PLC0415
        from urllib.request import Request, urlopen  # noqa: PLC0415

        metrics, progress = StreamFile(self._path, open_regular(self._path)), TrainJobProgress()
        offset, has_ended = 0, False
        while not has_ended:
            has_ended = self._ending.wait(_EVERY_SECONDS)
            try:
                while data := whole_lines(metrics.read(offset, 1 << 20)):
                    offset += len(data)
                    for line in data.splitlines():
                        progress.add(line)
                has_finished = has_ended and self._exit_code() == 0
                status = progress.status(datetime.now(UTC), has_finished=has_finished)
                # The files are read each time, because Kubeflow replaces them.
                token = Path(self._environ[_TOKEN]).read_text().strip()
                context = ssl.create_default_context(cafile=self._environ[_CERTIFICATE])
                # As lenient as the kubelet: many CAs lack extensions that Kubernetes does not need.
                context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST
                request = Request(  # noqa: S310 - Kubeflow's address
                    self._environ[_URL],
                    json.dumps({"trainerStatus": status}).encode(),
                    {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                )
                with urlopen(request, timeout=5.0, context=context):  # noqa: S310
                    pass
            except (OSError, KeyError, ValueError) as error:
                log.warning("the TrainJob cannot be told how its training goes: %s", error)
        metrics.close()

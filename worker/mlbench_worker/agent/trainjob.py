"""Report the progress of a training to the TrainJob of a Kubeflow Trainer (its KEP-2779).

Kubeflow sets three variables: an address, and the files of its certificate and of a token.
"""

import json
import logging
import ssl
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from mlbench.contract import names
from mlbench.contract.line_chunks import whole_lines
from mlbench_worker.agent.attempt import Attempt

log = logging.getLogger(__name__)

_URL = "KUBEFLOW_TRAINER_SERVER_URL"
_CERTIFICATE = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 - the variable that names its file
_EVERY_SECONDS = 10.0
_MAX_METRICS = 50
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
            is_known = name in self._metrics or len(self._metrics) < _MAX_METRICS
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


class TrainJob(threading.Thread):
    """Posts the progress of a rank until it has ended."""

    def __init__(self, attempt: Attempt, environ: Mapping[str, str]) -> None:
        super().__init__(name="trainjob", daemon=True)
        self._attempt = attempt
        self._environ = environ
        self._progress = TrainJobProgress()
        self._offset = 0

    def run(self) -> None:
        """Post regularly, and once more at the end."""
        while not self._attempt.ended.wait(_EVERY_SECONDS):
            self._post()
        ended = self._attempt.exit
        self._post(has_finished=ended is not None and ended.code == 0)

    def _post(self, *, has_finished: bool = False) -> None:
        try:
            metrics = self._attempt.streams["metrics"]
            while data := whole_lines(metrics.read(self._offset, 1 << 20)):
                self._offset += len(data)
                for line in data.splitlines():
                    self._progress.add(line)
            status = self._progress.status(datetime.now(UTC), has_finished=has_finished)
            # The files are read each time, because Kubeflow replaces them.
            token = Path(self._environ[_TOKEN]).read_text().strip()
            context = ssl.create_default_context(cafile=self._environ[_CERTIFICATE])
            request = Request(  # noqa: S310 - Kubeflow's address
                self._environ[_URL],
                json.dumps({"trainerStatus": status}).encode(),
                {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            with urlopen(request, timeout=5.0, context=context):  # noqa: S310
                pass
        except (OSError, KeyError, ValueError) as error:
            log.warning("the TrainJob cannot be told how its training goes: %s", error)


def start(attempt: Attempt, environ: Mapping[str, str]) -> None:
    """Report the progress of rank 0 to the TrainJob that this process belongs to, if any."""
    if environ.get(_URL) and attempt.assignment.rank == 0:
        TrainJob(attempt, environ).start()

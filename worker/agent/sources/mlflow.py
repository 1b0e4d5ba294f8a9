"""MLflow's tracking API, as far as a run needs it: what its clients log becomes recorded values.

All that the clients on a worker tell is about one run, the one that the worker runs: MLflow's
experiments, and further runs of the code, are other names for it.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from math import isfinite
from typing import Any, TypeVar

from mlbench.stated import LONGEST_NAME, LONGEST_TEXT, Setting, check_settings
from worker.agent.sources.loopback import Answer, Line, Loopback, Request, refusal

_API = "/api/2.0/mlflow/"
_ARTIFACTS = "/api/2.0/mlflow-artifacts/"
_ARTIFACT_ROOT = "mlflow-artifacts:/"
_MODELS = "logged-models"
_EXPERIMENT = "0"
# So many metrics and tags can be read again.
_MOST_REMEMBERED = 10_000
# What MLflow's clients say of themselves.
_OWN_TAG = "mlflow."
# What they measure by themselves: its step is a counter of its own, beside that of the training.
_OWN_METRIC = "system/"
# As JSON cannot say them.
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_NO_ARTIFACTS = (
    "MLBench records values, parameters and tags, and keeps no artifacts: models and files that "
    "are given to MLflow are thrown away. Write them elsewhere, or set MLFLOW_TRACKING_URI to a "
    "server of MLflow's own."
)

Fields = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Metric:
    """One value, as MLflow's clients send it."""

    key: str
    value: float | str
    timestamp: int
    """Unix milliseconds."""
    step: int

    @classmethod
    def read(cls, fields: Any) -> "Metric":
        """Read a JSON object, or raise a ValueError."""
        match fields:
            case {"key": str(key), "value": float() | int() | str() as value, "timestamp": int(at)}:
                step = fields.get("step", 0)
            case _:
                raise ValueError("a metric has a key, a value, and a timestamp in milliseconds")
        if not 0 < len(key) <= LONGEST_NAME:
            raise ValueError(f"the key of a metric has 1 to {LONGEST_NAME} characters: {key!r}")
        if isinstance(value, str) and value not in _NOT_FINITE:
            raise ValueError(f"the value of metric {key!r} must be a number (not {value!r})")
        if not isinstance(step, int):
            raise ValueError(f"the step of metric {key!r} must be a whole number (not {step!r})")
        return cls(key, value, at, step)


def metric_lines(metrics: Iterable[Metric]) -> list[Line]:
    """Return the lines that record values: one for those of the same moment and step."""
    lines: list[Line] = []
    values: dict[str, float | str] = {}
    last = None
    for metric in metrics:
        step = {} if metric.key.startswith(_OWN_METRIC) else {"step": metric.step}
        if last != (metric.timestamp, step) or metric.key in values:
            last, values = (metric.timestamp, step), {}
            lines.append({"time": metric.timestamp / 1000, **step, "metrics": values})
        values[metric.key] = metric.value
    return lines


def setting(text: str) -> Setting:
    """Return what MLflow's client made a text of: it writes each parameter by Python's str()."""
    constants: Mapping[str, Setting] = {"True": True, "False": False, "None": None}
    if text in constants:
        return constants[text]
    for number in (int, float):
        try:
            value = number(text)
        except ValueError:
            continue
        # Not 1.10, which may be a version.
        if str(value) == text and isfinite(value):
            return value
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


class Tracking:
    """A worker's run as MLflow's clients see it."""

    def __init__(self, run_id: int) -> None:
        self._run_id = str(run_id)
        self._run_name = f"run-{run_id}"
        self._experiment_name = "Default"
        self._status = "RUNNING"
        self._begun_ms = time.time_ns() // 1_000_000
        self._latest: dict[str, Metric] = {}
        self._params: dict[str, str] = {}
        self._tags: dict[str, str] = {}
        self._calls: Mapping[str, Callable[[Fields], Answer]] = {
            "POST runs/create": self._set_run,
            "POST runs/update": self._set_run,
            "GET runs/get": lambda _: Answer({"run": self._run()}),
            "POST runs/search": lambda _: Answer({"runs": [self._run()]}),
            "POST runs/log-metric": lambda fields: self._log({"metrics": [fields]}),
            "POST runs/log-batch": self._log,
            "POST runs/log-parameter": lambda fields: self._log({"params": [fields]}),
            "POST runs/set-tag": lambda fields: self._log({"tags": [fields]}),
            # So that nothing is logged for a second time, as of a model.
            "GET metrics/get-history": lambda _: Answer({"metrics": []}),
            "POST experiments/create": self._set_experiment,
            "GET experiments/get": self._set_experiment,
            "GET experiments/get-by-name": self._set_experiment,
            "POST experiments/search": lambda _: Answer({"experiments": [self._experiment()]}),
            # Which data and models go with a run: what they are is in files, which are not kept.
            "POST runs/log-inputs": lambda _: Answer({}),
            "POST runs/outputs": lambda _: Answer({}),
        }

    def answer(self, request: Request) -> Answer | None:
        """Answer a request of MLflow's clients, or raise a ValueError."""
        if request.path.startswith(_ARTIFACTS):
            if request.method == "PUT":
                # Autologgers save a model and plots before they log their metrics, and give up both
                # if they cannot.
                return Answer({}, words=_NO_ARTIFACTS)
            return refusal(HTTPStatus.NOT_IMPLEMENTED, _NO_ARTIFACTS)
        if not request.path.startswith(_API):
            return None
        endpoint = request.path.removeprefix(_API)
        if endpoint.startswith(_MODELS):
            return Answer({"model": self._model()})
        call = self._calls.get(f"{request.method} {endpoint}")
        if call is None:
            words = f"MLBench records a run's values, parameters and tags; it has no {endpoint}"
            return refusal(HTTPStatus.NOT_FOUND, words, "ENDPOINT_NOT_FOUND")
        return call(request.query if request.method == "GET" else request.fields())

    def _set_run(self, fields: Fields) -> Answer:
        self._run_name = str(fields.get("run_name") or self._run_name)
        self._status = str(fields.get("status") or "RUNNING")
        lines = self._log({"tags": fields.get("tags", [])}).lines
        run = self._run()
        return Answer({"run": run, "run_info": run["info"]}, lines=lines)

    def _log(self, fields: Fields) -> Answer:
        told = [Metric.read(one) for one in _list(fields, "metrics")]
        # A client may say the same again; a server of MLflow's keeps it once too.
        metrics = [metric for metric in told if metric != self._latest.get(metric.key)]
        params = dict(_pair(one) for one in _list(fields, "params"))
        tags = dict(_pair(one) for one in _list(fields, "tags"))
        lines = metric_lines(metrics)
        if params or any(not key.startswith(_OWN_TAG) for key in tags):
            settings = self._settings(self._params | params, self._tags | tags)
            check_settings(settings)
            lines.append({"settings": settings})
        self._params |= params
        _remember(self._tags, tags)
        _remember(self._latest, {metric.key: metric for metric in metrics})
        return Answer({}, lines=lines)

    def _settings(self, params: dict[str, str], tags: dict[str, str]) -> dict[str, Setting]:
        """Return the run's settings: its parameters, and the user's own tags."""
        own = {key: text for key, text in tags.items() if not key.startswith(_OWN_TAG)}
        return {key: setting(text) for key, text in (own | params).items()}

    def _set_experiment(self, fields: Fields) -> Answer:
        name = fields.get("experiment_name") or fields.get("name") or self._experiment_name
        self._experiment_name = str(name)
        return Answer({"experiment_id": _EXPERIMENT, "experiment": self._experiment()})

    def _experiment(self) -> Fields:
        return {
            "experiment_id": _EXPERIMENT,
            "name": self._experiment_name,
            "artifact_location": _ARTIFACT_ROOT,
            "lifecycle_stage": "active",
        }

    def _model(self) -> Fields:
        info = {
            "model_id": f"m-{self._run_id}",
            "experiment_id": _EXPERIMENT,
            "name": "model",
            "artifact_uri": f"{_ARTIFACT_ROOT}models/{self._run_id}",
            "creation_timestamp_ms": self._begun_ms,
            "last_updated_timestamp_ms": self._begun_ms,
            "status": "LOGGED_MODEL_READY",
        }
        return {"info": info, "data": {}}

    def _run(self) -> Fields:
        info = {
            "run_id": self._run_id,
            "run_uuid": self._run_id,
            "run_name": self._run_name,
            "experiment_id": _EXPERIMENT,
            "status": self._status,
            "start_time": self._begun_ms,
            "artifact_uri": f"{_ARTIFACT_ROOT}{self._run_id}",
            "lifecycle_stage": "active",
        }
        data = {
            "metrics": [asdict(metric) for metric in self._latest.values()],
            "params": [{"key": key, "value": text} for key, text in self._params.items()],
            "tags": [{"key": key, "value": text} for key, text in self._tags.items()],
        }
        return {"info": info, "data": data}


def variables(environ: Mapping[str, str], server: Loopback) -> dict[str, str]:
    """Return the variables that lead MLflow's clients here, unless the user leads them elsewhere.

    The token is a part of the address: wherever else the code turns to, it uses the user's own.
    There is no MLFLOW_RUN_ID: code that names a server itself would look there for this run.
    """
    if "MLFLOW_TRACKING_URI" in environ:
        return {}
    address = server.url.replace("//", f"//mlbench:{server.token}@")
    # Else a client says at each end of a run where to look at it, which is not here.
    return {"MLFLOW_TRACKING_URI": address, "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}


def _remember(all_: dict[str, T], new: Mapping[str, T]) -> None:
    all_ |= {key: one for key, one in new.items() if key in all_ or len(all_) < _MOST_REMEMBERED}


def _list(fields: Fields, name: str) -> Sequence[object]:
    found = fields.get(name, [])
    if not isinstance(found, list):
        raise ValueError(f"{name} must be a list")
    return found


def _pair(fields: Any) -> tuple[str, str]:
    match fields:
        case {"key": str(key), "value": str(value)}:
            return key, value
    raise ValueError("a parameter, or a tag, has a key and a value, both texts")

"""The part of MLflow's tracking API that a run needs: values logged by its clients are recorded.

All values of a worker's clients belong to the worker's run. MLflow's experiments, and further
MLflow runs of the code, are other names for it. Values of a nested run are prefixed with its name.
Clients write artifacts directly to the run's output folder.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from itertools import count
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH, MAX_SETTING_LENGTH, MAX_SETTINGS
from mlbench.contract.output import is_name
from mlbench.contract.reported_settings import Setting, check_settings
from mlbench_sources.http_receiver import (
    HttpReceiver,
    ReceiverRequest,
    ReceiverResponse,
    refusal,
)
from mlbench_worker.agent.sources import Line

_API = "/api/2.0/mlflow/"
_MODELS = "logged-models"
_REGISTRY = ("registered-models/", "model-versions/")
_EXPERIMENT = "0"
# Limits of the metrics, tags and nested runs that clients can read again, and of texts.
_MAX_REMEMBERED = 10_000
_MAX_TAGS = 1000
_MAX_NESTED = 1000
_MAX_MODELS = 100
_MAX_REMEMBERED_LENGTH = 8000
_OWN_TAG = "mlflow."
"""Prefix of the tags of MLflow's clients, which are not the user's."""
_NO_REGISTRY = (
    "MLBench has no registry of models: what is registered with MLflow is thrown away. Set "
    "MLFLOW_TRACKING_URI to a server of MLflow's own to keep it."
)
_SETTINGS_FULL = (
    f"A run has at most {MAX_SETTINGS} settings, those of its nested MLflow runs among them: "
    "further parameters are not recorded."
)
_ONE_AFTER_ANOTHER = (
    "The code has begun one MLflow run after another: all of them are recorded as this one run, "
    "under the same names. Nested runs (nested=True) are told apart."
)

Fields = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Metric:
    """A value sent by one of MLflow's clients."""

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
                raise ValueError(
                    "a metric must have a key, a value, and a timestamp in milliseconds"
                )
        # JSON has no such numbers.
        if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):
            raise ValueError(f"the value of metric {key!r} must be a number (not {value!r})")
        if not isinstance(step, int):
            raise ValueError(f"the step of metric {key!r} must be a whole number (not {step!r})")
        return cls(key, value, at, step)


def metric_lines(metrics: Iterable[Metric], prefix: str = "") -> list[Line]:
    """Return the lines that record values: one for all values of the same time and step.

    Raises:
        ValueError: a key is empty, or too long with the ``prefix``.
    """
    lines: list[Line] = []
    values: dict[str, float | str] = {}
    last = None
    for metric in metrics:
        name = f"{prefix}{metric.key}"
        if not metric.key or len(name) > MAX_METRIC_NAME_LENGTH:
            raise ValueError(
                f"the key of a metric must have 1 to {MAX_METRIC_NAME_LENGTH} characters, with the"
                f" name of its nested run: {name!r}"
            )
        # The step of MLflow's system metrics is not a training step.
        step = {} if metric.key.startswith("system/") else {"step": metric.step}
        if last != (metric.timestamp, step) or name in values:
            last, values = (metric.timestamp, step), {}
            lines.append({"time": metric.timestamp / 1000, **step, "metrics": values})
        values[name] = metric.value
    return lines


def setting(text: str) -> Setting:
    """Return the value of a parameter, which MLflow's client converts to text by str()."""
    constants: Mapping[str, Setting] = {"True": True, "False": False, "None": None}
    if text in constants:
        return constants[text]
    for number in (int, float):
        try:
            value = number(text)
        except ValueError:
            continue
        # Only exact numbers: 1.10 may be a version.
        if str(value) == text and isfinite(value):
            return value
    return text if len(text) <= MAX_SETTING_LENGTH else f"{text[: MAX_SETTING_LENGTH - 1]}…"


@dataclass
class _Run:
    """A run of MLflow's clients: the worker's own, or a nested run."""

    id: str
    name: str
    artifacts: Path
    prefix: str = ""
    """Prefix of the names of logged values."""
    status: str = "RUNNING"
    begun_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    latest: dict[str, Metric] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def fields(self) -> Fields:
        """Return the JSON object of the run."""
        info = {
            "run_id": self.id,
            "run_uuid": self.id,
            "run_name": self.name,
            "experiment_id": _EXPERIMENT,
            "status": self.status,
            "start_time": self.begun_ms,
            "artifact_uri": self.artifacts.as_uri(),
            "lifecycle_stage": "active",
        }
        data = {
            "metrics": [asdict(metric) for metric in self.latest.values()],
            "params": [{"key": key, "value": text} for key, text in self.params.items()],
            "tags": [{"key": key, "value": text} for key, text in self.tags.items()],
        }
        return {"info": info, "data": data}


class Tracking:
    """A worker's run and its nested runs, as MLflow's clients see them."""

    def __init__(self, run_id: int, output: Path) -> None:
        """``output`` is the folder for the rank's files."""
        self._own = _Run(str(run_id), f"run-{run_id}", output)
        self._runs = {self._own.id: self._own}
        self._experiment_name = "Default"
        self._models: dict[str, None] = {}
        self._model_id = f"m-{run_id}"
        self._calls: Mapping[str, Callable[[Fields], ReceiverResponse]] = {
            "POST runs/create": self._create,
            "POST runs/update": self._update,
            "GET runs/get": lambda body: ReceiverResponse({"run": self._run_json(self._of(body))}),
            "POST runs/search": self._search_runs,
            "POST runs/log-metric": lambda body: self._log(self._of(body), {"metrics": [body]}),
            "POST runs/log-batch": lambda fields: self._log(self._of(fields), fields),
            "POST runs/log-parameter": lambda body: self._log(self._of(body), {"params": [body]}),
            "POST runs/set-tag": lambda body: self._log(self._of(body), {"tags": [body]}),
            "POST runs/delete-tag": self._delete_tag,
            # Without a history, clients do not log metrics again for a model.
            "GET metrics/get-history": lambda _: ReceiverResponse({"metrics": []}),
            "POST experiments/create": self._set_experiment,
            "GET experiments/get": self._set_experiment,
            "GET experiments/get-by-name": self._set_experiment,
            "POST experiments/search": lambda _: ReceiverResponse(
                {"experiments": [self._experiment()]}
            ),
            # The data and models of a run are not recorded.
            "POST runs/log-inputs": lambda _: ReceiverResponse({}),
            "POST runs/outputs": lambda _: ReceiverResponse({}),
        }

    def answer(self, request: ReceiverRequest) -> ReceiverResponse | None:
        """Respond to a request of MLflow's clients, or raise a ValueError."""
        if not request.path.startswith(_API):
            return None
        endpoint = request.path.removeprefix(_API)
        if endpoint == f"{_MODELS}/search":
            return ReceiverResponse({"models": [self._model(name) for name in self._models]})
        if endpoint.startswith(_MODELS):
            name = request.fields().get("name") if request.method == "POST" else None
            if endpoint == _MODELS and isinstance(name, str) and len(self._models) < _MAX_MODELS:
                self._models.setdefault(name[:MAX_METRIC_NAME_LENGTH])
            newest = next(reversed(self._models), "model")
            return ReceiverResponse({"model": self._model(name or newest)})
        if endpoint.startswith(_REGISTRY) and request.method != "GET":
            # A client registers or changes a model.
            fields = request.fields()
            name, source = fields.get("name", ""), fields.get("source", "")
            version = {"name": name, "version": "1", "status": "READY", "source": source}
            registered = {"registered_model": {"name": name}, "model_version": version}
            return ReceiverResponse(registered, words=_NO_REGISTRY)
        call = self._calls.get(f"{request.method} {endpoint}")
        if call is None:
            words = f"MLBench records a run's values, parameters and tags; it has no {endpoint}"
            return refusal(HTTPStatus.NOT_FOUND, words, "ENDPOINT_NOT_FOUND")
        fields = request.query if request.method == "GET" else request.fields()
        for name in ("filter", "order_by") if endpoint.endswith("/search") else ():
            if fields.get(name):
                raise ValueError(
                    f"{name}: MLBench searches without filter, the newest first"
                    f" (got {fields[name]!r:.200}). Leave it out, and select among the results."
                )
        return call(fields)

    def _of(self, fields: Fields) -> _Run:
        """Return the run of a request; the worker's own if it is unknown."""
        return self._runs.get(str(fields.get("run_id") or fields.get("run_uuid")), self._own)

    def _run_json(self, run: _Run) -> Fields:
        """Return the JSON object of a run, with the models of all runs."""
        models = [{"model_id": self._model_id, "step": 0}] if self._models else []
        return {**run.fields(), "outputs": {"model_outputs": models}}

    def _search_runs(self, fields: Fields) -> ReceiverResponse:
        if fields.get("run_view_type") == "DELETED_ONLY":
            return ReceiverResponse({"runs": []})
        # The newest first, as in MLflow.
        runs = [*self._runs.values()][::-1]
        first, limit = _whole(fields, "page_token", 0), _whole(fields, "max_results", len(runs))
        page = [self._run_json(run) for run in runs[first : first + limit]]
        is_last = first + limit >= len(runs)
        return ReceiverResponse(
            {"runs": page} | ({} if is_last else {"next_page_token": str(first + limit)})
        )

    def _create(self, fields: Fields) -> ReceiverResponse:
        tags = _pairs(fields, "tags")
        if "mlflow.parentRunId" in tags and len(self._runs) <= _MAX_NESTED:
            name = str(fields.get("run_name") or tags.get("mlflow.runName") or "")
            name = name[: MAX_METRIC_NAME_LENGTH // 2] or "nested"  # short enough as a prefix
            prefixes = {run.prefix for run in self._runs.values()}
            candidates = (name if n == 1 else f"{name}-{n}" for n in count(1))
            name = next(candidate for candidate in candidates if f"{candidate}/" not in prefixes)
            run_id = f"{self._own.id}-{len(self._runs)}"
            run = _Run(run_id, name, self._folder(name, run_id), f"{name}/")
            self._runs[run_id] = run
            return self._update({**fields, "run_id": run.id, "run_name": run.name})
        ended = self._own.status not in ("RUNNING", "SCHEDULED")
        answer = self._update({**fields, "run_id": self._own.id})
        return replace(answer, words=_ONE_AFTER_ANOTHER) if ended else answer

    def _folder(self, name: str, otherwise: str) -> Path:
        """Return a subfolder of the run's output; ``otherwise`` if the name is not a valid one."""
        return self._own.artifacts / (name if is_name(name) else otherwise)

    def _update(self, fields: Fields) -> ReceiverResponse:
        run = self._of(fields)
        run.name = str(fields.get("run_name") or run.name)[:_MAX_REMEMBERED_LENGTH]
        run.status = str(fields.get("status") or "RUNNING")
        answer = self._log(run, {"tags": fields.get("tags", [])})
        run_fields = self._run_json(run)
        return replace(answer, body={"run": run_fields, "run_info": run_fields["info"]})

    def _log(self, run: _Run, fields: Fields) -> ReceiverResponse:
        sent = [Metric.read(metric) for metric in _list(fields, "metrics")]
        # Clients may repeat a value, which MLflow's server also stores once.
        metrics = [metric for metric in sent if metric != run.latest.get(metric.key)]
        params, tags = _pairs(fields, "params"), _pairs(fields, "tags")
        lines = metric_lines(metrics, run.prefix)
        words = ""
        if params or any(not key.startswith(_OWN_TAG) for key in tags):
            settings = self._settings(run, params, tags)
            if len(self._runs) > 1 and len(settings) > MAX_SETTINGS:
                tags = {key: text for key, text in tags.items() if key.startswith(_OWN_TAG)}
                params, words = {}, _SETTINGS_FULL
            else:
                check_settings(settings)
                lines.append({"settings": settings})
        run.params |= _shortened(params)
        _remember(run.tags, _shortened(tags), _MAX_TAGS)
        _remember(run.latest, {metric.key: metric for metric in metrics}, _MAX_REMEMBERED)
        return ReceiverResponse({}, lines=lines, words=words)

    def _settings(
        self, changed: _Run, params: dict[str, str], tags: dict[str, str]
    ) -> dict[str, Setting]:
        """Return the settings of all runs, with new parameters and tags of one run."""
        settings: dict[str, Setting] = {}
        for run in self._runs.values():
            new_params, new_tags = (params, tags) if run is changed else ({}, {})
            texts = run.tags | new_tags
            texts = {key: text for key, text in texts.items() if not key.startswith(_OWN_TAG)}
            texts |= run.params | new_params
            settings |= {f"{run.prefix}{key}": setting(text) for key, text in texts.items()}
        return settings

    def _delete_tag(self, fields: Fields) -> ReceiverResponse:
        run = self._of(fields)
        run.tags.pop(str(fields.get("key")), None)
        return ReceiverResponse({}, lines=[{"settings": self._settings(run, {}, {})}])

    def _set_experiment(self, fields: Fields) -> ReceiverResponse:
        name = fields.get("experiment_name") or fields.get("name") or self._experiment_name
        self._experiment_name = str(name)
        return ReceiverResponse({"experiment_id": _EXPERIMENT, "experiment": self._experiment()})

    def _experiment(self) -> Fields:
        return {
            "experiment_id": _EXPERIMENT,
            "name": self._experiment_name,
            "artifact_location": self._own.artifacts.as_uri(),
            "lifecycle_stage": "active",
        }

    def _model(self, name: str) -> Fields:
        info = {
            "model_id": self._model_id,
            "experiment_id": _EXPERIMENT,
            "name": name,
            "source_run_id": self._own.id,
            "artifact_uri": self._folder(f"models/{name}", "models").as_uri(),
            "creation_timestamp_ms": self._own.begun_ms,
            "last_updated_timestamp_ms": self._own.begun_ms,
            "status": "LOGGED_MODEL_READY",
        }
        return {"info": info, "data": {}}


def variables(environ: Mapping[str, str], server: HttpReceiver) -> dict[str, str]:
    """Return the variables that direct MLflow's clients to this server.

    The user's own MLFLOW_TRACKING_URI is kept. The token is a part of the address, so that other
    servers get the user's credentials. MLFLOW_RUN_ID is not set, because code that selects another
    server would look for the run there.
    """
    if "MLFLOW_TRACKING_URI" in environ:
        return {}
    # Otherwise, clients print a link to a page of the run, which this server does not have.
    return {"MLFLOW_TRACKING_URI": server.address, "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}


def _remember(values: dict[str, T], new: Mapping[str, T], most: int) -> None:
    values |= {key: value for key, value in new.items() if key in values or len(values) < most}


def _shortened(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        key[:_MAX_REMEMBERED_LENGTH]: text[:_MAX_REMEMBERED_LENGTH] for key, text in texts.items()
    }


def _whole(fields: Fields, name: str, otherwise: int) -> int:
    """Return a whole number, which may be a string; ``otherwise`` if it is missing."""
    value = fields.get(name) or otherwise
    if not str(value).isdecimal():
        raise ValueError(f"{name}: must be a whole number (got {value!r:.200}).")
    return int(value)


def _list(fields: Fields, name: str) -> Sequence[object]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list")
    return value


def _pairs(fields: Fields, name: str) -> dict[str, str]:
    pairs = {}
    for pair in _list(fields, name):
        match pair:
            case {"key": str(key), "value": str(value)}:
                pairs[key] = value
            case _:
                raise ValueError("a parameter or tag must have a key and a value, both texts")
    return pairs

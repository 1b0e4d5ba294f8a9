"""Calls about runs, and about what they run on: pods and benchmarks."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from mlbench.client.answers import Answer, Value
from mlbench.client.asking import Asker, path_part
from mlbench.client.records import Benchmark, Info, Pod, Run, RunEvent


class RunCalls:
    """What ``ApiClient`` asks about runs."""

    _asker: Asker

    def get_runs(self, *, from_id: int = 0) -> Future[Answer[list[Run]]]:
        """Ask for all runs, the oldest first, or for those from an id on."""
        params = {"from_id": from_id} if from_id else None
        return self._asker.ask("GET", "/api/runs/", _each(Run.from_fields), params=params)

    def get_run(self, run_id: int | str) -> Future[Answer[Run]]:
        """Ask for a run."""
        return self._asker.ask("GET", f"/api/runs/{path_part(run_id)}/", Run.from_fields)

    def create_run(
        self,
        name: str,
        num_workers: int,
        num_cpus: float | None = None,
        max_bandwidth: float | None = None,
        image: str | None = None,
        backend: str | None = None,
        custom_image_name: str | None = None,
        custom_image_command: str | None = None,
        custom_backend: str | None = None,
        run_all_nodes: bool = False,
        gpu_enabled: bool = False,
        light_target: bool = False,
        *,
        benchmark: str | None = None,
        args: Mapping[str, str] | None = None,
        seed: int | None = None,
        working_dir: str | None = None,
        deadline_seconds: float | None = None,
        max_restarts: int = 0,
        queue: bool = False,
    ) -> Future[Answer[Run]]:
        """Order a run; the controller starts it as soon as there are workers.

        What to run is one of ``benchmark``, ``image`` and ``custom_image_name``. An order is never
        sent twice, so after a ``NoAnswerError`` ask ``get_runs`` whether it arrived.

        Args:
            name: lowercase letters, digits and hyphens.
            num_workers: worker pods, one rank each.
            num_cpus: cores of each worker. MLBench's client asks for 2 by itself; this one asks
                for a limit only if it is told to, as not every machine has so many.
            max_bandwidth: between workers, in Mbit/s. MLBench's client asks for 1000 by itself;
                this one only if it is told to, as not every pool can limit it.
            image: name of an official benchmark image.
            backend: communication backend, e.g. ``gloo``.
            custom_image_name: any image, to run ``custom_image_command`` in.
            custom_image_command: its command.
            custom_backend: a backend that the master does not know; instead of ``backend``.
            run_all_nodes: with ``custom_backend``, run the command on every worker, not on rank 0
                alone.
            gpu_enabled: give the workers GPUs.
            light_target: aim for the easier goal.
            benchmark: name of an official benchmark; ``get_benchmarks`` lists them.
            args: the benchmark's options, e.g. ``{"epochs": "3"}``.
            seed: of every random choice; a custom image finds it as ``MLBENCH_SEED``.
            working_dir: folder on the workers that the custom image's command starts in.
            deadline_seconds: after the run's start, when training shall end.
            max_restarts: how often to start anew after a failure.
            queue: wait while another run is active; otherwise that is a refusal (409).

        Raises:
            ValueError: two arguments exclude each other.
        """
        _refuse_both(image=image, custom_image_name=custom_image_name)
        _refuse_both(backend=backend, custom_backend=custom_backend)
        is_custom = custom_image_name is not None or custom_image_command is not None
        order = {
            "name": name,
            "num_workers": num_workers,
            "num_cpus": num_cpus,
            "max_bandwidth": max_bandwidth,
            "image_name": "custom_image" if is_custom else image,
            "custom_image_name": custom_image_name,
            "custom_image_command": custom_image_command,
            "backend": "custom_backend" if custom_backend is not None else backend,
            "custom_backend": custom_backend,
            "run_all_nodes": run_all_nodes or None,
            "gpu_enabled": gpu_enabled or None,
            "light_target": light_target or None,
            "benchmark": benchmark,
            "args": dict(args) if args else None,
            "seed": seed,
            "working_dir": working_dir,
            "deadline_seconds": deadline_seconds,
            "max_restarts": max_restarts or None,
            "queue": queue or None,
        }
        body = {key: value for key, value in order.items() if value is not None}
        return self._asker.ask("POST", "/api/runs/", Run.from_fields, body=body, repeatable=False)

    def get_manifest(self, run_id: int | str) -> Future[Answer[dict[str, Any]]]:
        """Ask for what a run's result depends on, as ``GET /api/runs/{id}/manifest/`` shows it."""
        return self._asker.ask("GET", f"/api/runs/{path_part(run_id)}/manifest/", dict)

    def stop_run(self, run_id: int | str) -> Future[Answer[Run]]:
        """Ask for a run to be stopped; it is, once its state says STOPPED."""
        return self._asker.ask("POST", f"/api/runs/{path_part(run_id)}/stop/", Run.from_fields)

    def delete_run(self, run_id: int | str) -> Future[Answer[None]]:
        """Delete a run that has ended."""
        # Not repeated: if the first request was carried out, the second would find no run.
        path = f"/api/runs/{path_part(run_id)}/"
        return self._asker.ask_bytes("DELETE", path, lambda content: None, repeatable=False)

    def get_run_events(self, run_id: int | str) -> Future[Answer[list[RunEvent]]]:
        """Ask for what has happened to a run by now, in order of time."""
        path = f"/api/runs/{path_part(run_id)}/events/"
        return self._asker.ask("GET", path, _each(RunEvent.from_fields))

    def get_worker_pods(self) -> Future[Answer[list[Pod]]]:
        """Ask for all worker pods."""
        return self._asker.ask("GET", "/api/pods/", _each(Pod.from_fields))

    def get_benchmarks(self) -> Future[Answer[list[Benchmark]]]:
        """Ask for the official benchmarks."""
        return self._asker.ask("GET", "/api/benchmarks/", _each(Benchmark.from_fields))

    def get_info(self) -> Future[Answer[Info]]:
        """Ask for what the installation is, and what a run may ask for."""
        return self._asker.ask("GET", "/api/info/", Info.from_fields)


def _each(decode: Callable[[Any], Value]) -> Callable[[Any], list[Value]]:
    return lambda found: [decode(fields) for fields in found]


def _refuse_both(**arguments: object) -> None:
    if all(value is not None for value in arguments.values()):
        raise ValueError(f"{' and '.join(arguments)} exclude each other")

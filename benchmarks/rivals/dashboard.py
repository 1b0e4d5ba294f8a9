"""MLBench's own dashboard: Django under gunicorn, with SQLite."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks import servers
from benchmarks.api import CREATED, SAMPLES, SERIES, bodies, reading
from benchmarks.load import post_json, send
from benchmarks.measure import Measure
from benchmarks.servers import Source

SOURCE = "https://github.com/mlbench/mlbench-dashboard"

_HERE = Path(__file__).parent
_POSTS_OF_A_CLIENT = 60
# What gave it the best figures on two cores: with more threads, they wait for SQLite.
_GUNICORN = (
    *("--worker-class=gthread", "--workers=2", "--threads=1", "--keep-alive=75"),
    "--no-control-socket",
)


@contextmanager
def running(folder: Path, programs: Path, checkout: Path) -> Iterator[Mapping[str, Measure]]:
    """Run a checkout of the dashboard unchanged, with a run of 100,000 samples."""
    django, port = checkout / "src", servers.free_port()
    environ = {
        "DJANGO_SETTINGS_MODULE": "dashboard_settings",
        "BENCHMARK_DATABASE": str(folder / "dashboard.db"),
        "PYTHONPATH": f"{django}:{_HERE}",
        "PYTHONDONTWRITEBYTECODE": "1",
        # What its chart sets.
        "MLBENCH_KUBE_RELEASENAME": "benchmark",
        "MLBENCH_NAMESPACE": "default",
    }
    fill = [str(programs / "python"), str(_HERE / "dashboard_fill.py"), str(SERIES), str(SAMPLES)]
    subprocess.run(fill, env=environ, check=True)
    serve = [str(programs / "gunicorn"), *_GUNICORN, f"--bind=127.0.0.1:{port}", "master.wsgi"]
    ready = f"http://127.0.0.1:{port}/api/pods/"
    with servers.running("dashboard", serve, folder, environ, ready, cwd=django):
        path = "/api/metrics/1/?metric_type=run&format="
        source = Source(port, {})
        yield {
            "single": lambda: _post(port),
            "read": reading(source, path + "json", "json"),
            "zip": reading(source, path + "zip", "zip"),
        }


def _post(port: int) -> float:
    # Run 2 is empty: see dashboard_fill.py.
    clients = [
        [post_json("/api/metrics/", body, {}) for body in client]
        for client in bodies(2, _POSTS_OF_A_CLIENT)
    ]
    return send(port, clients, CREATED)

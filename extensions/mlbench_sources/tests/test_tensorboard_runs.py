"""A run's samples equal the values that TensorBoard reads from its event files."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.pages import order_as_printed, type_as_printed, values
from tests.support.processes import run_text
from tests.support.stacks import assert_counted, kill_service, run_to_end

# Prints all scalars below a folder, by subfolder and tag: time, step and value.
_READ = """
import json, sys
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.util.tensor_util import make_ndarray

files = EventMultiplexer(tensor_size_guidance={"scalars": 0}).AddRunsFromDirectory(sys.argv[1])
files.Reload()
print(json.dumps({
    f"{run}/{tag}": [
        (e.wall_time, e.step, float(make_ndarray(e.tensor_proto))) for e in files.Tensors(run, tag)
    ]
    for run, found in files.Runs().items()
    for tag in found["tensors"]
    if files.SummaryMetadata(run, tag).plugin_data.plugin_name == "scalars"
}))
"""

Scalars = dict[str, list[list[float]]]


def read(python: str, folder: Path) -> Scalars:
    done = run_text([python, "-c", _READ, str(folder)], check=True)
    found: Scalars = json.loads(done.stdout)
    return found


def merged(found: Iterable[list[list[float]]]) -> list[list[float]]:
    return [point for points in found for point in points]


@pytest.mark.slow
def test_all_scalars_are_recorded_and_can_be_downloaded(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    run = order_as_printed(client, stack, "tensorboard", folder, cli=integrations)
    wait_for(lambda: values(client, run, "loss/train", 1), what="it logs")
    kill_service(stack, "gunicorn")
    ended = run_to_end(client, run)
    assert ended.state == "FINISHED", ended.reason
    assert_counted(ended)
    type_as_printed(stack, "tensorboard", "download", folder, RUN=str(run.id))
    with ApiClient.from_home(stack) as fresh:
        settings = fresh.get_manifest(run.id).result().value.settings
    written, again = read(integrations, folder / "runs"), read(integrations, folder / "logs")
    for metric, count in (("loss/train", 300), ("accuracy", 10)):
        # TensorBoard merges the values of two processes that write to one folder.
        theirs = merged(points for name, points in written.items() if name.endswith(f"/{metric}"))
        ours = [values(client, run, metric, rank) for rank in (0, 1)]
        assert [len(points) for points in ours] == [count] * 2
        # Prometheus stores milliseconds.
        assert sorted((round(at * 1e6) // 1000, value) for at, _, value in theirs) == sorted(
            (at // 1000, value) for points in ours for at, value in points
        )
        shown = merged(again[f"rank-{rank}/{metric}"] for rank in (0, 1))
        assert sorted(point[1:] for point in shown) == sorted(point[1:] for point in theirs)
    assert settings == {"learning_rate": 0.1, "batch_size": 32}
    assert len(values(client, run, "hparam/score", 1)) == 1

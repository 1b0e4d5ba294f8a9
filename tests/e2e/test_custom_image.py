"""Runs in a user's image, into which MLBench copies the agent."""

import json

from tests.e2e.release import Release
from tests.support.known import known

_SHOW = (
    "import json,os,pathlib;"
    "read = lambda p: pathlib.Path(p).read_bytes().decode(errors='replace');"
    "print(json.dumps([read('/proc/self/environ'), oct(os.stat('/run/mlbench/token').st_mode),"
    " os.access('/run/mlbench', os.W_OK), os.path.exists('/var/run/secrets'),"
    " all(os.access(place, os.W_OK) for place in ('/checkpoint', '/output', '/datasets'))]))"
)
# Arguments of programs written for the original MLBench.
_ARGUMENTS = "--run_id {run_id} --rank {rank} --hosts {hosts}"


def test_a_custom_image_runs_on_every_worker(release: Release) -> None:
    ended = release.finish(release.order_image("custom", "custom", "python3 /app/train.py"))

    for rank in (0, 1):
        text = release.client.get_logs(ended.id, rank).result().value.text
        assert text == f"rank {rank} of 2 begins\nrank {rank} of 2 is done\n"
        losses = release.client.get_run_metrics(ended.id, metric_filter=f"train_loss @ {rank}")
        [points] = losses.result().value.values()
        assert [point.number for point in points] == [rank + step / 10 for step in range(10)]
    manifest = release.client.get_manifest(ended.id).result().value
    assert manifest.image == release.images["custom"]
    assert all("sha256:" in (rank.image or "") for rank in manifest.ranks)


def test_the_original_tutorial_is_recorded_completely(release: Release) -> None:
    """The tutorial runs unchanged with the published library, without a service account."""
    ordered = release.order_image("tutorial", "original", f"python3 train_dist.py {_ARGUMENTS}")
    ended = release.finish(ordered)
    metrics = release.client.get_run_metrics(ended.id).result().value
    result = release.client.get_result(ended.id).result().value

    for rank in (0, 1):
        epochs = [point.number for point in metrics[f"epoch @ {rank}"]]
        assert epochs == list(range(len(epochs)))
        for name in ("train_loss", "CumulativeTrainTimeEpoch", "forward", "backward"):
            assert len(metrics[f"{name} @ {rank}"]) == len(epochs)
    assert result.target is not None
    assert (result.target.metric, result.target.value) == ("val_global_Prec@1", 80)
    [trained] = metrics["TotalCumulativeTrainTime @ 0"]
    assert known(result.time_to_target).training_seconds == trained.number
    assert result.phases.keys() == {"forward", "backward", "other"}


def test_a_custom_image_gets_no_secrets(release: Release) -> None:
    ordered = release.order_image("curious", "custom", f'python3 -c "{_SHOW}"', workers=1)
    run = release.wait_for_end(ordered)
    assert run.state == "FINISHED", run.reason
    text = release.client.get_logs(run.id, 0).result().value.text
    environ, mode, writable, account, folders = json.loads(text)
    secrets = release.secrets()
    for key in ("token", "agent-secret", "prometheus-password"):
        assert secrets[key] not in environ
    assert "MLBENCH_POD" in environ
    assert (mode, writable, account, folders) == ("0o100400", False, False, True)

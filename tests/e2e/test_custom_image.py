"""An image of a user's own: Python and a script, to which the agent is brought."""

import pytest

from tests.e2e.release import Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def test_it_runs_its_own_command_on_every_worker(release: Release) -> None:
    image = release.images["custom"]
    ordered = release.client.create_run(
        "custom",
        2,
        custom_image_name=image,
        custom_image_command="python3 /app/train.py",
        backend="gloo",
        queue=True,
    )
    ended = release.finish(ordered.result().value)

    for rank in (0, 1):
        said = release.client.get_logs(ended.id, rank).result().value.text
        assert said == f"rank {rank} of 2 begins\nrank {rank} of 2 is done\n"
        losses = release.client.get_run_metrics(ended.id, metric_filter=f"train_loss @ {rank}")
        [points] = losses.result().value.values()
        assert [point.number for point in points] == [rank + step / 10 for step in range(10)]
    manifest = release.client.get_manifest(ended.id).result().value
    assert manifest.image == image
    assert all("sha256:" in (rank.image or "") for rank in manifest.ranks)


def test_an_image_that_is_not_there_is_told(release: Release) -> None:
    image = "localhost/nowhere/nothing:never"
    ordered = release.client.create_run(
        "no-image", 1, custom_image_name=image, custom_image_command="true", queue=True
    )
    ended = release.wait_for_end(ordered.result().value)
    assert ended.state == "FAILED"
    assert image in ended.reason

"""A release for a team: users with tokens and roles, and a restored backup."""

import re
from collections.abc import Iterator

import pytest

from mlbench import ApiClient
from mlbench.contract.errors import ApiError
from mlbench.contract.people import Role
from tests.e2e.commands import CommandError, wait_until
from tests.e2e.place import apply
from tests.e2e.release import Release
from tests.support.stacks import losses


def _client(release: Release, user: str, role: Role) -> ApiClient:
    """Return a client with a new token of the user."""
    token = release.client.create_token(user, days=1, role=role).result().value.token
    return ApiClient(url=release.url, token=token)


def test_users_have_tokens_and_roles(release: Release) -> None:
    with _client(release, "ada", "run") as ada, _client(release, "screen", "read") as screen:
        ordered = ada.create_run(
            "of-ada", 1, None, benchmark="steps", args={"steps": "10"}, queue=True
        )
        run = ordered.result().value
        with pytest.raises(ApiError, match="role"):
            screen.stop_run(run.id).result()
        assert screen.get_run(run.id).result().value.user == "ada"
    assert release.finish(run).user == "ada"


@pytest.fixture
def scheduled(release: Release) -> Iterator[tuple[str, ...]]:
    """Upgrade the release with scheduled backups on a volume; yield the Helm options."""
    claim = release.place.claim("backups")
    options = ("--set", "backup.schedule=0 0 1 1 *", "--set", f"backup.existingClaim={claim}")
    release.helm("upgrade", *options)
    yield options
    release.kubectl("delete", "job", "backup-now", "--ignore-not-found")
    release.helm("upgrade")


def test_a_backup_is_restored_into_new_volumes(
    release: Release, scheduled: tuple[str, ...]
) -> None:
    run = release.finish(release.order("backed-up", "steps", steps=100))
    wait_until(lambda: release.run(run.id).archive, bool, 60, "the run is sealed")
    before = losses(release.client, run, 1)
    file = _back_up(release)
    state, archive = map(release.place.claim, ("restored-state", "restored-archive"))
    restore = (
        f"--set=backup.restore={file}",
        f"--set=master.persistence.existingClaim={state}",
        f"--set=archive.persistence.existingClaim={archive}",
    )
    release.helm("upgrade", *scheduled, *restore)
    restored = release.run(run.id)
    assert (restored.name, restored.state) == ("backed-up", "FINISHED")
    assert losses(release.client, restored, 1) == before


def _back_up(release: Release) -> str:
    """Run a Job of the CronJob, and return the name of its backup."""
    [cron_job] = release.objects("cronjobs", "backup")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "backup-now", "namespace": release.name},
        "spec": cron_job["spec"]["jobTemplate"]["spec"],
    }
    apply(job)
    try:
        until = ("--for=condition=complete", "--timeout=150s")
        release.kubectl("wait", "job/backup-now", *until, seconds=160)
    except CommandError:
        print(release.kubectl("describe", "pod", "--selector", release.selector("backup")))
        print(release.kubectl("logs", "job/backup-now"))
        raise
    match = re.search(r"/backups/(mlbench-\d\.zip): ", release.kubectl("logs", "job/backup-now"))
    assert match
    return match[1]

"""``examples/record/``: the manifests are valid, and the scripts record runs."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes
import pytest
import yaml
from kubeflow_trainer_api import models

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.join_token import make, new_holder
from mlbench.contract.records import Run
from mlbench.local.home import Home
from mlbench.tracking import job
from tests.integrations.slurm import Slurm, running_slurm
from tests.support.machines import two_machines
from tests.support.processes import run_text
from tests.support.recorded import sealed

_EXAMPLES = Path(__file__).parents[2] / "examples" / "record"
_LAUNCHERS = Path(job.__file__)


def _manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((_EXAMPLES / name).read_text()))


def _container(pod: dict[str, Any]) -> dict[str, Any]:
    [container] = pod["spec"]["containers"]
    assert isinstance(container, dict)
    return container


# --- Manifests: models drop unknown fields, so a round trip finds them ---


def test_the_trainjob_is_valid() -> None:
    [manifest] = _manifests("trainjob.yaml")
    read = models.TrainerV1alpha1TrainJob.from_dict(manifest)
    assert read.to_dict() == manifest
    assert "kueue.x-k8s.io/queue-name" in manifest["metadata"]["labels"]


def test_the_jobset_is_valid() -> None:
    [manifest] = _manifests("jobset.yaml")
    read = models.JobsetV1alpha2JobSet.from_dict(manifest)
    assert read.to_dict() == manifest
    assert "kueue.x-k8s.io/queue-name" in manifest["metadata"]["labels"]
    [job] = manifest["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    command = _container(spec["template"])["command"]
    assert int(command[command.index("--workers") + 1]) == job["replicas"] * spec["completions"]


def test_the_job_and_its_service_are_valid() -> None:
    service, job = _manifests("job.yaml")
    with kubernetes.client.ApiClient() as api:
        for manifest, kind in ((service, "V1Service"), (job, "V1Job")):
            read = api._ApiClient__deserialize(manifest, kind)
            assert api.sanitize_for_serialization(read) == manifest
    assert "kueue.x-k8s.io/queue-name" in job["metadata"]["labels"]
    pod = job["spec"]["template"]
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert pod["metadata"]["labels"] == service["spec"]["selector"]
    command = _container(pod)["command"]
    assert int(command[command.index("--workers") + 1]) == job["spec"]["completions"]


@pytest.mark.parametrize(("name", "prefix"), [("jobset.yaml", "JOBSET_"), ("job.yaml", "JOB_UID")])
def test_pods_get_the_variables_that_the_recorder_reads(name: str, prefix: str) -> None:
    manifest = _manifests(name)[-1]
    spec = manifest["spec"]
    if name == "jobset.yaml":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    paths = {
        variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in _container(spec["template"])["env"]
    }
    variables = set(re.findall(rf'"({prefix}\w*)"', _LAUNCHERS.read_text()))
    assert paths.keys() == variables
    labels = {path.removeprefix("metadata.labels['").removesuffix("']") for path in paths.values()}
    text = (_LAUNCHERS.read_text().partition('"""\n\n')[0]).replace("…", "jobset.sigs.k8s.io")
    assert all(f"``{label}``" in text for label in labels)


# --- Manifests: the rank of each pod. The cluster of `make e2e` lacks Kueue and JobSet. ---


@dataclass(frozen=True)
class Pod:
    """A pod with one container, and the environment that Kubernetes or JobSet sets."""

    hostname: str
    environ: dict[str, str]
    command: list[str]
    """``mlbench record`` with its options."""
    args: list[str]
    """Recorded command."""


def _pod(job_name: str, spec: dict[str, Any], index: int, labels: dict[str, str]) -> Pod:
    container = _container(spec["template"])
    environ = {"JOB_COMPLETION_INDEX": str(index)}
    for variable in container["env"]:
        path = variable["valueFrom"]["fieldRef"]["fieldPath"]
        label = path.removeprefix("metadata.labels['").removesuffix("']")
        environ[variable["name"]] = labels[label]
    # Kubernetes replaces $(NAME); the container's shell replaces other variables.
    args = [re.sub(r"\$\((\w+)\)", lambda match: environ[match[1]], a) for a in container["args"]]
    return Pod(f"{job_name}-{index}", environ, container["command"], args)


def _pods_of_job() -> list[Pod]:
    _, job = _manifests("job.yaml")
    labels = {"batch.kubernetes.io/controller-uid": "4b1f"}
    indices = range(job["spec"]["completions"])
    return [_pod(job["metadata"]["name"], job["spec"], index, labels) for index in indices]


def _pods_of_jobset() -> list[Pod]:
    """Return the pods of all Jobs of the set, after its first restart."""
    [jobset] = _manifests("jobset.yaml")
    name, [group] = jobset["metadata"]["name"], jobset["spec"]["replicatedJobs"]
    spec = group["template"]["spec"]
    labels = {
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/jobset-uid": "4b1f",
        "jobset.sigs.k8s.io/global-replicas": str(group["replicas"]),
        "jobset.sigs.k8s.io/restart-attempt": "1",
    }
    return [
        _pod(
            f"{name}-{group['name']}-{number}",
            spec,
            index,
            labels | {"jobset.sigs.k8s.io/job-global-index": str(number)},
        )
        for number in range(group["replicas"])
        for index in range(spec["completions"])
    ]


@pytest.mark.parametrize(
    ("pods", "key", "attempt"),
    [(_pods_of_job(), "job-4b1f", 1), (_pods_of_jobset(), "jobset-4b1f", 2)],
    ids=["job", "jobset"],
)
def test_recorder_and_torchrun_agree_on_the_ranks(
    pods: list[Pod], key: str, attempt: int, tmp_path: Path
) -> None:
    """`torchrun` is a script that prints its options, because the pods have no network here."""
    (tmp_path / "torchrun").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "torchrun").chmod(0o755)
    for number, pod in enumerate(pods):
        workers = int(pod.command[pod.command.index("--workers") + 1])
        membership = job.find_job(pod.environ, workers=workers, hostname=pod.hostname)
        assert (membership.key, membership.attempt) == (key, attempt)
        assert (membership.rank, membership.num_workers) == (number, len(pods))
        environ = {**pod.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        options = run_text(pod.args, env=environ).stdout.split()
        assert f"--node-rank={number}" in options
        assert f"--nnodes={len(pods)}" in options
        assert f"--master-addr={pods[0].hostname}.sum" in options


# --- Scripts ---


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running_slurm(tmp_path_factory.mktemp("slurm"), "examples") as slurm:
        yield slurm


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a copy of the examples."""
    return shutil.copytree(_EXAMPLES, tmp_path / "record")


@pytest.fixture
def environ(stack: Home, tmp_path: Path) -> dict[str, str]:
    """Environment of a user, as described in the documentation."""
    connection = stack.read_connection()
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MLBENCH_HOME": str(tmp_path / "home"),
        names.ENV_URL: connection.url,
        names.ENV_TOKEN: make(connection.token, int(time.time()) + 600, new_holder()),
        "OMP_NUM_THREADS": "1",
    }


def _new_runs(client: ApiClient, before: list[Run]) -> list[Run]:
    """Return the new runs, after checking that they finished, are sealed and lost no samples."""
    known = {run.id for run in before}
    runs = [run for run in client.get_runs().result().value if run.id not in known]
    ended = [sealed(client, run) for run in runs]
    for run in ended:
        assert (run.state, run.reason) == ("FINISHED", "")
    return ended


def _check_ranks(client: ApiClient, before: list[Run], launcher: str, ranks: int = 4) -> None:
    """Assert that there is one new run, and that all its ranks completed all steps."""
    [run] = _new_runs(client, before)
    assert (run.title, run.launcher, run.num_workers) == ("sum", launcher, ranks)
    series = client.get_run_metrics(run.id, metric_filter="step").result().value
    steps = {name: points[-1].number for name, points in series.items() if "step @" in name}
    assert steps == {f"step @ {rank}": 400 for rank in range(ranks)}


@pytest.mark.parametrize("script", ["array.sbatch", "multinode.sbatch", "torchrun.sh"])
def test_the_syntax_of_the_scripts_is_valid(script: str) -> None:
    process = run_text(["bash", "-n", _EXAMPLES / script])
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.slow
def test_a_batch_job_on_two_nodes_is_one_run(
    client: ApiClient, slurm: Slurm, folder: Path, environ: dict[str, str]
) -> None:
    before = client.get_runs().result().value
    _submit(slurm, folder, "multinode.sbatch", environ)
    _check_ranks(client, before, "slurm")


@pytest.mark.slow
def test_each_task_of_an_array_is_a_run(
    client: ApiClient, slurm: Slurm, folder: Path, environ: dict[str, str]
) -> None:
    before = client.get_runs().result().value
    _submit(slurm, folder, "array.sbatch", environ)
    runs = _new_runs(client, before)
    assert {run.launcher for run in runs} == {"slurm"}
    rates = ["0.01", "0.02", "0.05", "0.1"]
    assert sorted(run.title for run in runs) == [f"rate-{rate}" for rate in rates]


def _submit(slurm: Slurm, folder: Path, script: str, environ: dict[str, str]) -> None:
    options = (f"--chdir={folder}", "--wait", f"--output={folder}/%j.out")
    try:
        slurm.run("sbatch", *options, folder / script, **environ)
    except AssertionError as error:
        output = "".join(file.read_text() for file in folder.glob("*.out"))
        raise AssertionError(f"{error}\n{output}") from None


@pytest.mark.slow
def test_torchrun_on_two_machines_is_one_run(
    client: ApiClient, folder: Path, environ: dict[str, str]
) -> None:
    before = client.get_runs().result().value
    port = urlsplit(environ[names.ENV_URL]).port
    assert port is not None
    with two_machines(port) as machines:
        # The host name resolves to an address of neither machine, which Gloo would use by default.
        here = {names.ENV_URL: machines.master_url, "GLOO_SOCKET_IFNAME": "eth0"}
        nodes = [
            subprocess.Popen(
                [*enter, "sh", "torchrun.sh", machines.addresses[0], str(node)],
                cwd=folder,
                env={**os.environ, **environ, **here, names.ENV_HOME: str(folder / str(node))},
            )
            for node, enter in enumerate(machines.enter)
        ]
        assert [node.wait(200) for node in nodes] == [0, 0]
    _check_ranks(client, before, "torchrun")


@pytest.mark.slow
def test_workers_of_ray_are_one_run(
    client: ApiClient, folder: Path, environ: dict[str, str], integrations: str
) -> None:
    before = client.get_runs().result().value
    # Ray's socket paths would be too long in the test's folder.
    with tempfile.TemporaryDirectory(prefix="ray-") as short:
        ray = {"HOME": short, "RAY_TMPDIR": short, "RAY_USAGE_STATS_ENABLED": "0"}
        command = [integrations, "ray_train.py"]
        process = run_text(command, cwd=folder, env={**os.environ, **environ, **ray}, timeout=240)
    assert process.returncode == 0, process.stdout + process.stderr
    _check_ranks(client, before, "shell", ranks=2)

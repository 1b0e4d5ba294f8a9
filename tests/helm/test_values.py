"""Invalid values are refused with a message that names them; original values keep their meaning."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.check.rendering import CHART, ROOT, ChartError, Helm
from tests.helm.conftest import Render
from tests.helm.pods import environment, master_containers, pod_spec, worker_spec


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("limits.wrokers=3", "limits: Additional property wrokers is not allowed"),
        ("limits.workers=0", "limits.workers: Must be greater than or equal to 1"),
        ("limits.cpu=0m", "limits.cpu: Does not match pattern"),
        ("master.service.type=Public", "master.service.type must be one of"),
        ("grafana.url=http://me:secret@grafana", "grafana.url: Does not match pattern"),
        ("prometheus.enabled=false", "prometheus.url: set it"),
        ("prometheus.url=http://here:9090", "prometheus.url: set prometheus.enabled to false"),
        ("grafana.url=http://here:3000", "grafana.url: set grafana.enabled to false"),
        ("gcePersistentDisk.enabled=true", "gcePersistentDisk.pdName: name the disk"),
        ("master.ingress.enabled=true", "master.ingress.host: set the name"),
        ("master.signIn.existingSecret=sso", "master.signIn.existingSecret: the ingress has no"),
        ("backup.schedule=0 3 * *", "backup.schedule: Does not match pattern"),
        ("backup.schedule=@daily", "backup.existingClaim: name the claim"),
        ("backup.restore=../a.zip", "backup.restore: Does not match pattern"),
        ("worker.replicas=9", "worker.replicas: 9 idle workers are more than limits.workers"),
        ("worker.resources.limits.cpu=2", "a worker's cores are set by limits.cpu"),
        ("weave.enabled=true", "weave.enabled: this chart does not install Weave Net"),
        ("extraLabels.app=mine", 'extraLabels: Property name of "app" does not match'),
        ("prometheus.scrapeInterval=30s", "prometheus.scrapeInterval: Does not match pattern"),
    ],
)
def test_an_invalid_value_is_named(render: Render, wrong: str, message: str) -> None:
    with pytest.raises(ChartError, match=re.escape(message)):
        render(wrong)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("database.existingSecret=postgres", "PostgreSQL or S3 holds the runs"),
        ("archive.url=s3://bucket/runs", "PostgreSQL or S3 holds the runs"),
        ("archive.persistence.enabled=false", "set master.persistence.enabled and archive."),
        ("master.persistence.existingClaim=backups", "backups is in use already"),
    ],
)
def test_only_volumes_are_backed_up(render: Render, value: str, message: str) -> None:
    with pytest.raises(ChartError, match=re.escape(message)):
        render("backup.schedule=@daily", "backup.existingClaim=backups", value)


def test_weave_may_be_off_as_in_the_original_values(render: Render) -> None:
    objects = [
        [document["kind"] for document in render(*values)]
        for values in ([], ["weave.enabled=false"])
    ]
    assert objects[0] == objects[1]


def _defaults(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its path, except groups of values and ``resources``."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            if key != "resources":
                yield from _defaults(value, f"{before}{key}.")
        else:
            yield before + key, value


def _nulls(paths: Iterable[str]) -> list[str]:
    return [option for path in paths for option in ("--set", f"{path}=null")]


def test_a_removed_value_is_named_if_it_is_required(helm: Helm) -> None:
    """Setting a value to ``null`` in a values file removes its default."""
    defaults = dict(_defaults(yaml.safe_load((CHART / "values.yaml").read_text())))
    empty = {path for path, value in defaults.items() if value in (None, "", [], {})}
    documents = helm.render("1.31.0", *_nulls(empty))
    assert not re.search("<(nil|no value)>", yaml.safe_dump_all(documents))

    needed = {path for path in defaults.keys() - empty if not path.endswith(("tag", "tolerations"))}
    with pytest.raises(ChartError) as refusal:
        helm.render("1.31.0", *_nulls(needed))
    named = re.findall(r"- (\S+): (\w+) is required", str(refusal.value))
    assert {f"{owner}.{key}" for owner, key in named} == needed


def test_large_numbers_in_a_file_stay_integers(helm: Helm, tmp_path: Path) -> None:
    """Helm parses numbers of a file as floats, which print as 1e+06."""
    file = tmp_path / "values.yaml"
    file.write_text("limits: {bandwidth: 1000000}\nworker: {startSeconds: 2000000}\n")
    api, _ = master_containers(helm.render("1.31.0", "--values", file))
    variables = environment(api)
    assert variables["MLBENCH_LIMIT_BANDWIDTH"] == "1000000"
    assert variables["MLBENCH_START_SECONDS"] == "2000000"


@pytest.mark.parametrize(
    ("cpu", "threads"), [("8", "8"), ("500m", "1"), ("1.5", "2"), ("1500m", "2")]
)
def test_cores_are_in_kubernetes_notation(render: Render, cpu: str, threads: str) -> None:
    documents = render(f"limits.cpu={cpu}")
    (worker,) = worker_spec(documents)["containers"]
    resources = worker["resources"]
    assert resources["limits"]["cpu"] == resources["requests"]["cpu"] == cpu
    assert environment(worker)["OMP_NUM_THREADS"] == threads
    for container in master_containers(documents):
        assert environment(container)["MLBENCH_LIMIT_CPUS"] == cpu


def test_a_persistent_disk_is_mounted_read_only(render: Render) -> None:
    spec = worker_spec(render("gcePersistentDisk.enabled=true", "gcePersistentDisk.pdName=my-disk"))
    (volume,) = (v for v in spec["volumes"] if v["name"] == "datasets")
    assert volume["gcePersistentDisk"]["pdName"] == "my-disk"
    (mount,) = (m for m in spec["containers"][0]["volumeMounts"] if m["mountPath"] == "/datasets")
    assert mount == {"name": "datasets", "mountPath": "/datasets", "readOnly": True}


def test_pull_secrets_are_per_component_or_common(render: Render) -> None:
    documents = render("imagePullSecret=common", "worker.imagePullSecret=of-worker")
    assert pod_spec(documents, "r-mlbench-master")["imagePullSecrets"] == [{"name": "common"}]
    assert worker_spec(documents)["imagePullSecrets"] == [{"name": "of-worker"}]


def test_a_release_name_that_is_too_long_is_refused(helm: Helm) -> None:
    with pytest.raises(ChartError, match="33 characters at most"):
        helm.render("1.31.0", release="r" * 34)
    assert helm.render("1.31.0", release="r" * 33)


@pytest.mark.parametrize("name", ["1st", "my.release"])
def test_a_release_name_that_is_invalid_for_services_is_refused(helm: Helm, name: str) -> None:
    with pytest.raises(ChartError, match=f"release name {name}: it must begin with a letter"):
        helm.render("1.31.0", release=name)


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    with pytest.raises(ChartError, match="incompatible with Kubernetes"):
        helm.render("1.19.16")


def test_the_app_version_of_the_chart_is_the_package_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == project["version"]
    assert chart["kubeVersion"] == ">=1.20.0-0"

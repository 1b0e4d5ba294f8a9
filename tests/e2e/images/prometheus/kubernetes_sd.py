#!/usr/bin/python3
"""Runs Debian's Prometheus, which lacks kubernetes_sd, with files of targets instead.

Takes the options of Prometheus, and uses its configuration except for the discovery of pods. A
second process writes files with the pods and the labels of kubernetes_sd.
"""

import json
import os
import ssl
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import yaml

PROMETHEUS = "/usr/lib/prometheus/prometheus"
FOLDER = Path("/prometheus/kubernetes_sd")
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONFIG_OPTION = "--config.file="
SECONDS = 1.0


def main() -> None:
    """Start a process that updates the targets, and replace this process by Prometheus."""
    file = Path(
        next(a for a in sys.argv if a.startswith(CONFIG_OPTION)).removeprefix(CONFIG_OPTION)
    )
    config = yaml.safe_load(file.read_text())
    config["rule_files"] = [str(file.parent / pattern) for pattern in config["rule_files"]]
    FOLDER.mkdir(exist_ok=True)
    selectors = {
        scrape["job_name"]: replace_discovery(scrape)
        for scrape in config["scrape_configs"]
        if "kubernetes_sd_configs" in scrape
    }
    written = FOLDER / "prometheus.yml"
    written.write_text(yaml.safe_dump(config))
    if os.fork() == 0:
        keep_targets(selectors)
    options = [o for o in sys.argv[1:] if not o.startswith(CONFIG_OPTION)]
    os.execv(PROMETHEUS, [PROMETHEUS, f"{CONFIG_OPTION}{written}", *options])  # noqa: S606


def replace_discovery(scrape: dict[str, Any]) -> str:
    """Make a scrape job read a file of targets; return the label selector of its pods."""
    (discovery,) = scrape.pop("kubernetes_sd_configs")
    (selector,) = discovery["selectors"]
    assert discovery["role"] == selector["role"] == "pod"
    assert discovery["namespaces"] == {"own_namespace": True}
    scrape["file_sd_configs"] = [{"files": [str(target_file(scrape["job_name"]))]}]
    return str(selector["label"])


def target_file(job: str) -> Path:
    return FOLDER / f"{job}.json"


def keep_targets(selectors: dict[str, str]) -> None:
    """Poll the pods of each job, and write changed targets, forever."""
    written: dict[str, list[Any]] = {}
    while True:
        for job, selector in selectors.items():
            try:
                groups = [target for pod in read_pods(selector) for target in targets(pod)]
            except OSError as error:
                print(f"kubernetes_sd: {job}: {error}", file=sys.stderr, flush=True)
                continue
            if groups != written.get(job):
                draft = FOLDER / "draft"
                draft.write_text(json.dumps(groups))
                draft.rename(target_file(job))
                written[job] = groups
        time.sleep(SECONDS)


def read_pods(selector: str) -> list[Any]:
    """Return the pods of this namespace, with the permissions of this pod's service account."""
    namespace, token = (ACCOUNT / "namespace").read_text(), (ACCOUNT / "token").read_text()
    request = Request(
        f"https://kubernetes.default.svc/api/v1/namespaces/{namespace}/pods"
        f"?labelSelector={quote(selector)}",
        headers={"Authorization": f"Bearer {token}"},
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urlopen(request, timeout=5, context=context) as answer:  # noqa: S310
        pods: list[Any] = json.load(answer)["items"]
    return pods


def targets(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the targets of a pod's ports, with the labels that the chart's configuration uses."""
    spec, status = pod["spec"], pod["status"]
    return [
        {
            "targets": [f"{status['podIP']}:{port['containerPort']}"],
            "labels": {
                "__meta_kubernetes_pod_name": pod["metadata"]["name"],
                "__meta_kubernetes_pod_phase": status["phase"],
                "__meta_kubernetes_pod_node_name": spec.get("nodeName", ""),
                "__meta_kubernetes_pod_container_port_name": port.get("name", ""),
            },
        }
        for container in spec["containers"]
        for port in container.get("ports", ())
        if "podIP" in status
    ]


if __name__ == "__main__":
    main()

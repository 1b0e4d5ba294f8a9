"""Checking what Prometheus is configured with, by its own files or by the operator's kinds."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from helm.check.rendering import Document, find_documents

_DISCOVERY = "kubernetes_sd_configs"
_MONITORS = ("PodMonitor", "ServiceMonitor")


def promtool_errors(promtool: str, documents: Sequence[Document]) -> list[str]:
    """Return the errors that promtool finds in the configurations and rules among the objects."""
    with TemporaryDirectory() as folder:
        written = [*_bundled(documents, Path(folder)), *_operators(documents, Path(folder))]
        return [error for file in written if (error := _check(promtool, file))]


def _bundled(documents: Sequence[Document], folder: Path) -> list[Path]:
    """Write the files of the bundled Prometheus; return its configuration."""
    for config in find_documents(documents, "ConfigMap"):
        for name, text in config["data"].items():
            if "-prometheus" not in config["metadata"]["name"]:
                continue
            file = folder / (name if name == "prometheus.yml" else f"rules/{name}")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    file = folder / "prometheus.yml"
    if not file.exists():
        return []
    file.write_text(yaml.safe_dump(without_kubernetes(yaml.safe_load(file.read_text()))))
    return [file]


def without_kubernetes(config: dict[str, Any], folder: str = "targets") -> dict[str, Any]:
    """Return a configuration that reads each job's pods from ``folder/JOB.json``.

    Debian builds Prometheus without kubernetes_sd: all else of the configuration is then checked,
    relabelling included.
    """
    jobs = [
        {
            **{key: value for key, value in job.items() if key != _DISCOVERY},
            "file_sd_configs": [{"files": [f"{folder}/{job['job_name']}.json"]}],
        }
        if _DISCOVERY in job
        else job
        for job in config["scrape_configs"]
    ]
    return {**config, "scrape_configs": jobs}


def _operators(documents: Sequence[Document], folder: Path) -> list[Path]:
    """Write what the operator would make of its kinds; return the configuration."""
    rules = find_documents(documents, "PrometheusRule")
    monitors = [monitor for kind in _MONITORS for monitor in find_documents(documents, kind)]
    if not (rules or monitors):
        return []
    (folder / "operator").mkdir()
    rule_file = folder / "operator" / "rules.yml"
    rule_file.write_text(
        yaml.safe_dump({"groups": [g for r in rules for g in r["spec"]["groups"]]})
    )
    config = {
        "rule_files": [rule_file.name],
        "scrape_configs": [_scrape_config(monitor) for monitor in monitors],
    }
    file = folder / "operator" / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    return [file]


def _scrape_config(monitor: Document) -> dict[str, Any]:
    """Return a monitor's only endpoint in Prometheus's own words."""
    spec = monitor["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    return {
        "job_name": monitor["metadata"]["name"],
        "scrape_interval": endpoint["interval"],
        "scrape_timeout": endpoint["interval"],
        "honor_labels": endpoint["honorLabels"],
        "honor_timestamps": endpoint["honorTimestamps"],
        "sample_limit": spec["sampleLimit"],
        "relabel_configs": _relabelings(endpoint["relabelings"]),
        "metric_relabel_configs": _relabelings(endpoint.get("metricRelabelings", [])),
        "static_configs": [{"targets": [f"{endpoint['port']}:80"]}],
    }


def _relabelings(rules: Sequence[Document]) -> list[dict[str, Any]]:
    return [{_snake(key): value for key, value in rule.items()} for rule in rules]


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _check(promtool: str, file: Path) -> str:
    command = [promtool, "check", "config", "--lint=all", "--lint-fatal", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr

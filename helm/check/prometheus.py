"""Checks of the configuration of Prometheus: its own files, or the operator's kinds."""

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
    """Return the errors that promtool finds in the configurations and rules."""
    errors = []
    command = [promtool, "check", "config", "--lint=all", "--lint-fatal"]
    with TemporaryDirectory() as folder:
        _write_bundled(documents, Path(folder, "bundled"))
        _write_operators(documents, Path(folder, "operator"))
        for file in Path(folder).glob("*/prometheus.yml"):
            process = subprocess.run([*command, file], check=False, capture_output=True, text=True)
            if process.returncode:
                errors.append(process.stdout + process.stderr)
    return errors


def _write_bundled(documents: Sequence[Document], folder: Path) -> None:
    """Write the files of the bundled Prometheus, if there is one."""
    for config in find_documents(documents, "ConfigMap"):
        for name, text in config["data"].items():
            if name == "prometheus.yml":
                _write(folder / name, without_kubernetes(yaml.safe_load(text)))
            elif "-prometheus" in config["metadata"]["name"]:
                _write(folder / "rules" / name, yaml.safe_load(text))


def without_kubernetes(config: dict[str, Any], folder: str = "targets") -> dict[str, Any]:
    """Return a configuration that reads each job's pods from ``folder/JOB.json``.

    Debian builds Prometheus without kubernetes_sd. This way, everything else is checked, including
    relabelling.
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


def _write_operators(documents: Sequence[Document], folder: Path) -> None:
    """Write the configuration that the operator would generate from its kinds, if any."""
    rules = find_documents(documents, "PrometheusRule")
    monitors = [monitor for kind in _MONITORS for monitor in find_documents(documents, kind)]
    if rules or monitors:
        groups = [group for rule in rules for group in rule["spec"]["groups"]]
        _write(folder / "rules.yml", {"groups": groups})
        jobs = [_scrape_config(monitor) for monitor in monitors]
        _write(folder / "prometheus.yml", {"rule_files": ["rules.yml"], "scrape_configs": jobs})


def _write(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(content))


def _scrape_config(monitor: Document) -> dict[str, Any]:
    """Return the only endpoint of a monitor as a scrape configuration."""
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
    return [
        {re.sub("[A-Z]", lambda m: f"_{m[0].lower()}", key): value for key, value in rule.items()}
        for rule in rules
    ]

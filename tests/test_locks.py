"""The lock files satisfy pyproject.toml and are consistent."""

import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

_REPOSITORY = Path(__file__).parents[1]
_PYPROJECT = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())
_EXTRAS = _PYPROJECT["project"]["optional-dependencies"]
_EVERYWHERE = _PYPROJECT["project"]["dependencies"]

_WITHOUT_TORCH = [
    requirement for requirement in _EXTRAS["worker"] if not requirement.startswith("torch")
]

ASKED = {
    "build": _PYPROJECT["build-system"]["requires"],
    "master": [*_EVERYWHERE, *_EXTRAS["master"], *_EXTRAS["kubernetes"]],
    "worker": [*_EVERYWHERE, *_WITHOUT_TORCH],
    **{
        framework: [*_EVERYWHERE, *_WITHOUT_TORCH, *_EXTRAS[framework]]
        for framework in ("jax", "tensorflow")
    },
    "torch": [requirement for requirement in _EXTRAS["worker"] if requirement.startswith("torch")],
    "exporter": [*_EVERYWHERE, *_EXTRAS["exporter"]],
}
_WORKERS = {"worker", "jax", "tensorflow"}


def locked(name: str) -> Mapping[NormalizedName, str]:
    """Return the locked version of each package."""
    found = {canonicalize_name(package): version for package, version, _ in pins(name)}
    assert len(found) == len(pins(name)), "a package is locked twice"
    return found


def pins(name: str) -> list[tuple[str, str, list[str]]]:
    """Return the packages of a lock file with their versions and hashes."""
    text = (_REPOSITORY / "locks" / f"{name}.txt").read_text()
    whole = [line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")]
    parts = [line.split() for line in whole]
    return [(*pin.split("=="), hashes) for pin, *hashes in parts]  # type: ignore[misc]


def needed(package: str, extras: set[str]) -> list[Requirement]:
    """Return the requirements of a package on this machine; none if it is not installed."""
    try:
        requirements = [Requirement(text) for text in requires(package) or ()]
    except PackageNotFoundError:
        return []
    return [
        requirement
        for requirement in requirements
        if requirement.marker is None
        or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""})
    ]


@pytest.mark.parametrize("name", ASKED)
def test_each_requirement_is_locked_within_its_range(name: str) -> None:
    pins = locked(name)
    for requirement in map(Requirement, ASKED[name]):
        version = pins.get(canonicalize_name(requirement.name))
        assert version, f"locks/{name}.txt lacks {requirement}: run scripts/lock.sh"
        assert requirement.specifier.contains(version), (
            f"{requirement} is required, but {version} is locked"
        )


@pytest.mark.parametrize("name", [name for name in ASKED if name != "torch"])
def test_every_package_has_hashes(name: str) -> None:
    for package, _, hashes in pins(name):
        assert hashes, f"{package} has no hash: run scripts/lock.sh"
        for option in hashes:
            assert re.fullmatch("--hash=sha256:[0-9a-f]{64}", option), f"{package}: {option}"


@pytest.mark.parametrize("name", ["master", "worker", "jax", "tensorflow", "exporter"])
def test_requirements_of_locked_packages_are_locked_too(name: str) -> None:
    pins = dict(locked(name)) | (dict(locked("torch")) if name in _WORKERS else {})
    extras = {canonicalize_name(r.name): r.extras for r in map(Requirement, ASKED[name])}
    # PyTorch's CUDA build pins its CUDA packages, but no other requirements.
    of_cuda = ("nvidia-", "cuda-", "triton")
    for package in pins:
        for requirement in needed(package, extras.get(package, set())):
            if not (package == "torch" and requirement.name.startswith(of_cuda)):
                assert canonicalize_name(requirement.name) in pins, f"{package} needs {requirement}"


def test_workflows_name_actions_by_commit() -> None:
    """A tag or a branch can be moved, and one workflow can publish."""
    workflows = (_REPOSITORY / ".github" / "workflows").glob("*.yml")
    used = [line for file in workflows for line in re.findall(r"uses: (.*)", file.read_text())]
    assert used
    pinned = re.compile(r"\./\.github/\S+|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not pinned.fullmatch(line)] == []

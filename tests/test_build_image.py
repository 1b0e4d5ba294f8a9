"""The script that builds an image, with programs in the place of docker and its like."""

import subprocess
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[1] / "scripts/build-image.sh"
_WORDS = ("registry/name:1", "a/Dockerfile", ".", "--build-arg", "A=b c")


def build(path: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the script with the programs of one folder alone, which must suffice."""
    return subprocess.run(
        ["/bin/bash", _SCRIPT, *words],
        env={"PATH": str(path), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def put_program(path: Path, name: str, lines: str = "") -> None:
    """Make a program that prints its name and its words, after some lines of a shell."""
    program = path / name
    program.write_text(f"#!/bin/sh\n{lines}\nprintf '%s' {name}; printf ' <%s>' \"$@\"\n")
    program.chmod(0o755)


def test_a_command_of_ones_own_takes_the_same_words(tmp_path: Path) -> None:
    put_program(tmp_path, "docker")
    put_program(tmp_path, "own")
    ended = build(tmp_path, *_WORDS, BUILD_IMAGE="own image")
    assert ended.stdout == (
        "own <image> <registry/name:1> <a/Dockerfile> <.> <--build-arg> <A=b c>"
    )


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        (("docker", "podman", "buildah"), "docker <build>"),
        (("podman", "buildah"), "podman <build> <--layers> <--format> <docker>"),
    ],
)
def test_what_there_is_builds(programs: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    for program in programs:
        put_program(tmp_path, program)
    assert build(tmp_path, *_WORDS).stdout == (
        f"{expected} <--build-arg> <A=b c> <--tag> <registry/name:1> <--file> <a/Dockerfile> <.>"
    )


def test_a_docker_without_its_engine_is_passed_over(tmp_path: Path) -> None:
    put_program(tmp_path, "docker", "exit 1")
    put_program(tmp_path, "buildah")
    assert build(tmp_path, *_WORDS).stdout.startswith("buildah <build>")


def test_where_nothing_builds_it_says_what_is_needed(tmp_path: Path) -> None:
    ended = build(tmp_path, *_WORDS)
    assert ended.returncode == 1
    assert "docker, podman or buildah is needed to build registry/name:1" in ended.stderr

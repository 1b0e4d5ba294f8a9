"""What the images promise, as far as it can be read without building them."""

import re
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[2]
_BASE = "${BASE}"

every_image = pytest.mark.parametrize("part", ["master", "worker", "exporter"])


def instructions(part: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, each in one line, with what they are given."""
    text = (_REPOSITORY / part / "Dockerfile").read_text()
    whole = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^\s*#.*\n", "", text))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in whole.splitlines())]


def final_stage(part: str) -> list[tuple[str, str]]:
    found = instructions(part)
    last = max(index for index, (word, _) in enumerate(found) if word == "FROM")
    return found[last:]


def values(part: str, word: str) -> list[str]:
    return [rest for found, rest in final_stage(part) if found == word]


@every_image
def test_everything_comes_from_debian(part: str) -> None:
    stages: set[str] = set()
    for word, rest in instructions(part):
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            assert base in {_BASE, "scratch"} | stages, rest
            stages.add(name)
    assert len(stages) > 1
    # Another one, by its digest, takes one argument.
    assert instructions(part)[0] == ("ARG", "BASE=docker.io/library/debian:bookworm-slim")


@every_image
def test_it_runs_as_a_user_of_its_own(part: str) -> None:
    assert values(part, "USER") == ["10001:10001"]


@every_image
def test_it_can_be_asked_how_it_is(part: str) -> None:
    (check,) = values(part, "HEALTHCHECK")
    (port,) = re.findall(r"127\.0\.0\.1:(\d+)/", check)
    assert port in values(part, "EXPOSE")[0].split()


@every_image
def test_a_commit_changes_no_layer_before_the_last(part: str) -> None:
    words = [word for word, _ in final_stage(part)]
    after = words[words.index("ARG") :]
    # Buildah's cache would take ENV and LABEL from the image of another commit, but for the RUN.
    assert after == ["ARG", "ARG", "RUN", "ENV", "LABEL"]
    assert "MLBENCH_GIT_COMMIT=$GIT_COMMIT" in values(part, "ENV")
    copied = [rest for word, rest in final_stage(part) if word == "COPY"]
    assert copied[-1] == "--from=code /code /", "what changes most comes last"


@every_image
def test_it_says_what_it_is(part: str) -> None:
    (labels,) = values(part, "LABEL")
    named = re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', labels)
    assert dict(named).keys() == {
        *("title", "description", "version", "revision", "source", "licenses")
    }


@every_image
def test_packages_come_from_the_lock_file(part: str) -> None:
    runs = [rest for word, rest in instructions(part) if word == "RUN"]
    installs = [
        step for run in runs for step in run.split("&&") if re.search(r"pip.* install", step)
    ]
    assert len(installs) == 3 + (part == "worker")
    for step in installs:
        assert "--extra-index-url" not in step, "a package of that name could come from there"
        if "--requirement /build/torch.txt" in step:
            continue
        of_lock = f"--require-hashes --no-deps --requirement /build/{part}.txt"
        of_build = "--require-hashes --no-deps --requirement /build/build.txt"
        assert of_lock in step or of_build in step or "--no-index --no-deps" in step, step
    for run in runs:
        assert "apt-get install" not in run or "--no-install-recommends" in run


def test_only_named_files_reach_a_build() -> None:
    lines = (_REPOSITORY / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    for rule in rules:
        if rule.startswith("!"):
            assert (_REPOSITORY / rule[1:]).exists(), f"{rule} names nothing"

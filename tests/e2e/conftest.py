"""The release of the chart shared by all tests, installed once and removed at the end."""

import json
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.commands import CommandError, run
from tests.e2e.place import Images, abandoned_places, own_place
from tests.e2e.release import CORES, WORKERS, Release

_RELEASE = pytest.StashKey[Release]()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests, so that only `make e2e` runs them."""
    item.add_marker(pytest.mark.cluster)
    item.add_marker(pytest.mark.timeout(900))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the cluster to the report of a failed test."""
    report = yield
    release = item.config.stash.get(_RELEASE, None)
    if report.failed and report.when != "teardown" and release is not None:
        report.sections.append(("cluster", release.state()))
    return report


@pytest.fixture(scope="session")
def release(request: pytest.FixtureRequest) -> Iterator[Release]:
    """An installed release with two idle workers of half a core each."""
    helm, images = os.environ["HELM"], Images.from_environ()
    # End on SIGTERM like on Ctrl-C, so that all created objects are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for place in abandoned_places(helm):
        place.remove(images)
    place = own_place(helm)
    try:
        with ExitStack() as ends:
            place.make(images)
            release = Release(place, images, _more_than_fit(), ends)
            request.config.stash[_RELEASE] = release
            _install(release)
            yield release
    finally:
        place.remove(images)


def _install(release: Release) -> None:
    """Install the release, and retry once, because a busy machine may start pods too late."""
    try:
        release.helm("install")
    except CommandError as error:
        print(error, release.state(), sep="\n")
        run(release.place.helm, "uninstall", release.name, "--namespace", release.name, "--wait")
        release.helm("install")


def _more_than_fit() -> int:
    """Return a number of workers that exceeds the capacity of the cluster."""
    nodes = json.loads(run("kubectl", "get", "nodes", "--output", "json"))["items"]
    cores = sum(_cores(node["status"]["allocatable"]["cpu"]) for node in nodes)
    return max(int(cores / CORES), WORKERS) + 1


def _cores(quantity: str) -> float:
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)

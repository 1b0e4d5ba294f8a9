"""The local pool's two files."""

from pathlib import Path

import pytest

from mlbench.home import Home
from mlbench.pool import LocalWorker, PoolFiles


@pytest.fixture
def pool(tmp_path: Path) -> PoolFiles:
    return PoolFiles(Home(tmp_path))


def test_nothing_is_wanted_before_the_controller_has_said_so(pool: PoolFiles) -> None:
    assert pool.read_wanted() is None


def test_what_is_wanted_is_read_as_it_was_written(pool: PoolFiles) -> None:
    pool.write_wanted(3)
    assert pool.read_wanted() == 3
    pool.write_wanted(2)
    assert pool.read_wanted() == 2


def test_wanting_the_same_again_writes_nothing(pool: PoolFiles) -> None:
    pool.write_wanted(3)
    before = pool.home.pool_spec.stat().st_ino
    pool.write_wanted(3)
    assert pool.home.pool_spec.stat().st_ino == before, "a replaced file would be another one"


def test_before_the_supervisor_there_are_no_workers(pool: PoolFiles) -> None:
    assert pool.read_status() == []


def test_the_status_is_read_as_it_was_written(pool: PoolFiles) -> None:
    workers = [LocalWorker("a", alive=True), LocalWorker("b", alive=False)]
    pool.write_status(workers)
    assert pool.read_status() == workers

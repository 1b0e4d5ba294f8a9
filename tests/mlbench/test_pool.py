"""The local pool's two files."""

from pathlib import Path

from mlbench.home import Home
from mlbench.pool import LocalWorker, PoolFiles


def test_the_wanted_number_is_read_as_it_was_written(tmp_path: Path) -> None:
    pool = PoolFiles(Home(tmp_path))
    assert pool.read_wanted() is None
    pool.write_wanted(3)
    before = pool.home.pool_spec.stat().st_ino
    pool.write_wanted(3)
    assert pool.home.pool_spec.stat().st_ino == before, "it is not written again"
    pool.write_wanted(2)
    assert pool.read_wanted() == 2


def test_the_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    pool = PoolFiles(Home(tmp_path))
    assert pool.read_status() == []
    workers = [LocalWorker("a", alive=True), LocalWorker("b", alive=False, trouble="it ended")]
    pool.write_status(workers)
    assert pool.read_status() == workers

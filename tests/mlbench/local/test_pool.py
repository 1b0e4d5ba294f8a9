"""The file of the local pool's wanted number; ``tests/master/pools`` reads the other one."""

from pathlib import Path

from mlbench.local.home import Home
from mlbench.local.pool import PoolFiles


def test_the_wanted_number_is_read_as_it_was_written(tmp_path: Path) -> None:
    pool = PoolFiles(Home(tmp_path))
    assert pool.read_wanted() is None
    pool.write_wanted(3)
    before = pool.home.pool_spec.stat().st_ino
    pool.write_wanted(3)
    assert pool.home.pool_spec.stat().st_ino == before, "it is not written again"
    pool.write_wanted(2)
    assert pool.read_wanted() == 2

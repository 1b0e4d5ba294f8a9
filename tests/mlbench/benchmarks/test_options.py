"""Options of benchmarks are described in any thread."""

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mlbench.benchmarks import options
from mlbench.benchmarks.registry import BENCHMARKS


@pytest.fixture
def switching_threads() -> Iterator[None]:
    """Let other threads run whenever garbage is collected, which is often."""

    def wait(*_: object) -> None:
        time.sleep(1e-5)

    threshold = gc.get_threshold()
    gc.set_threshold(200)
    gc.callbacks.append(wait)
    yield
    gc.callbacks.remove(wait)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("switching_threads")
def test_several_threads_read_options_for_the_first_time() -> None:
    classes = [benchmark.options for benchmark in BENCHMARKS.values()]
    options._field_docstrings.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        described = list(pool.map(options.describe, classes * 2))
    assert described == [options.describe(config) for config in classes * 2]

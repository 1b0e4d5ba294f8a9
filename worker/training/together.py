"""Work that ranks must have done before they train: each its own, all waiting for the slowest."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import torch

from worker.training.distributed import World

_LOOK_SECONDS = 0.2

T = TypeVar("T")


def prepare_together(world: World, work: Callable[[], T]) -> T:
    """Return what ``work`` returns, once it has ended on all ranks.

    It may take much longer on some ranks than on others: longer than a peer in training is waited
    for. So the ranks tell each other that they are still there while the work goes on beside.

    Raises:
        WorldError: a peer was lost; and whatever ``work`` raises.
    """
    if world.size == 1:
        return work()
    result: Future[T] = Future()
    threading.Thread(target=_run, args=(work, result), daemon=True).start()
    while True:
        unfinished = torch.tensor([0 if result.done() else 1], device=world.device)
        if result.done() and result.exception():
            return result.result()
        world.sum_(unfinished)
        if not unfinished.item():
            return result.result()
        time.sleep(_LOOK_SECONDS)


def _run(work: Callable[[], T], result: "Future[T]") -> None:
    try:
        result.set_result(work())
    except BaseException as error:
        result.set_exception(error)

"""Train a small LSTM language model with the parts of mlbench_core that benchmark task 3 uses."""

from typing import Any

import torch
import torch.distributed as dist
from mlbench_core.controlflow.pytorch import (
    compute_train_batch_metrics,
    record_train_batch_stats,
    record_validation_stats,
)
from mlbench_core.dataset.nlp.pytorch import Wikitext2Dataset
from mlbench_core.evaluation.goals import task3_time_to_perplexity_goal
from mlbench_core.evaluation.pytorch.metrics import Perplexity
from mlbench_core.models.pytorch.language_models import LSTMLanguageModel
from mlbench_core.optim.pytorch.centralized import CustomCentralizedOptimizer
from mlbench_core.utils import Tracker
from mlbench_core.utils.pytorch import initialize_backends
from mlbench_core.utils.pytorch.distributed import global_average
from mlbench_core.utils.task_args import task_main

_ROWS, _LENGTH = 4, 10
_SIZES = {"ninp": 8, "nhid": 16, "nlayers": 2, "wdrop": 0.5, "tie_weights": True}


def main(backend: str, hosts: str, rank: int, run_id: str, dataset_dir: str, **_: object) -> None:
    """Train until the target is reached."""
    with initialize_backends(comm_backend=backend, hosts=hosts, rank=rank) as (_, size, _):
        words = Wikitext2Dataset(dataset_dir, bptt=_LENGTH, train=True)
        words.generate_batches(global_bsz=_ROWS * size, worker_bsz=_ROWS, rank=rank)
        words.generate_sequence_lengths()
        model = LSTMLanguageModel(len(words.dictionary), **_SIZES)
        sgd = torch.optim.SGD(model.parameters(), lr=5)
        optimizer = CustomCentralizedOptimizer(model, size, sgd, grad_clip=0.25, average_world=True)
        goal = task3_time_to_perplexity_goal(6)
        tracker = Tracker([Perplexity()], run_id, rank, goal=goal, minimize=True)
        tracker.start()
        while not tracker.goal_reached:
            train(words, model, optimizer, tracker)
            validate(words, model, tracker)


def train(words: Any, model: Any, optimizer: Any, tracker: Any) -> None:
    """Train for one epoch."""
    model.train()
    tracker.train()
    hidden = model.init_hidden(_ROWS)
    for index in range(words.num_batches()):
        tracker.batch_start()
        data, targets = words.get_batch(index)
        hidden = [tuple(state.detach() for state in layer) for layer in hidden]
        optimizer.zero_grad()
        tracker.record_batch_init()
        output, hidden = model(data, hidden)
        tracker.record_batch_fwd_pass()
        loss = torch.nn.functional.cross_entropy(output, targets)
        tracker.record_batch_comp_loss()
        loss.backward()  # type: ignore[no-untyped-call]
        tracker.record_batch_backprop()
        optimizer.step(tracker=tracker)
        results = compute_train_batch_metrics(output, targets, tracker.metrics)
        tracker.record_batch_comp_metrics()
        tracker.batch_end()
        record_train_batch_stats(index, loss.item(), output, results, tracker, words.num_batches())
    tracker.epoch_end()


def validate(words: Any, model: Any, tracker: Any) -> None:
    """Measure the perplexity on the training text."""
    model.eval()
    tracker.validation()
    tracker.validation_start()
    with torch.no_grad():
        data, targets = words.data[:-1], words.data[1:].view(-1)
        output, _ = model(data, model.init_hidden(_ROWS))
        loss = global_average(torch.nn.functional.cross_entropy(output, targets), 1)
    tracker.validation_end()
    values = {metric: loss.exp().item() for metric in tracker.metrics}
    record_validation_stats(values, loss.item(), tracker=tracker, rank=dist.get_rank())


if __name__ == "__main__":
    task_main(main)

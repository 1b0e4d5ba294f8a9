"""Train as MLBench's main.py of task 1a does, on made-up data."""

import json
from pathlib import Path
from typing import Any

import torch
from mlbench_core.controlflow.pytorch import (
    compute_train_batch_metrics,
    prepare_batch,
    record_train_batch_stats,
    record_validation_stats,
    validation_round,
)
from mlbench_core.evaluation.goals import task1_time_to_accuracy_goal
from mlbench_core.evaluation.pytorch.metrics import TopKAccuracy
from mlbench_core.optim.pytorch.centralized import CustomCentralizedOptimizer
from mlbench_core.utils import Tracker
from mlbench_core.utils.pytorch import initialize_backends
from mlbench_core.utils.pytorch.checkpoint import Checkpointer, CheckpointFreq
from mlbench_core.utils.task_args import task_main
from torch.utils.data import DataLoader, TensorDataset


def main(**options: Any) -> None:
    """Train as main.py does."""
    with initialize_backends(
        comm_backend=options["backend"],
        hosts=options["hosts"],
        rank=options["rank"],
        use_cuda=options["gpu"],
        seed=42,
        cudnn_deterministic=True,
        ckpt_run_dir=options["ckpt_run_dir"],
        delete_existing_ckpts=not options["validation_only"],
    ) as (rank, world_size, _):
        train(options["run_id"], options["ckpt_run_dir"], rank, world_size)


def train(run_id: str, ckpt_run_dir: str, rank: int, world_size: int) -> None:
    """Train two epochs, which do not reach the goal."""
    examples = TensorDataset(torch.randn(960, 16), torch.randint(10, (960,)))
    loader = DataLoader(examples, batch_size=32)
    model = torch.nn.Linear(16, 10)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer = CustomCentralizedOptimizer(model, world_size, sgd, average_world=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(sgd, [1])
    loss_function = torch.nn.CrossEntropyLoss()
    metrics = [TopKAccuracy(topk=1), TopKAccuracy(topk=5)]
    checkpointer = Checkpointer(ckpt_run_dir=ckpt_run_dir, rank=rank, freq=CheckpointFreq.NONE)
    tracker = Tracker(metrics, run_id, rank, goal=task1_time_to_accuracy_goal())
    tracker.start()
    for epoch in range(2):
        model.train()
        tracker.train()
        for index, batch in enumerate(loader):
            tracker.batch_start()
            data, target = prepare_batch(*batch, dtype="fp32")
            tracker.record_batch_load()
            optimizer.zero_grad()
            tracker.record_batch_init()
            output = model(data)
            tracker.record_batch_fwd_pass()
            loss = loss_function(output, target)
            tracker.record_batch_comp_loss()
            loss.backward()
            tracker.record_batch_backprop()
            optimizer.step(tracker=tracker)
            results = compute_train_batch_metrics(output, target, metrics)
            tracker.record_batch_comp_metrics()
            tracker.batch_end()
            record_train_batch_stats(index, loss.item(), output, results, tracker, len(loader))
        tracker.epoch_end()
        values, loss = validation_round(loader, model, loss_function, metrics, "fp32", tracker)
        scheduler.step()
        best = record_validation_stats(values, loss, tracker=tracker, rank=rank)
        checkpointer.save(tracker, model, optimizer, scheduler, epoch, best)
    Path(ckpt_run_dir, "history.json").write_text(json.dumps(tracker.history))


if __name__ == "__main__":
    task_main(main)

"""Learn to add eight numbers on the workers of Ray's TorchTrainer, each a rank of one run."""

import uuid

import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import mlbench


def train(config: dict[str, str]) -> None:
    """Train on one worker: Ray has set RANK and WORLD_SIZE, and all got the same key."""
    context = ray.train.get_context()
    torch.manual_seed(context.get_world_rank())
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    # Until the block ends: Ray kills its workers, and all that they have started.
    with (
        mlbench.record("sum", key=config["key"], workers=context.get_world_size()),
        mlbench.Tracker() as t,
    ):
        for _ in range(400):
            inputs = torch.randn(32, 8)
            loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            t.step(samples=len(inputs), train_loss=loss)


if __name__ == "__main__":
    TorchTrainer(
        train,
        train_loop_config={"key": uuid.uuid4().hex},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="sum"),
    ).fit()

"""Write two curves for TensorBoard, without training anything."""

import math
import time

import torch
from torch.utils.tensorboard import SummaryWriter

with SummaryWriter(flush_secs=1) as writer:
    for step in range(300):
        time.sleep(0.01)
        writer.add_scalar("loss/train", math.exp(-step / 50), step)
        if step % 30 == 0:
            writer.add_scalar("accuracy", 1 - math.exp(-step / 50), step, new_style=True)
            writer.add_histogram("weights", torch.arange(9.0), step)
    writer.add_hparams({"learning_rate": 0.1, "batch_size": 32}, {"hparam/score": 0.99})

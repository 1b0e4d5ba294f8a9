"""A user's training script: ten steps whose loss depends on rank and step."""

import json
import os
import time
from pathlib import Path

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
print(f"rank {rank} of {world_size} begins")
with Path(os.environ["MLBENCH_METRICS_FILE"]).open("a") as metrics:
    for step in range(10):
        line = {"name": "train_loss", "value": rank + step / 10, "time": time.time(), "step": step}
        metrics.write(f"{json.dumps(line)}\n")
        metrics.flush()
        time.sleep(0.1)
print(f"rank {rank} of {world_size} is done")

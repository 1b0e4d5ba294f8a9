"""Print the first random number of each generator that tasks use without a seed."""

import random
import uuid

import numpy as np
import torch

if __name__ == "__main__":
    numbers = random.random(), np.random.random()  # noqa: S311 - not used for secrets
    print(*numbers, torch.rand(1).item(), uuid.uuid4())

"""Backends and benchmark images of the original MLBench's client."""

from collections.abc import Mapping
from typing import Final

MLBENCH_BACKENDS: Final = ["MPI", "GLOO", "NCCL"]

_COMMAND: Final = (
    "/conda/bin/python /codes/main.py "
    "--run_id {run_id} --rank {rank} --hosts {hosts} --backend {backend}"
)
MLBENCH_IMAGES: Final[Mapping[str, tuple[str, str, bool]]] = {
    title: (f"mlbench/{image}:latest", _COMMAND, not image.startswith("tensorflow"))
    for title, image in (
        ("PyTorch Cifar-10 ResNet-20", "pytorch-cifar10-resnet20-all-reduce"),
        ("PyTorch Cifar-10 ResNet-20 (DDP)", "pytorch-cifar10-resnet20-ddp"),
        ("PyTorch Linear Logistic Regression", "pytorch-epsilon-logistic-regression-all-reduce"),
        ("PyTorch Language Modeling (AWD-LSTM)", "pytorch-wikitext2-lstm-all-reduce"),
        ("PyTorch Machine Translation GNMT", "pytorch-wmt16-gnmt-all-reduce"),
        ("PyTorch Machine Translation Transformer", "pytorch-wmt17-transformer-all-reduce"),
        ("Tensorflow Cifar-10 ResNet-20 Open-MPI", "tensorflow-cifar10-resnet"),
        ("PyTorch Distributed Backend benchmarking", "pytorch-backend-benchmark"),
    )
}
"""Benchmarks of the original client: image, command, and support for GPUs, by title.

The master runs its own equivalent of a benchmark, and refuses a benchmark without an equivalent.
"""

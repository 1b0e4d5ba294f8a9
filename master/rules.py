"""The rules of the closed division: the permitted values of each official task's settings.

A task's default comes first. Every option of a task is in its rules or among the free ones.
"""

from collections.abc import Mapping

from mlbench.stated import Setting

Rules = Mapping[str, tuple[Setting, ...]]

# Hardware and systems, the random seed, and how much is measured: what runs are compared by.
FREE = frozenset(
    {
        *("backend", "device", "exchange", "precision", "channels_last", "compile", "loaders"),
        "seed",
        # Options of tasks without training.
        *("operations", "dtypes", "min_bytes", "max_bytes", "factor", "steps", "rate"),
    }
)

_MOMENTUM_SGD: Rules = {"momentum": (0.9,), "compression": ("none",)}

_DIGITS_DATA: Rules = {
    "data_sha256": ("08484fe15f4b3d1722f3c2ab8af281fd80f52417edb9422c44a1b23935531ef3",)
}

CIFAR10_RESNET: Rules = {
    "version": (1, 2),
    "depth": (20, 32, 44, 56),
    "goal": (80.0, 70.0),
    "epochs": (164,),
    "worker_batch_size": (128,),
    "learning_rate": (0.1,),
    "weight_decay": (1e-4,),
    **_MOMENTUM_SGD,
    "data_sha256": ("6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",),
}

IMAGENET_RESNET: Rules = {
    "goal": (75.9, 70.0),
    "epochs": (90,),
    "worker_batch_size": (32,),
    "learning_rate": (0.1,),
    "weight_decay": (1e-4,),
    **_MOMENTUM_SGD,
    "image_size": (224,),
    "classes": (1000,),
    "train_images": (1_281_167,),
    "validation_images": (50_000,),
}

_LINEAR: Rules = {
    "dataset": ("epsilon", "rcv1"),
    "epochs": (20,),
    "batch_size": (100,),
    "learning_rate": (4.0,),
    "decay": (0.5,),
    "l2": (1e-6,),
    # Recording costs time.
    "record_every": (25,),
}

LOGISTIC_REGRESSION: Rules = {"model": ("logistic",), "goal": (89.0, 80.0), **_LINEAR}
RIDGE_REGRESSION: Rules = {"model": ("ridge",), "goal": (None,), **_LINEAR}
LINEAR_SVM: Rules = {"model": ("svm",), "goal": (89.0, 80.0), **_LINEAR}

# How a message is measured. Which messages are measured is free.
COMMUNICATION: Rules = {"seconds": (0.5,), "rounds": (1000,), "warmup": (5,), "check": (True,)}

DIGITS: Rules = {
    "goal": (97.0, 90.0),
    "epochs": (30,),
    "batch_size": (128,),
    "learning_rate": (0.05,),
    "weight_decay": (5e-4,),
    **_MOMENTUM_SGD,
    **_DIGITS_DATA,
}

DIGITS_LINEAR: Rules = {
    "goal": (93.0, 85.0),
    "epochs": (30,),
    "batch_size": (128,),
    "learning_rate": (0.5,),
    "l2": (1e-4,),
    **_DIGITS_DATA,
}

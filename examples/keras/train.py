"""Learn handwritten digits with Keras, on each worker for itself."""

import json
import os

import keras
from sklearn.datasets import load_digits

from mlbench_callbacks.keras import MLBenchCallback

rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
digits = load_digits()
images, labels = digits.data / 16, digits.target
train, validation = slice(rank, 1440, size), slice(1440, None)

keras.utils.set_random_seed(rank)
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(10)]
)
model.compile(
    keras.optimizers.SGD(0.05, momentum=0.9),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(
    images[train],
    labels[train],
    batch_size=16,
    epochs=20,
    validation_data=(images[validation], labels[validation]),
    verbose=0,
    callbacks=[MLBenchCallback(samples=len(labels[train]), goal=("val_accuracy", 0.9))],
)
print(json.dumps(history.history))

"""Classify handwritten digits, and log to MLflow."""

import mlflow
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

digits = load_digits()
images, labels = digits.data / 16, digits.target
model = SGDClassifier(loss="log_loss", alpha=1e-3, random_state=0)
batch_size = 96

with mlflow.start_run():
    mlflow.log_params({"alpha": model.alpha, "batch_size": batch_size})
    for epoch in range(100):
        for first in range(0, 1440, batch_size):
            batch = slice(first, first + batch_size)
            model.partial_fit(images[batch], labels[batch], classes=np.arange(10))
        mlflow.log_metrics(
            {
                "accuracy": model.score(images[1440:], labels[1440:]),
                "weights": float(np.linalg.norm(model.coef_)),
            },
            step=epoch,
        )

"""A short training with each library that logs to MLflow."""

import lightning
import mlflow
import numpy as np
import torch
import xgboost
from lightning.pytorch.loggers import MLFlowLogger
from sklearn.linear_model import LogisticRegression
from torch.utils.data import DataLoader, TensorDataset
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

rng = np.random.default_rng(0)
x = rng.normal(size=(64, 4)).astype(np.float32)
y = (x[:, 0] > 0).astype(np.int64)
data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class Classifier(lightning.LightningModule):
    def __init__(self, name):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.name = name

    def training_step(self, batch, _):
        inputs, labels = batch
        loss = torch.nn.functional.cross_entropy(self.layer(inputs), labels)
        self.log(self.name, loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(name, logger):
    trainer = lightning.Trainer(
        max_epochs=2,
        logger=logger,
        log_every_n_steps=1,
        accelerator="cpu",
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Classifier(name), DataLoader(data, batch_size=16))


class Config(PretrainedConfig):
    model_type = "tiny"


class Model(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(4, 2)
        self.post_init()

    def forward(self, inputs, labels):
        logits = self.layer(inputs)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


# scikit-learn
mlflow.sklearn.autolog()
LogisticRegression().fit(x, y)
mlflow.sklearn.autolog(disable=True)

# XGBoost
mlflow.xgboost.autolog(log_models=False)  # saving the models would take seconds
matrix = xgboost.DMatrix(x, y)
xgboost.train({"objective": "binary:logistic"}, matrix, 3, evals=[(matrix, "train")])
mlflow.xgboost.autolog(disable=True)

# PyTorch Lightning, with MLflow's autologging and with Lightning's own logger
mlflow.pytorch.autolog(log_models=False)
fit("autologged", logger=False)
mlflow.pytorch.autolog(disable=True)
fit("logged", logger=MLFlowLogger(experiment_name="mine"))

# Hugging Face
Trainer(
    Model(Config()),
    TrainingArguments(
        "out", max_steps=4, logging_steps=1, save_strategy="no", report_to="mlflow", use_cpu=True
    ),
    train_dataset=[{"inputs": a, "labels": int(b)} for a, b in zip(x, y, strict=True)],
).train()

"""Learn handwritten digits with PyTorch Lightning, on as many workers as there are."""

import os

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Digits(LightningModule):
    def __init__(self, learning_rate: float = 0.01) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
        )

    def training_step(self, batch, number):
        images, labels = batch
        loss = cross_entropy(self.model(images), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, number):
        images, labels = batch
        hits = self.model(images).argmax(dim=1) == labels
        self.log("val_accuracy", hits.float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.learning_rate, momentum=0.9)


seed_everything(int(os.environ.get("MLBENCH_SEED", 0)))
digits = load_digits()
data = TensorDataset(
    torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
)
train, validation = torch.utils.data.random_split(data, (1440, len(data) - 1440))
trainer = Trainer(
    accelerator="cpu",
    strategy="ddp",
    devices=1,
    num_nodes=int(os.environ.get("WORLD_SIZE", 1)),
    max_epochs=20,
    log_every_n_steps=5,
    logger=[CSVLogger("."), TensorBoardLogger(".")],
    callbacks=[EarlyStopping("val_accuracy", mode="max", patience=20, stopping_threshold=0.9)],
)
trainer.fit(Digits(), DataLoader(train, 16, shuffle=True), DataLoader(validation, 64))

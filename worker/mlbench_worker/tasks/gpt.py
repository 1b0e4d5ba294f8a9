"""Language modelling in minutes: a small Transformer on the bytes of presidents' addresses.

Data: the addresses on the State of the Union (``data.text``) as bytes, 9,782,373 to train. A
fourth of the validation text is evaluated: 1,912 rows of 128 bytes.
Model: a decoder-only Transformer like GPT-2 (Radford et al.: Language Models are Unsupervised
Multitask Learners, 2019) in the small form of nanoGPT: 4 layers of width 96 with 3 heads, context
128, learned positions, layer norm before each part, GELU, the output tied to the embedding, no
dropout; 484,416 parameters.
Algorithm: synchronous AdamW (betas 0.9 and 0.99, weight decay 0.1 of matrices only). The workers
share the 32 rows of a step, which begin anywhere in the text. Seed and epoch alone determine them:
any number of workers trains the same model, up to rounding. The rate rises to 0.003 in 100 steps,
then falls to a tenth by half a cosine until the end of all epochs. Gradients are clipped at 1. An
epoch is 100 steps.
Goal: ``val_global_Perplexity`` of 6 per byte, which is 2.6 bits (light: 8), evaluated after each
epoch.

Three trials on two cores that also ran other programs (seeds 0, 1 and 3; PyTorch 2.13) reached the
goal after 5, 5 and 6 epochs, at 5.99, 5.85 and 5.44. Two workers with one core each of an Intel
Xeon needed 54 s of training time, at 38,000 bytes a second; one thread needed 110 s. Trained
further, the third trial had 4.28 after 10 epochs and 3.68 after 15.
"""

import math
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.tasks import SOTU_SHA256, GptOptions
from mlbench_worker.data.text import load_texts
from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.rank_process import DataError, run
from mlbench_worker.training.language import LanguageTrainer, Rows
from mlbench_worker.training.schedules import Schedule
from mlbench_worker.training.session import start
from mlbench_worker.training.trainer import decay_weights_only

_CONTEXT = 128
_EPOCH_STEPS = 100
_WARMUP_STEPS = 100
_WEIGHT_DECAY = 0.1


def main(config: GptOptions) -> None:
    """Train until the goal is reached or all epochs are done."""
    with start(config) as session:
        world = session.world
        session.set_goal(config)

        texts = world.prepare(lambda: load_texts("sotu", session.datasets))
        data = texts.as_bytes()
        validation = rows_to_validate(data.validation)
        session.state_settings(
            config,
            data="sotu",
            data_sha256=texts.sha256,
            data_is_standard=texts.sha256 == SOTU_SHA256,
            train_samples=len(data.train),
            validation_samples=len(validation) * _CONTEXT,
            context=_CONTEXT,
            epoch_steps=_EPOCH_STEPS,
            weight_decay=_WEIGHT_DECAY,
            optimizer="adamw",
            sample="token",
        )
        session.say(f"{len(data.train)} bytes to train, {len(validation)} rows to validate")

        torch.manual_seed(config.seed)
        model = session.execution.place(make_model(data.vocabulary))
        schedule = cosine(config.learning_rate, config.epochs * _EPOCH_STEPS)
        trainer = LanguageTrainer(
            session, model, adamw(model), schedule, config, longest_gradient=1.0
        )

        for epoch in session.epochs(config, trainer.parts):
            rows = random_rows(data.train, config, world, epoch, session.progress.batches)
            trained = trainer.train(rows, config.batch_size)
            own = validation[world.shard(len(validation))]
            validated = trainer.evaluate(map(_rows, torch.split(own, 128)))
            trainer.record(epoch, trained, validated)


def make_model(vocabulary: int) -> "Gpt":
    """Return the model of the benchmark."""
    return Gpt(vocabulary, _CONTEXT, layers=4, heads=3, width=96)


def random_rows(
    data: torch.Tensor, config: GptOptions, world: World, epoch: int, first: int = 0
) -> Iterator[Rows]:
    """Yield this rank's rows, which begin anywhere, for each step of an epoch from ``first`` on.

    Every rank draws the rows of all ranks, from seed and epoch alone.
    """
    generator = torch.Generator().manual_seed((config.seed << 20) + epoch)
    shape = (_EPOCH_STEPS, config.batch_size, 1)
    starts = torch.randint(len(data) - _CONTEXT, shape, generator=generator)
    for step_starts in starts[first:, world.shard(config.batch_size)]:
        yield _rows(data[step_starts + torch.arange(_CONTEXT + 1)])


def rows_to_validate(data: torch.Tensor) -> torch.Tensor:
    """Cut a text into rows and return every fourth, ``[n, context + 1]``.

    A fourth is enough: all rows would take longer than the training.

    Raises:
        DataError: the text is shorter than a row.
    """
    if len(data) <= _CONTEXT:
        raise DataError(f"{len(data)} bytes to validate are too few: a row has {_CONTEXT + 1}")
    return data.unfold(0, _CONTEXT + 1, _CONTEXT)[::4]


def _rows(tokens: torch.Tensor) -> Rows:
    return Rows(tokens[:, :-1], tokens[:, 1:])


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW (Loshchilov, Hutter 2019) with weight decay of matrices only."""
    groups = decay_weights_only(model, _WEIGHT_DECAY)
    return torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=True)


def cosine(learning_rate: float, steps: int) -> Schedule:
    """Return a rate that rises linearly, then falls to a tenth by half a cosine."""

    def rate(step: int) -> float:
        if step < _WARMUP_STEPS:
            return learning_rate * (step + 1) / _WARMUP_STEPS
        done = min(1.0, (step - _WARMUP_STEPS) / max(1, steps - _WARMUP_STEPS))
        return learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))

    return rate


class Gpt(nn.Module):
    """Takes tokens ``[batch, time]``, returns the logits of the next tokens ``[batch, time, n]``.

    A token attends to itself and to the tokens before it.
    """

    def __init__(self, vocabulary: int, context: int, layers: int, heads: int, width: int) -> None:
        """Draw the weights as GPT-2 does: smaller for the outputs that the layers add up."""
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                added = name.endswith(("project.weight", "contract.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if added else 0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.positions(places))
        return functional.linear(self.norm(x), self.tokens.weight)


class TransformerBlock(nn.Module):
    """Causal attention, then a perceptron: each takes the normalized input and adds to it.

    Takes and returns ``[batch, time, width]``.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.project(self.attention(self.norm1(x)))
        added: torch.Tensor = self.contract(functional.gelu(self.expand(self.norm2(x))))
        return x + added

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """Return for each position the mean of the values up to it, weighted by attention."""
        split = self.attend(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = split
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).flatten(2)


if __name__ == "__main__":
    run(main, GptOptions)

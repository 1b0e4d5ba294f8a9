"""Language modelling in minutes: a small Transformer on the bytes of presidents' addresses.

Data: the addresses on the State of the Union (``data.text``) as bytes, 9,782,373 to train. A
fourth of the others is validated: 1,912 rows of 128.
Model: a decoder-only Transformer in the form of GPT-2 (Radford et al.: Language Models are
Unsupervised Multitask Learners, 2019), as nanoGPT makes it small: 4 layers of width 96 with 3
heads, context 128, learned positions, layer norm before each part, GELU, the output tied to the
embedding, no dropout; 484,416 parameters.
Algorithm: synchronous AdamW (betas 0.9 and 0.99, decay 0.1 of matrices alone). A step's 32 rows
begin anywhere in the text and are shared out to the workers; seed and epoch alone choose them: any
number of workers trains the same model, up to rounding. The rate rises to 0.003 in 100 steps, and
falls to a tenth by half a cosine until the end of all epochs; gradients are clipped at 1. An epoch
is 100 steps.
Goal: ``val_global_Perplexity`` of 6 for a byte, which are 2.6 bits (light: 8), evaluated after each
epoch.

Three trials with other programs beside them on two cores (seeds 0, 1 and 3; PyTorch 2.13) had the
goal after 5, 5 and 6 epochs, at 5.99, 5.85 and 5.44. Two workers with a core each of an Intel Xeon
took 54 s for that, of training time, with 38,000 bytes a second; one thread took 110 s. The third
went on, to 4.28 after 10 epochs and 3.68 after 15.
"""

import math
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

from mlbench.benchmarks.tasks import GptOptions
from mlbench_worker.data.text import SOTU_SHA256, load_texts
from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.process import DataError, run
from mlbench_worker.training.language import LanguageTrainer, Rows
from mlbench_worker.training.schedules import Schedule
from mlbench_worker.training.session import start
from mlbench_worker.training.trainer import decay_weights_only

_LAYERS, _HEADS, _WIDTH, _CONTEXT = 4, 3, 96, 128
_EPOCH_STEPS = 100
_WARMUP_STEPS = 100
_WEIGHT_DECAY = 0.1
_BETAS = (0.9, 0.99)
_LONGEST_GRADIENT = 1.0
# The validation takes a row of so many, so that it costs less than the training.
_VALIDATED = 4
_VALIDATION_BATCH = 128
_DEVIATION = 0.02  # of the normal distribution that weights are drawn from
_EXPANSION = 4  # of the width within a perceptron


def main(config: GptOptions) -> None:
    """Train until the goal is reached or the epochs are over."""
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
        trainer = LanguageTrainer(session, model, adamw(model), schedule, config, _LONGEST_GRADIENT)

        for epoch in session.epochs(config, trainer.parts):
            rows = random_rows(data.train, config, world, epoch, session.progress.batches)
            trained = trainer.train(rows, config.batch_size)
            own = validation[world.shard(len(validation))]
            validated = trainer.evaluate(map(_rows, torch.split(own, _VALIDATION_BATCH)))
            trainer.record(epoch, trained, validated)


def make_model(vocabulary: int) -> "Gpt":
    """Return the model of the benchmark."""
    return Gpt(vocabulary, _CONTEXT, _LAYERS, _HEADS, _WIDTH)


def random_rows(
    data: torch.Tensor, config: GptOptions, world: World, epoch: int, first: int = 0
) -> Iterator[Rows]:
    """Yield this rank's rows of each step of an epoch, from ``first`` on: they begin anywhere.

    Every rank draws those of all, from seed and epoch alone.
    """
    generator = torch.Generator().manual_seed((config.seed << 20) + epoch)
    shape = (_EPOCH_STEPS, config.batch_size, 1)
    begins = torch.randint(len(data) - _CONTEXT, shape, generator=generator)
    for of_step in begins[first:, world.shard(config.batch_size)]:
        yield _rows(data[of_step + torch.arange(_CONTEXT + 1)])


def rows_to_validate(data: torch.Tensor) -> torch.Tensor:
    """Return every fourth of the rows that a text is cut into, ``[n, context + 1]``.

    Raises:
        DataError: the text is shorter than a row.
    """
    if len(data) <= _CONTEXT:
        raise DataError(f"{len(data)} bytes to validate are too few: a row has {_CONTEXT + 1}")
    return data.unfold(0, _CONTEXT + 1, _CONTEXT)[::_VALIDATED]


def _rows(tokens: torch.Tensor) -> Rows:
    return Rows(tokens[:, :-1], tokens[:, 1:])


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW (Loshchilov, Hutter 2019), which decays matrices alone."""
    groups = decay_weights_only(model, _WEIGHT_DECAY)
    return torch.optim.AdamW(groups, betas=_BETAS, fused=True)


def cosine(learning_rate: float, steps: int) -> Schedule:
    """Return a rate that rises in proportion, then falls to a tenth by half a cosine."""

    def rate(step: int) -> float:
        if step < _WARMUP_STEPS:
            return learning_rate * (step + 1) / _WARMUP_STEPS
        done = min(1.0, (step - _WARMUP_STEPS) / max(1, steps - _WARMUP_STEPS))
        return learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))

    return rate


class Gpt(nn.Module):
    """Takes tokens ``[batch, time]``, returns the logits of the next ones ``[batch, time, n]``."""

    def __init__(self, vocabulary: int, context: int, layers: int, heads: int, width: int) -> None:
        """Draw the weights as GPT-2 does: smaller where they lead to what the layers add up."""
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                added = name.endswith(("project.weight", "contract.weight"))
                deviation = _DEVIATION / math.sqrt(2 * layers) if added else _DEVIATION
                nn.init.normal_(parameter, std=deviation)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits; a token sees itself and those before it."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.positions(places))
        return functional.linear(self.norm(x), self.tokens.weight)


class Block(nn.Module):
    """Causal attention, then a perceptron: each takes the normalized input, and adds to it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, _EXPANSION * width)
        self.contract = nn.Linear(_EXPANSION * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, time, width]``."""
        x = x + self.project(self.attention(self.norm1(x)))
        added: torch.Tensor = self.contract(functional.gelu(self.expand(self.norm2(x))))
        return x + added

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """Return for each place the mean of the values before it, by how queries fit keys."""
        split = self.attend(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = split
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).flatten(2)


if __name__ == "__main__":
    run(main, GptOptions)

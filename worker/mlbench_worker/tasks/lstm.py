"""Language modelling: AWD-LSTM to a perplexity, on any number of workers.

Data: the words of the addresses on the State of the Union, or of WikiText-2 (``data.text``). The
vocabulary of small is the 8,481 words that occur at least ten times in the training text; that of
full, at least three times (as WikiText-2 has it). Rarer words become ``<unk>``, which is predicted
like any other.
Model: AWD-LSTM (Merity, Keskar, Socher: Regularizing and Optimizing LSTM Language Models, 2018).
small has 2 layers of 256 units, embedding 128, all dropout 0.1. full has 3 layers of 1,150 units
and embedding 400, as in MLBench's task 3a; its dropout is 0.1 of words, 0.65 of the input, 0.2
between layers, 0.4 of the output and 0.5 of recurrent weights. The output is tied to the embedding.
Masks are constant in time. The output of the last layer is penalized by 2 |h|², and its change by
1 |Δh|².
Algorithm: synchronous SGD. The text is cut into rows, which the workers share; each worker keeps
its hidden state from step to step. A step takes about 70 words of each row, in 5 % of all cases
about 35, at a rate in proportion. Masks and lengths depend on seed and epoch alone and are drawn
for all rows: any number of workers trains the same model, up to rounding. Gradients are clipped at
0.25, weight decay is 1.2e-6. Once the validation loss exceeds the best one of all but the last five
epochs, the weights are averaged over all further steps (NT-ASGD), and the mean is evaluated.
Hyper-parameters: rate 30; small 20 rows and at most 10 epochs, full 80 rows and 750 epochs.
MLBench takes 80 rows per worker, and a rate that grows with the root of their number. With k
workers that is ``batch_size=80k learning_rate=30√k``, without its warm-up.
Goal: ``val_global_Perplexity`` of 120 (light: 150) for small, 70 (light: 90) for full, evaluated
after each epoch on ten rows, 70 words at a time.

Two trials of small had a perplexity of 123 and 125 after the first epoch, and reached the goal with
91 and 93 after the second. Two workers with one core each of an Intel Xeon (seed 1, PyTorch 2.13)
needed 342 s of training time, at 10,700 words a second. One thread needed 620 s, on a machine that
also ran other programs (seed 3). Full has not been tried.
"""

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from mlbench.benchmarks.tasks import SOTU_SHA256, LstmOptions, LstmSize
from mlbench_worker.data.text import load_texts
from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.rank_process import DataError, run
from mlbench_worker.training.checkpoint import Stateful
from mlbench_worker.training.language import LanguageTrainer, Rows, TextScore
from mlbench_worker.training.nt_asgd import NtAsgd
from mlbench_worker.training.session import Session, start
from mlbench_worker.training.trainer import TrainingOutcome

_TIME = 70
"""Usual number of tokens that a step takes of each row."""
_WEIGHT_DECAY = 1.2e-6

State = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""The hidden state and the memory of each layer, ``[1, streams, units]``."""


def main(config: LstmOptions) -> None:
    """Train until the goal is reached or all epochs are done."""
    with start(config) as session:
        world, device = session.world, session.execution.device
        session.set_goal(config)

        size = SIZES[config.size]
        texts = world.prepare(lambda: load_texts(config.dataset, session.datasets))
        data = world.prepare(lambda: texts.as_words(size.least_count))
        session.state_settings(
            config,
            data=config.dataset,
            data_sha256=texts.sha256,
            data_is_standard=texts.sha256 == SOTU_SHA256 if config.dataset == "sotu" else None,
            train_samples=len(data.train),
            validation_samples=len(data.validation),
            vocabulary=data.vocabulary,
            weight_decay=_WEIGHT_DECAY,
            optimizer="sgd",
            sample="token",
            **asdict(size),
        )
        session.say(
            f"{len(data.train)} words to train, {len(data.validation)} to validate, "
            f"{data.vocabulary} different ones"
        )
        train = rows_of(data.train, config.batch_size, world).to(device)
        validation = rows_of(data.validation, 10, world).to(device)

        torch.manual_seed(config.seed)
        model = AwdLstm(data.vocabulary, size)
        session.execution.place(model)
        trainer = AwdTrainer(session, model, data.vocabulary, config)

        for epoch in session.epochs(config, trainer.parts):
            all_blocks = blocks(train, random_lengths(config.seed, epoch))
            remaining = itertools.islice(all_blocks, session.progress.batches, None)
            trained = trainer.train(remaining, config.batch_size)
            validated = trainer.evaluate(blocks(validation, itertools.repeat(_TIME)))
            trainer.record(epoch, trained, validated)


def rows_of(tokens: torch.Tensor, rows: int, world: World) -> torch.Tensor:
    """Return this rank's share of the rows that a text is cut into, ``[share, time]``.

    Raises:
        DataError: a row would have fewer than two words.
    """
    if 2 * rows > len(tokens):
        raise DataError(f"{len(tokens)} words are too few for {rows} rows of at least two")
    return tokens[: len(tokens) // rows * rows].view(rows, -1)[world.shard(rows)]


def random_lengths(seed: int, epoch: int) -> Iterator[int]:
    """Yield the number of tokens that each step of an epoch takes of a row, equal on all ranks."""
    generator = random.Random((seed << 20) + epoch)  # noqa: S311
    while True:
        mean = _TIME if generator.random() < 0.95 else _TIME / 2
        yield max(5, int(generator.gauss(mean, 5.0)))


def blocks(rows: torch.Tensor, lengths: Iterable[int]) -> Iterator[Rows]:
    """Yield the rows from left to right, in blocks of the given numbers of tokens."""
    begin, last = 0, rows.shape[1] - 1
    for length in lengths:
        if begin == last or not len(rows):
            return
        end = min(begin + length, last)
        yield Rows(rows[:, begin:end], rows[:, begin + 1 : end + 1])
        begin = end


class AwdTrainer(LanguageTrainer):
    """Trains an AWD-LSTM on rows of text: each block continues the one before."""

    def __init__(
        self, session: Session, model: "AwdLstm", vocabulary: int, config: LstmOptions
    ) -> None:
        self.optimizer: NtAsgd
        super().__init__(
            session,
            model,
            NtAsgd(model.parameters(), weight_decay=_WEIGHT_DECAY),
            lambda step: config.learning_rate,
            config,
            longest_gradient=0.25,
        )
        self._first_state = model.first_state
        self._size, self._vocabulary = SIZES[config.size], vocabulary
        self._seed, self._rows = config.seed, config.batch_size
        self._generator = torch.Generator(session.execution.device)
        self._state: State | None = None

    @property
    def parts(self) -> dict[str, Stateful]:
        return {**super().parts, "text": self}

    def train(self, batches: Iterable[Rows], batch_size: int) -> TextScore:
        """Train, in a new epoch from the start of the text. Seed and epoch determine the masks."""
        if not self.session.progress.batches:
            self._generator.manual_seed((self._seed << 20) + self.session.progress.epoch)
            self._state = None
        return super().train(batches, batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Return the hidden state and the masks' generator, with which the next block begins."""
        rank = self.session.world.rank
        return {"rank": rank, "hidden": self._state, "masks": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume in the middle of the text; without a hidden state if it is another rank's."""
        self._generator.set_state(state["masks"])
        self._state = None
        if state["rank"] == self.session.world.rank and state["hidden"] is not None:
            device = self.session.execution.device
            self._state = tuple((h.to(device), m.to(device)) for h, m in state["hidden"])

    @torch.inference_mode()
    def evaluate(self, shard: Iterable[Rows]) -> TextScore:
        """Evaluate the averaged weights, if there are any; then decide whether to average."""
        self._state = None
        with self.optimizer.averaged():
            score = super().evaluate(shard)
        self.optimizer.observe(score.loss)
        return score

    def rate(self, batch: Rows) -> float:
        """Return the learning rate, in proportion to the length of the block."""
        return super().rate(batch) * batch.tokens.shape[1] / _TIME

    def compute(self, model: nn.Module, batch: Rows) -> TrainingOutcome[TextScore]:
        """Return the cross entropy plus the penalties on the last layer's output."""
        rows, time = batch.tokens.shape
        state = self._state or self._first_state(rows)
        masks = None
        if model.training:
            share = self.session.world.shard(self._rows)
            masks = Masks.draw(self._size, self._vocabulary, self._rows, share, self._generator)
        logits, state, raw, output = model(batch.tokens.T, state, masks)
        self._state = tuple((hidden.detach(), memory.detach()) for hidden, memory in state)
        penalty = 2.0 * output.float().square().mean()
        if time > 1:
            penalty = penalty + 1.0 * raw.float().diff(dim=0).square().mean()
        return self.outcome(logits, batch.following.T, rows, penalty)


@dataclass(frozen=True)
class Size:
    """The size of a model, its dropout rates and its vocabulary."""

    layers: int
    hidden: int
    embedding: int
    """Width of the embedding and of the last layer."""
    drop_words: float
    """Share of the vocabulary that is dropped from the embedding in a step."""
    drop_input: float
    drop_hidden: float
    """Dropout rate between two layers."""
    drop_output: float
    drop_weights: float
    """Share of each layer's recurrent weights that is dropped in a step."""
    least_count: int
    """Minimum number of occurrences, in the training text, of a word of the vocabulary."""

    @property
    def widths(self) -> list[int]:
        """Input width of each layer, and output width of the last layer."""
        return [self.embedding, *[self.hidden] * (self.layers - 1), self.embedding]


SIZES: dict[LstmSize, Size] = {
    "full": Size(3, 1150, 400, 0.1, 0.65, 0.2, 0.4, 0.5, least_count=3),
    "small": Size(2, 256, 128, 0.0, 0.1, 0.1, 0.1, 0.1, least_count=10),
}


class Masks(NamedTuple):
    """The masks of a step's locked dropout: 0 for dropped values, 1 / (1 - rate) elsewhere."""

    words: torch.Tensor
    """``[vocabulary, 1]``."""
    between: list[torch.Tensor]
    """``[1, streams, width]`` each: for the input, between layers, and for the output."""
    weights: list[torch.Tensor]
    """For each layer, in the shape of its recurrent weights."""

    @classmethod
    def draw(
        cls, size: Size, vocabulary: int, streams: int, share: slice, generator: torch.Generator
    ) -> "Masks":
        """Draw the masks for the streams of all ranks, and return this rank's share."""

        def mask(rate: float, *shape: int) -> torch.Tensor:
            values = torch.empty(shape, device=generator.device)
            return values.bernoulli_(1 - rate, generator=generator).div_(1 - rate)

        widths = size.widths
        rates = [size.drop_input, *[size.drop_hidden] * (size.layers - 1), size.drop_output]
        return cls(
            mask(size.drop_words, vocabulary, 1),
            [
                mask(rate, 1, streams, width)[:, share]
                for rate, width in zip(rates, widths, strict=True)
            ],
            [mask(size.drop_weights, 4 * width, width) for width in widths[1:]],
        )


class AwdLstm(nn.Module):
    """Takes tokens ``[time, streams]``, returns logits ``[time, streams, vocabulary]``.

    It also returns the state after the last token, and the last layer's output before and after
    dropout. Without masks nothing is dropped.
    """

    def __init__(self, vocabulary: int, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size.embedding)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.layers = nn.ModuleList(itertools.starmap(nn.LSTM, itertools.pairwise(size.widths)))
        self.widths = size.widths[1:]
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self, tokens: torch.Tensor, state: State, masks: Masks | None = None
    ) -> tuple[torch.Tensor, State, torch.Tensor, torch.Tensor]:
        table = self.embedding.weight
        raw = functional.embedding(tokens, table if masks is None else table * masks.words)
        states = []
        for number, (layer, old_state) in enumerate(zip(self.layers, state, strict=True)):
            if masks is None:
                raw, new_state = layer(raw, old_state)
            else:
                weights = layer.get_parameter("weight_hh_l0") * masks.weights[number]
                inputs = (raw * masks.between[number], old_state)
                raw, new_state = functional_call(layer, {"weight_hh_l0": weights}, inputs)
            states.append(new_state)
        output = raw if masks is None else raw * masks.between[-1]
        return functional.linear(output, table, self.bias), tuple(states), raw, output

    def first_state(self, streams: int) -> State:
        """Return the zero state with which a text begins."""
        zeros = (self.bias.new_zeros(1, streams, width) for width in self.widths)
        return tuple((zero, zero) for zero in zeros)


if __name__ == "__main__":
    run(main, LstmOptions)

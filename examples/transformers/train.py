"""Teach a small language model to continue a text, on as many workers as there are."""

import json

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

TEXT = "the quick brown fox jumps over the lazy dog and runs away, "
symbols = sorted(set(TEXT))
tokens = torch.tensor([symbols.index(letter) for letter in TEXT * 8])
pieces = [{"input_ids": piece, "labels": piece} for piece in tokens.unfold(0, 32, 1)]

torch.manual_seed(0)
sizes = {"n_positions": 32, "n_embd": 32, "n_layer": 1, "n_head": 2}
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=len(symbols), bos_token_id=0, eos_token_id=0, **sizes)
)
trainer = Trainer(
    model,
    TrainingArguments(
        output_dir="checkpoints",
        use_cpu=True,
        learning_rate=0.01,
        per_device_train_batch_size=4,
        num_train_epochs=3,
        logging_steps=5,
        eval_strategy="epoch",
        save_strategy="no",
        disable_tqdm=True,
    ),
    train_dataset=pieces[:240],
    eval_dataset=pieces[240:],
)
trainer.train()
print(json.dumps(trainer.state.log_history))

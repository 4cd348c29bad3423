"""A model for looking at: weights of one checkpoint, no gradients, no lock, nothing written."""

from __future__ import annotations

import numpy as np
import torch

from andrea_engine.data.tokenizer import Tokenizer
from andrea_engine.model.flat import FlatParameters
from andrea_engine.model.gpt import GPT
from andrea_engine.model.shape import ModelShape
from andrea_engine.run.checkpoint import HEADER, CheckpointFile, checkpoint_name, inspect_checkpoint, list_checkpoints
from andrea_engine.run.config import RunConfig
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import NoCheckpointError


def load_for_sampling(directory: RunDirectory, config: RunConfig, step: int | None) -> tuple[GPT, Tokenizer, int]:
    """Model, tokenizer and step of the newest valid checkpoint, or of `step`. Raises NoCheckpointError."""
    n_params = config.n_params
    if step is not None:
        files = [inspect_checkpoint(directory.path / checkpoint_name(step), n_params)]
    else:
        files = list_checkpoints(directory.path, n_params)
    for file in files:
        if file.valid:
            return GPT(_weights(config, file)), Tokenizer.load(directory.tokenizer), file.step
    reasons = "; ".join(f"{file.path.name} {file.problem}" for file in files)
    raise NoCheckpointError(f"no checkpoint to sample from in {directory.path}{': ' + reasons if reasons else ''}")


def _weights(config: RunConfig, file: CheckpointFile) -> FlatParameters:
    shape = ModelShape.of(config)
    flat = FlatParameters(shape, training=False)
    # The keep rule may remove the file while it is read: a mapping keeps it readable.
    data = np.memmap(file.path, dtype="<f4", mode="c", offset=HEADER.size, shape=(shape.n_params,))
    with torch.no_grad():
        flat.w.copy_(torch.from_numpy(data))
    return flat

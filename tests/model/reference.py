"""The model again, in float64 loops over single tokens: slow, obvious, independent of the engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from andrea_engine.model.shape import ModelShape

Array = NDArray[np.float64]


def unpack(flat: Array, shape: ModelShape) -> dict[str, Array]:
    """Cut a flat vector in the order that the checkpoint format prescribes."""
    d = shape.d_model
    sizes = [("tok", shape.vocab, d), ("pos", shape.context, d)]
    for layer in range(shape.layers):
        sizes += [(f"{name}{layer}", d, d) for name in ("wq", "wk", "wv", "wo")]
        sizes += [(f"fc1{layer}", 4 * d, d), (f"fc2{layer}", d, 4 * d)]
    sizes += [("head", shape.vocab, d)]
    out, at = {}, 0
    for name, rows, columns in sizes:
        out[name] = flat[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns
    assert at == flat.size
    return out


def norm(x: Array) -> Array:
    root: Array = np.sqrt(np.mean(x * x) + 1e-5)
    return x / root


def softmax(x: Array) -> Array:
    shares: Array = np.exp(x - x.max())
    shares /= shares.sum()
    return shares


def logits(flat: Array, shape: ModelShape, ids: list[int]) -> Array:
    """[tokens, vocab] for one sequence."""
    p = unpack(flat, shape)
    stream = [norm(p["tok"][token] + p["pos"][at]) for at, token in enumerate(ids)]
    width = shape.d_model // shape.heads
    for layer in range(shape.layers):
        normed = [norm(x) for x in stream]
        q, k, v = ([p[f"{name}{layer}"] @ x for x in normed] for name in ("wq", "wk", "wv"))
        for at in range(len(ids)):
            mixed = np.zeros(shape.d_model)
            for head in range(shape.heads):
                part = slice(head * width, (head + 1) * width)
                scores = np.array([q[at][part] @ k[past][part] for past in range(at + 1)]) / np.sqrt(width)
                for past, weight in enumerate(softmax(scores)):
                    mixed[part] += weight * v[past][part]
            stream[at] = stream[at] + p[f"wo{layer}"] @ mixed
        for at, x in enumerate(stream):
            hidden = np.maximum(p[f"fc1{layer}"] @ norm(x), 0.0)
            stream[at] = x + p[f"fc2{layer}"] @ (hidden**2 if shape.mlp == "relu2" else hidden)
    return np.array([p["head"] @ x for x in stream])


def loss(flat: Array, shape: ModelShape, batch: list[list[int]], targets: list[list[int]]) -> float:
    """Mean cross-entropy in nats."""
    surprises = [
        -np.log(softmax(row)[target])
        for ids, wanted in zip(batch, targets, strict=True)
        for row, target in zip(logits(flat, shape, ids), wanted, strict=True)
    ]
    return float(np.mean(surprises))


def gradient(flat: Array, shape: ModelShape, batch: list[list[int]], targets: list[list[int]]) -> Array:
    """Central differences; with a step of 1e-6 in float64 good to about 1e-9."""
    out, step = np.zeros_like(flat), 1e-6
    for at in range(flat.size):
        up, down = flat.copy(), flat.copy()
        up[at] += step
        down[at] -= step
        out[at] = (loss(up, shape, batch, targets) - loss(down, shape, batch, targets)) / (2 * step)
    return out

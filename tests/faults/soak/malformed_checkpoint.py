"""Checkpoints that are cut, longer, flipped, zeroed, poisoned or mislabelled: never accepted, and never an exception.

What is acceptable is told by a reading of the format with `struct` and nothing else.
"""

from __future__ import annotations

import hashlib
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path

from andrea_engine.run.check import check
from andrea_engine.run.checkpoint import choose_checkpoint
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import NoCheckpointError

COUNT = 1400  # parameters: four pages of memory
OLDER, NEWER = 10, 20
SPECIAL = (math.nan, math.inf, -math.inf, -1.0, -0.0, 0.0, 1e38, 1e-45)
NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), COUNT - 1, COUNT + 1, 2 * COUNT, OLDER, NEWER, NEWER + 1, 1 << 24, 1 << 30)


def content(choice: random.Random, step: int) -> bytes:
    """A checkpoint that can be trained from."""
    signed = [choice.gauss(0.0, 0.1) for _ in range(2 * COUNT)]
    squares = [choice.gauss(0.0, 0.1) ** 2 for _ in range(COUNT)]
    return struct.pack(f"<ii{3 * COUNT}f", step, COUNT, *signed, *squares)


def acceptable(data: bytes, step: int) -> bool:
    """Whether `data` is a checkpoint of `step` and of the model, with numbers that can be trained from."""
    if len(data) != 8 + 12 * COUNT or struct.unpack_from("<ii", data) != (step, COUNT):
        return False
    values = struct.unpack_from(f"<{3 * COUNT}f", data, 8)
    second = values[2 * COUNT :]
    return all(map(math.isfinite, values)) and min(second) >= 0 and any(second)


def of_another_model(data: bytes) -> bool:
    """A whole file, of another number of parameters."""
    if len(data) < 8:
        return False
    step, count = struct.unpack_from("<ii", data)
    return bool(step >= 0 and count > 0 and count != COUNT and len(data) == 8 + 12 * count)


def trial(seed: int, scratch: Path) -> None:
    from andrea_engine.train.checkpointing import content_problem

    choice = random.Random(seed)
    older, newer = content(choice, OLDER), content(choice, NEWER)
    damage = choice.choice(DAMAGES)
    damaged = damage(newer, choice)
    known = {OLDER: hashlib.sha256(older).hexdigest()}
    if choice.random() < 0.5:
        known[NEWER] = hashlib.sha256(newer).hexdigest()
    (scratch / f"step_{OLDER:06d}.bin").write_bytes(older)
    (scratch / f"step_{NEWER:06d}.bin").write_bytes(damaged)
    good = acceptable(damaged, NEWER) and (NEWER not in known or damaged == newer)
    what = f"{damage.__name__}, {'with' if NEWER in known else 'without'} a digest"
    try:
        chosen = choose_checkpoint(scratch, COUNT, known, content_problem)
    except NoCheckpointError:
        assert of_another_model(damaged), f"{what}: the older checkpoint was not taken"
    else:
        assert not of_another_model(damaged), f"{what}: a file of another model was passed over"
        assert chosen is not None
        expected = NEWER if good else OLDER
        assert chosen.file.step == expected, f"{what}: step {chosen.file.step} was chosen instead of {expected}"
        assert chosen.verified == (chosen.file.step in known)
    report = check(RunDirectory(scratch), content_problem)
    severities = [f.severity for f in report.findings if f.path == f"step_{NEWER:06d}.bin"]
    intact = acceptable(damaged, NEWER) or of_another_model(damaged)
    if not intact:
        assert severities == ["problem"], f"{what}: check calls it {severities}"


def cut(data: bytes, choice: random.Random) -> bytes:
    return data[: choice.choice((0, 1, 7, 8, choice.randrange(len(data)), len(data) - 1, len(data) - 4))]


def longer(data: bytes, choice: random.Random) -> bytes:
    return data + choice.choice((b"\0", b"\0" * 4, b"\0" * 4096, choice.randbytes(choice.randint(1, 5000)), data))


def bit_flip(data: bytes, choice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(choice.choice((1, 1, 1, 2, 8))):
        at = choice.randrange(8) if choice.random() < 0.2 else choice.randrange(len(data))
        changed[at] ^= 1 << choice.randrange(8)
    return bytes(changed)


def zero_page(data: bytes, choice: random.Random) -> bytes:
    size = choice.choice((512, 4096))
    at = choice.randrange(0, len(data), size)
    return data[:at] + b"\0" * len(data[at : at + size]) + data[at + size :]


def zero_tail(data: bytes, choice: random.Random) -> bytes:
    """As of a file whose space was reserved and never written."""
    at = choice.choice((0, 8, choice.randrange(len(data)), 8 + 8 * COUNT))
    return data[:at] + b"\0" * (len(data) - at)


def special_number(data: bytes, choice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(choice.randint(1, 3)):
        struct.pack_into("<f", changed, 8 + 4 * choice.randrange(3 * COUNT), choice.choice(SPECIAL))
    return bytes(changed)


def lying_header(data: bytes, choice: random.Random) -> bytes:
    step, count = choice.choice(((NEWER, COUNT), (0, COUNT), (NEWER, 0)))
    return struct.pack("<ii", choice.choice((step, *NUMBERS)), choice.choice((count, *NUMBERS))) + data[8:]


def other_model(data: bytes, choice: random.Random) -> bytes:
    count = choice.choice((1, COUNT - 1, COUNT + 1))
    return struct.pack("<ii", choice.choice((NEWER, OLDER)), count) + (data[8:] * 2)[: 12 * count]


def swapped_bytes(data: bytes, choice: random.Random) -> bytes:
    return struct.pack(f">{len(data) // 4}I", *struct.unpack(f"<{len(data) // 4}I", data))


def moved_piece(data: bytes, choice: random.Random) -> bytes:
    first, last = sorted(choice.sample(range(len(data)), 2))
    return data[first:last] + data[:first] + data[last:]


def rubbish(data: bytes, choice: random.Random) -> bytes:
    return choice.randbytes(choice.choice((8, 100, len(data))))


def untouched(data: bytes, choice: random.Random) -> bytes:
    return data


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    cut,
    longer,
    bit_flip,
    bit_flip,
    zero_page,
    zero_tail,
    special_number,
    special_number,
    lying_header,
    other_model,
    swapped_bytes,
    moved_piece,
    rubbish,
    untouched,
)

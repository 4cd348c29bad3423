"""One entry of the loss record, and how to read any spelling of it that exists in the wild."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

LAST_STEP = 2**53
"""The greatest step that can be: up to it every step is a float of its own."""


class LossEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of one step.

    `loss`, `ema` (debiased, beta 0.99), `grad_norm`: nats and the global gradient norm, None when not finite or not
    known. `seconds`: duration of the step. `power_w`: mean board power over the step in watts. `energy_j`: joules
    of the run up to and including this step. `policy`: pivot generation. `session`: starts of the engine so far.
    `nonfinite` names the fields that were NaN or infinite and stand as null.
    """

    step: Annotated[int, msgspec.Meta(ge=0, le=LAST_STEP)]
    loss: float | None = None
    ema: float | None = None
    source: str | None = None
    lr: float | None = None
    grad_norm: float | None = None
    seconds: float | None = None
    power_w: float | None = None
    energy_j: float | None = None
    policy: int | None = None
    session: int | None = None
    nonfinite: list[str] | msgspec.UnsetType = msgspec.UNSET

    def to_line(self) -> bytes:
        """JSON text without a newline; always strict JSON."""
        return _encoder.encode(self)

    def same_training(self, other: LossEntry) -> bool:
        """True when everything that training determines is equal; times, power and the session are measurements."""
        return all(getattr(self, name) == getattr(other, name) for name in TRAINING_FIELDS)


TRAINING_FIELDS = ("step", "loss", "ema", "source", "lr", "grad_norm", "policy", "nonfinite")
FLOAT_FIELDS = ("loss", "ema", "lr", "grad_norm", "seconds", "power_w", "energy_j")
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")  # or half of a pair, which is harmless here
_encoder = msgspec.json.Encoder()
_entries = msgspec.json.Decoder(list[LossEntry])
_NONFINITE_WORDS = {"nan", "inf", "+inf", "-inf", "infinity", "-infinity", "+infinity"}


def make_entry(*, step: int, **fields: object) -> LossEntry:
    """Entry in which every number that is not finite is stored as None and named in `nonfinite`."""
    bad = [k for k, v in fields.items() if isinstance(v, float) and not math.isfinite(v)]
    clean = {k: None if k in bad else v for k, v in fields.items()}
    if bad:
        clean["nonfinite"] = bad
    return LossEntry(step=step, **clean)  # type: ignore[arg-type]


def decode_entries(array: bytes | memoryview) -> list[LossEntry]:
    """Fast path: a JSON array of well-formed entries. Raises ValueError otherwise."""
    try:
        return _entries.decode(array)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def loads_bounded(data: bytes) -> object:
    """Parse JSON of any dialect into values that can be written again.

    A lone surrogate becomes `?`, an integer of 20 digits and more a float. Raises ValueError for everything
    unparseable, however it is malformed.
    """
    try:
        item = json.loads(data, parse_int=_bounded_int)
        if _LONE_SURROGATE.search(data):
            item = json.loads(json.dumps(item, ensure_ascii=False).encode("utf-8", "replace"), parse_int=_bounded_int)
        return item
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(str(error)) from None


def dumps_strict(value: object) -> bytes:
    """Strict JSON: numbers that are not finite become null, bytes of a file name that are not UTF-8 become `?`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(loads_bounded(json.dumps(msgspec.to_builtins(value)).encode()))


def _bounded_int(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)


def entry_from(item: object) -> LossEntry | None:  # noqa: PLR0912  (one branch a field that may be wrong)
    """Entry from a liberal spelling: an object, or the original's `[step, loss]` pair; None if it has no step."""
    if isinstance(item, list) and len(item) == 2:
        item = {"step": item[0], "loss": item[1]}
    if not isinstance(item, dict):
        return None
    step = item.get("step")
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= LAST_STEP:
        return None
    fields: dict[str, object] = {}
    bad = [n for n in item["nonfinite"] if n in FLOAT_FIELDS] if isinstance(item.get("nonfinite"), list) else []
    for name in FLOAT_FIELDS:
        value = item.get(name)
        if isinstance(value, str) and value.strip().lower() in _NONFINITE_WORDS:
            value = math.nan
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = _as_float(value)
            if math.isfinite(number):
                fields[name] = number
            elif name not in bad:
                bad.append(name)
    for name in ("policy", "session"):
        value = item.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            fields[name] = value
    if isinstance(item.get("source"), str):
        fields["source"] = item["source"]
    if "loss" not in fields and "loss" not in bad:
        bad.append("loss")  # null, missing or not a number: it is counted, and the rest of the entry is kept
    if bad:
        fields["nonfinite"] = bad
    return LossEntry(step=step, **fields)  # type: ignore[arg-type]


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def current_branch(entries: Iterable[LossEntry]) -> list[LossEntry]:
    """The entries that led to the present weights: where a step occurs again, the later branch replaces the older.

    Going back to step s abandons everything recorded from s on. The result has strictly increasing steps.
    """
    branch: list[LossEntry] = []
    for entry in entries:
        while branch and branch[-1].step >= entry.step:
            branch.pop()
        branch.append(entry)
    return branch

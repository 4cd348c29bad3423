"""Ticks: where an axis is labelled, and with what."""

from __future__ import annotations

import math

import msgspec

from .format import scientific

_BIG = 1e300  # keeps differences finite
_NICE = (1.0, 2.0, 2.5, 5.0)
_LETTERS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class Tick(msgspec.Struct, frozen=True):
    value: float
    label: str


def nice_ticks(lo: float, hi: float, n: int, *, integer: bool = False) -> list[Tick]:
    """About `n` ticks (at most n + 1) at multiples of 1, 2, 2.5 or 5 times a power of ten inside [lo, hi].

    Labels share their decimals ('9.0', '7.5'), thousands are short ('25k', '2.5M'), tiny values scientific
    ('1.6e-4'). `integer` keeps the step a whole number (steps, pulls). Empty if there is no range.
    """
    for step in nice_steps(lo, hi, n):
        if integer and step != math.floor(step):
            continue
        first, last = _multiples(lo, hi, step)
        if last - first <= n:
            values = [multiple(index, step) for index in range(first, last + 1)]
            largest = max((abs(value) for value in values), default=0.0)
            whole = integer or largest >= 10.0
            return [Tick(value, _tick_label(value, step, largest, whole)) for value in values]
    return []


def count_ticks(lo: float, hi: float, n: int) -> list[Tick]:
    """Ticks for an axis that counts: '0', '25k', '50k'."""
    return nice_ticks(lo, hi, n, integer=True)


def log_ticks(lo: float, hi: float, n: int) -> list[Tick]:
    """Ticks for a log scale: powers of ten, every k-th if there are many, 1-2-5 steps if there are few."""
    if n < 1 or not 0.0 < lo < hi or not math.isfinite(hi):
        return []
    low, high = math.floor(math.log10(lo)), math.ceil(math.log10(hi))
    for digits in ((1.0, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        values = [d * 10.0**e for e in range(max(low, -290), min(high, 299) + 1) for d in digits]
        values = [value for value in values if lo * (1 - 1e-9) <= value <= hi * (1 + 1e-9)]
        if len(values) <= n:
            break
    values = values[:: math.ceil(len(values) / n)] if values else []
    if len(values) < 2 and hi / lo < 10.0:
        return nice_ticks(lo, hi, n)
    return [Tick(value, _log_label(value)) for value in values]


_SECONDS = (("s", 1), ("min", 60), ("h", 3600), ("d", 86_400))
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


def time_ticks(lo: float, hi: float, n: int) -> list[Tick]:
    """Ticks for seconds on an axis of elapsed time, at round minutes, hours and days: '0', '30 min', '6 h', '2 d'."""
    if n < 1 or not _spread(lo, hi):
        return []
    if hi - lo < n:
        return [Tick(tick.value, f"{tick.label} s") for tick in nice_ticks(lo, hi, n)]
    days = (s * 86_400 for s in nice_steps(lo / 86_400, hi / 86_400, n) if s >= 1.0 and s == math.floor(s))
    for step in (*_TIME_STEPS, *days):
        first, last = _multiples(lo, hi, step)
        if last - first <= n:
            unit, size = next((unit, size) for unit, size in reversed(_SECONDS) if step >= size)
            values = [multiple(index, step) for index in range(first, last + 1)]
            return [Tick(value, f"{_plain(value / size)} {unit}" if value else "0") for value in values]
    return []


def _spread(lo: float, hi: float) -> bool:
    """Whether lo < hi are finite and far enough apart to be told from each other."""
    if not (math.isfinite(lo) and math.isfinite(hi)) or not 0.0 < hi / 2 - lo / 2 < _BIG:
        return False
    return hi - lo > max(abs(lo), abs(hi), 1e-280) * 1e-12


def nice_steps(lo: float, hi: float, n: int) -> list[float]:
    """Nice steps in rising order, the first too small for `n` ticks in [lo, hi], the last surely large enough."""
    if n < 1 or not _spread(lo, hi):
        return []
    exponent = math.floor(math.log10((hi - lo) / (n + 1))) - 1
    return [factor * 10.0**e for e in range(exponent, exponent + 5) for factor in _NICE]


def _multiples(lo: float, hi: float, step: float) -> tuple[int, int]:
    """The first and last whole i with lo <= i * step <= hi."""
    return math.ceil(lo / step - 1e-9), math.floor(hi / step + 1e-9)


def multiple(index: int, step: float) -> float:
    """index * step without the noise of binary fractions."""
    return round(index * step, 6 - math.floor(math.log10(step))) + 0.0


def _plain(value: float) -> str:
    """A whole number without decimals, any other in its shortest form: '90', '1.5'."""
    return f"{value:.12g}"


def _decimals(step: float) -> int:
    return next((d for d in range(16) if abs(round(step, d) - step) < step * 1e-6), 16)


def _tick_label(value: float, step: float, largest: float, whole: bool) -> str:
    if largest < 1e-3 or largest >= 1e15:
        if value == 0:
            return "0"
        digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(step)) + 1
        return scientific(value, min(max(digits, 0), 15))
    if largest >= 10_000.0:
        size, letter = next((size, letter) for size, letter in _LETTERS if largest >= size)
        if step >= size / 1000 and _decimals(step / size) <= 2:
            return f"{_plain(value / size)}{letter}" if value else "0"
    decimals = _decimals(step)
    return f"{value:.{decimals if whole else max(decimals, 1)}f}"


def _log_label(value: float) -> str:
    if value < 1e-3 or value >= 1e15:
        return scientific(value)
    if value < 10_000.0:
        return _plain(value)
    size, letter = next((size, letter) for size, letter in _LETTERS if value >= size)
    return f"{_plain(value / size)}{letter}"

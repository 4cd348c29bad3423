"""What the record tells of the cost of one step: the power panel at the time cursor."""

from __future__ import annotations

import math

from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import energy, fixed, human_count, watts
from andrea_tui.widgets.rows import Row, row_width


def rows_of_step(store: Store, index: int, width: int, height: int) -> list[Row]:
    """What the record tells of one entry: a line for each fact, or several in a line where there are too few. The
    power comes last, for the title has it."""
    joules, lr = fact_at(store, "energy_j", index), fact_at(store, "lr", index)
    seconds, tokens = fact_at(store, "seconds", index), store.record.tokens_per_step
    facts = [
        ("tok/s", human_count(tokens / seconds if tokens and seconds else None)),
        ("run", f"{energy(joules)} up to then" if joules is not None else "energy unknown"),
        ("grad norm", fixed(fact_at(store, "grad_norm", index), 2)),
        ("lr", f"{lr:.2e}" if lr is not None else "–"),
        ("power", watts(fact_at(store, "power_w", index))),
    ]
    if height < len(facts):
        return _packed([[(f"{label} ", "dim"), (text, "")] for label, text in facts], width, height)
    rows: list[Row] = [[(f"{label:<10}", "dim"), (text, "")] for label, text in facts]
    return rows if height < len(rows) + 2 else [*rows, [], [("Esc leads back to now", "faint")]]


def _packed(facts: list[Row], width: int, height: int) -> list[Row]:
    """As many facts in a line as fit whole; those that no line has room for are left out."""
    rows: list[Row] = []
    for fact in facts:
        if rows and row_width(rows[-1]) + 2 + row_width(fact) <= width:
            rows[-1] += [("  ", ""), *fact]
        elif len(rows) < height:
            rows.append(list(fact))
    return rows


def fact_at(store: Store, name: str, index: int) -> float | None:
    """A number of the record; None where it is not known, or not finite."""
    column = store.record.facts[name]
    value = column[index] if index < len(column) else math.nan
    return value if math.isfinite(value) else None

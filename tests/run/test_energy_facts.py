"""The span of a record's energy, however it was handed in."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.energy_facts import EnergySpan, energy_span
from andrea_engine.run.loss_entry import make_entry

JOULES = st.lists(st.none() | st.floats(0, 1e9), max_size=12)


@settings(deadline=None)
@given(JOULES, st.integers(0, 12))
def test_a_span_is_from_the_first_to_the_last_known_sum(joules: list[float | None], cut: int) -> None:
    entries = [make_entry(step=step, energy_j=value) for step, value in enumerate(joules, 1)]
    known = [(step, value) for step, value in enumerate(joules, 1) if value is not None]
    expected = EnergySpan(*known[0], *known[-1]) if known else None
    assert energy_span(entries) == expected
    assert energy_span(entries[cut:], energy_span(entries[:cut])) == expected

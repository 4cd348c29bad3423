"""A list of runs as text and as JSON, for `--once` and `--json`."""

from __future__ import annotations

import json
import time

from msgspec.structs import asdict

from andrea_engine.run.plain import clean
from andrea_tui.feed.runs import RunRow, RunsListing
from andrea_tui.plotting.format import duration, fixed, human_count, percent, points, size_bytes

HEADING = "state              step          of            EMA  score    low    last step     size"


def run_facts(row: RunRow, now: float) -> str:
    """The columns under `HEADING`."""
    age = "–" if row.last_step is None else duration(max(0.0, now - row.last_step))
    share = percent(row.step / row.total_steps) if row.total_steps else "–"
    return (
        f"{clean(row.word):<11} {human_count(row.step):>11} {human_count(row.total_steps):>11} {share:>5}  "
        f"{fixed(row.ema, 3):>7}  {points(row.score, 5)}  {gate_text(row):>5}  {age:>11} {size_bytes(row.bytes):>8}"
    )


def gate_text(row: RunRow) -> str:
    """Low samples in a row, of how many that halt."""
    if row.gate_low is None:
        return "–"
    return f"{row.gate_low}/{'–' if row.gate_limit is None else row.gate_limit}"


def runs_text(listing: RunsListing) -> str:
    """One line a run under a heading."""
    if listing.problem:
        return clean(listing.problem)
    names = [clean(row.name) for row in listing.rows]
    width = max(map(len, [*names, "run"]))
    now = time.time()
    lines = [f"{'run':<{width}}  {HEADING}"]
    lines += [f"{name:<{width}}  {run_facts(row, now)}" for name, row in zip(names, listing.rows, strict=True)]
    return "\n".join([*lines, "there are more runs than are shown"] if listing.left_off else lines)


def runs_json(listing: RunsListing) -> str:
    """An array of objects, one a run; None is unknown."""
    facts = [asdict(row) | {"path": clean(str(row.path)), "name": clean(row.name)} for row in listing.rows]
    return json.dumps(facts, indent=1, allow_nan=False)

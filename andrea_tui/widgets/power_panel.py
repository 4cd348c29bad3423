"""What does it cost? GPU power from NVML; without an NVIDIA GPU the machine's load, and a plain word about it."""

from __future__ import annotations

from andrea_engine.run.heartbeat import Gpu, Telemetry
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.store import POWER_SECONDS, Store, total_power
from andrea_tui.plotting.chart import ChartSpec, Curve, render_chart
from andrea_tui.plotting.format import compact_number, duration, energy, fixed, human_count, percent, size_bytes, watts
from andrea_tui.plotting.strips import sparkline
from andrea_tui.plotting.ticks import Tick
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row

STALE_SECONDS = 5.0


def _ago(lo: float, hi: float, n: int) -> list[Tick]:
    """Ticks of the last ten minutes."""
    return [Tick(-540.0, "9 min"), Tick(-300.0, "5 min"), Tick(0.0, "now")]


class PowerPanel(Panel):
    """Power, utilisation, temperature and memory; energy of the run, rate, gradient norm, learning rate."""

    NUMBER = "2"

    def __init__(self, id: str = "power") -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)

    def title(self, store: Store, room: int) -> Row:
        t = store.telemetry
        if t is None:
            return [("power  ", "title"), ("no engine, no readings", "dim")]
        power, limit = total_power(t), _limit(t)
        if power is not None:
            of = f" of {watts(limit)}" if limit is not None else ""
            return [("power  ", "title"), (watts(power), "accent-bold"), (of, "dim")]
        if t.gpus:
            return [("power  ", "title"), ("N/A, this GPU does not tell", "dim")]
        return [("host  ", "title"), ("CPU ", "dim"), (percent((t.cpu_percent or 0.0) / 100), "accent-bold")]

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        if height <= 1:
            return [self._short(store)]
        facts = self._facts(store, width)
        shown = facts[: max(1, height - 3)] if height < len(facts) + 3 else facts
        chart_height = height - len(shown)
        return [*(self._chart(store, width, chart_height) if chart_height >= 2 else []), *shown]

    def _short(self, store: Store) -> Row:
        """All of it in one line, for small screens."""
        t = store.telemetry
        rate = human_count(store.heartbeat.tokens_per_second if store.heartbeat and t else None)
        cost = energy(store.energy_j) if store.energy_j is not None else "energy unknown"
        if t is not None and t.gpus:
            return [*_gpu_row(t.gpus[0])[:3], (f" {cost}", "dim")]
        return [(f"{rate} tok/s", ""), (f"  {cost}", "dim")]

    def _chart(self, store: Store, width: int, height: int) -> list[Row]:
        now = store.load[-1][0] if store.load else store.updated
        series = Series([t - now for t, _ in store.load], [v for _, v in store.load])
        t = store.telemetry
        limit = _limit(t) if t else None
        is_watts = t is not None and total_power(t) is not None
        spec = ChartSpec(
            -POWER_SECONDS,
            0.0,
            curves=[Curve(series, "line", max_gap=30.0, report=False)],
            y_lo=0.0,
            y_hi=(limit or None) if is_watts else 100.0,
            x_ticks=_ago,
            x_unit="W" if is_watts else "CPU %",
            x_end=lambda _: "now",
            message="readings come once a second" if store.condition.alive else "",
        )
        return [list(row) for row in render_chart(spec, width, height, self.kind).rows]

    def _facts(self, store: Store, width: int) -> list[Row]:
        t = store.telemetry
        rows: list[Row] = []
        if t is not None:
            age = store.updated - t.time if t.time else 0.0
            if age > STALE_SECONDS:
                rows.append([(f"readings are {duration(age)} old", "warn")])
            rows += [_gpu_row(gpu) for gpu in t.gpus]
            if not t.gpus:
                rows.append([(t.gpu_problem or "no NVIDIA GPU", "dim")])
                used, total = size_bytes(t.memory_used), size_bytes(t.memory_total)
                rows.append(
                    [("mem ", "dim"), (used, ""), (f" of {total}", "dim"), (f"  load {fixed(t.load_1m, 1)}", "dim")]
                )
        joules = store.energy_j
        per_token = _joules_per_token(store)
        if joules is None:
            rows.append([("run ", "dim"), ("energy unknown", "dim")])
        else:
            rows.append([("run ", "dim"), (energy(joules), ""), (f"  {compact_number(per_token)} J/token", "dim")])
        rows.append(_rate_row(store, width, self.kind == "ascii"))
        last = store.last
        rows.append(
            [
                ("grad norm ", "dim"),
                (fixed(last.grad_norm if last else None, 2, 5), ""),
                ("  lr ", "dim"),
                (f"{last.lr:.2e}" if last and last.lr is not None else "–", ""),
            ]
        )
        return rows


def _rate_row(store: Store, width: int, ascii_only: bool) -> Row:
    beat = store.heartbeat if store.condition.alive else None
    rate = human_count(beat.tokens_per_second if beat else None, 8)
    line = sparkline(
        list(store.rates),
        max(0, min(24, width - (28 if beat is not None and beat.mfu is not None else 18))),
        "ascii" if ascii_only else "braille",
    )
    row: Row = [("tok/s ", "dim"), (line, "band"), (rate, "")]
    if beat is not None and beat.mfu is not None:
        row.append((f"  MFU {percent(beat.mfu)}", "dim"))
    return row


def _gpu_row(gpu: Gpu) -> Row:
    use = percent(None if gpu.utilisation is None else gpu.utilisation / 100)
    heat = f"{gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else "N/A °C"
    memory = f"{size_bytes(gpu.memory_used)} of {size_bytes(gpu.memory_total)}"
    return [("util ", "dim"), (use, ""), (f"  {heat}  ", ""), (memory, "dim")]


def _limit(t: Telemetry) -> float | None:
    limits = [gpu.limit_w for gpu in t.gpus if gpu.limit_w is not None]
    return sum(limits) if limits and len(limits) == len(t.gpus) else None


def _joules_per_token(store: Store) -> float | None:
    if store.energy_j is None or store.config is None or not store.step:
        return None
    return store.energy_j / (store.step * store.config.tokens_per_step)

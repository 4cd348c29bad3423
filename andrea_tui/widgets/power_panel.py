"""What does it cost? GPU power from NVML; without an NVIDIA GPU the CPU packages or the machine's load."""

from __future__ import annotations

import math

from andrea_engine.run.energy_facts import cost
from andrea_engine.run.heartbeat import Gpu, Telemetry
from andrea_tui.feed.load import POWER_SECONDS, device_key, run_gpus, total_power
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.store import Store
from andrea_tui.plotting.chart import ChartSpec, Curve, render_chart
from andrea_tui.plotting.format import compact_number, duration, energy, fixed, human_count, percent, size_bytes, watts
from andrea_tui.plotting.strips import sparkline
from andrea_tui.plotting.ticks import Tick
from andrea_tui.view import ViewState
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.power_of_step import fact_at, rows_of_step
from andrea_tui.widgets.rows import Row, row_width

STALE_SECONDS = 5.0
HOST_CELLS = 12  # of the name of another machine
STILL_SECONDS = 15.0  # the chart moves on so often: over ssh each move costs as many bytes as the whole of it
_STYLES = ("line", "validation", "clip", "mark")  # curves are told apart by dashes and labels too


def _ago(lo: float, hi: float, n: int) -> list[Tick]:
    """Ticks of the last ten minutes."""
    return [Tick(hi - 540.0, "9 min"), Tick(hi - 300.0, "5 min"), Tick(hi, "now")]


class PowerPanel(Panel):
    """Power, utilisation, temperature, memory and clocks; energy and cost of the run, rate, gradient norm. With a time
    cursor what the record tells of that step instead: the devices' readings are those of now."""

    NUMBER = "2"

    def __init__(self, id: str = "power", view: ViewState | None = None) -> None:  # noqa: A002  (Textual's name)
        super().__init__(id=id)
        self.view = view if view is not None else ViewState()
        self._chart_of: object = None
        self._chart_rows: list[Row] = []

    def title(self, store: Store, room: int) -> Row:
        if (index := self.view.cursor_index(store.record)) is not None:
            step = human_count(int(store.record.steps[index]))
            then = fact_at(store, "power_w", index)
            told = (watts(then), "accent-bold") if then is not None else ("unknown", "dim")
            return [("power  ", "title"), told, (f"  at step {step}", "cursor-text")]
        t = store.telemetry
        if t is None:
            told = ("no readings yet" if store.condition.alive else "no engine, no readings", "dim")
            return [("power  ", "title"), told]
        power, gpus = total_power(t), [] if t.counts_cpu else run_gpus(t)
        if power is not None and gpus:
            limit = _limit(gpus)
            of = f" of {watts(limit)}" if limit is not None else ""
            many = f"  {len(gpus)} GPUs" if len(gpus) > 1 else ""
            return [("power  ", "title"), (watts(power), "accent-bold"), (of + many, "dim")]
        if power is not None:
            return [("CPU power  ", "title"), (watts(power), "accent-bold")]
        if gpus:
            return [("power  ", "title"), _why_unknown(t, gpus)]
        return [("host  ", "title"), ("CPU ", "dim"), (_cpu_share(t), "accent-bold")]

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        if (index := self.view.cursor_index(store.record)) is not None:
            return rows_of_step(store, index, width, height)
        if height <= 1:
            return [self._short(store)]
        facts = self._facts(store, width, height)
        shown = facts[: max(1, height - 3)] if height < len(facts) + 3 else facts
        chart_height = height - len(shown)
        return [*(self._chart(store, width, chart_height) if chart_height >= 2 else []), *shown]

    def _short(self, store: Store) -> Row:
        """All of it in one line, for small screens."""
        t = store.telemetry
        rate = human_count(store.heartbeat.tokens_per_second if store.heartbeat and t else None)
        joules = energy(store.energy_j) if store.energy_j is not None else "energy unknown"
        gpus = run_gpus(t) if t is not None else []
        if gpus:
            lost = next((gpu for gpu in gpus if gpu.problem), None)
            if lost is not None:
                return [(lost.problem, "bad")]
            return [*_readings(gpus[0])[1:4], (f" {joules}", "dim")]
        return [(f"{rate} tok/s", ""), (f"  {joules}", "dim")]

    def _chart(self, store: Store, width: int, height: int) -> list[Row]:
        """Redrawn with each reading, and for nothing else."""
        key = (store.load.version, store.condition.alive, store.telemetry is None, width, height, self.kind)
        if key != self._chart_of:
            self._chart_of, self._chart_rows = key, self._draw(store, width, height)
        return self._chart_rows

    def _draw(self, store: Store, width: int, height: int) -> list[Row]:
        load, t = store.load, store.telemetry
        now = math.ceil((load.time if load.time is not None else store.updated) / STILL_SECONDS) * STILL_SECONDS
        limits = [gpu.limit_w for gpu in run_gpus(t) if gpu.limit_w is not None] if t is not None else []
        spec = ChartSpec(
            now - POWER_SECONDS,
            now,
            curves=_curves(load.series(), t),
            y_lo=0.0,
            y_hi=(max(limits, default=None) if load.is_power else 100.0),
            x_ticks=_ago,
            x_unit="W" if load.is_power else "CPU %",
            x_end=lambda _: "now",
            message="one reading a second" if store.condition.alive else "",
        )
        return [list(row) for row in render_chart(spec, width, height, self.kind).rows]

    def _facts(self, store: Store, width: int, height: int) -> list[Row]:
        t = store.telemetry
        rows: list[Row] = []
        if t is not None:
            age = store.updated - t.time if t.time else 0.0
            if age > STALE_SECONDS:
                rows.append([(f"readings are {duration(age)} old", "warn")])
            rows += _gpu_rows(t, store.updated, width, height) if t.gpus else _host_rows(t, width)
        rows += _energy_rows(store, width)
        rows.append(_rate_row(store, width, self.kind == "ascii"))
        last = store.last
        rows.append(_optimizer_row(last.grad_norm if last else None, last.lr if last else None))
        return rows


def _optimizer_row(grad_norm: float | None, lr: float | None) -> Row:
    norm = ("grad norm ", "dim"), (fixed(grad_norm, 2, 5), "")
    return [*norm, ("  lr ", "dim"), (f"{lr:.2e}" if lr is not None else "–", "")]


def _curves(series: dict[str, Series], t: Telemetry | None) -> list[Curve]:
    """One line a device, each with its label where there are several."""
    names = {device_key(gpu): _label(gpu) for gpu in t.gpus} if t is not None else {}
    many = len(series) > 1
    return [
        Curve(
            one,
            _STYLES[place % len(_STYLES)],
            max_gap=30.0,
            report=False,
            dashed=place % 2 == 1,
            label=names.get(key, "") if many else "",
        )
        for place, (key, one) in enumerate(series.items())
    ]


def _label(gpu: Gpu) -> str:
    """Short name of a device: its number, or the profile of a MIG instance; on another machine with that one's name."""
    where = f"{gpu.host.partition('.')[0][:HOST_CELLS]} " if gpu.host else ""
    if gpu.board:
        return where + ("MIG" + gpu.name.rpartition("MIG")[2] if "MIG" in gpu.name else gpu.name)
    return f"{where}GPU {'?' if gpu.index is None else gpu.index}"


def _why_unknown(t: Telemetry, gpus: list[Gpu]) -> tuple[str, str]:
    """Why there is no sum: a device that is gone, or the reason that the driver gives."""
    lost = [gpu for gpu in gpus if gpu.problem]
    if lost:
        return (t.gpu_problem or f"{_label(lost[0])}: {lost[0].problem.partition(',')[0]}", "bad")
    if all(gpu.board for gpu in gpus):
        return ("N/A, only the whole board tells", "dim")
    reasons = [gpu.missing.get("power", "not told") for gpu in gpus if gpu.power_w is None]
    return (f"N/A ({reasons[0]})" if reasons else "N/A", "dim")


def _gpu_rows(t: Telemetry, now: float, width: int, height: int) -> list[Row]:
    """Two lines a device, one where they would leave no room for the rest."""
    rows: list[Row] = [[(t.gpu_problem, "bad")]] if t.gpu_problem else []
    gpus = t.gpus[: max(1, height - 9)]
    brief = 2 * len(gpus) > max(2, height - 8)
    many = len(t.gpus) > 1
    for gpu in gpus:
        rows += _device_rows(gpu, t.gpu_problem, now, many=many, brief=brief, width=width)
    if len(gpus) < len(t.gpus):
        rows.append([(f"+ {len(t.gpus) - len(gpus)} more", "dim")])
    return rows


def _device_rows(gpu: Gpu, told: str, now: float, *, many: bool, brief: bool, width: int) -> list[Row]:
    name: Row = [(f"{_label(gpu)}  ", "" if gpu.used or gpu.used is None else "dim")] if many else []
    if gpu.problem:
        rows: list[Row] = [] if gpu.problem == told else [[(f"{_label(gpu)}: {gpu.problem}", "bad")]]
        if gpu.time:
            age = duration(max(0.0, now - gpu.time))
            last = f"{age} ago: {watts(gpu.power_w)}  " + "".join(text for text, _ in _readings(gpu)[1:])
            rows.append([*name, (last, "dim")])
        return rows
    if many:
        name.append((f"{watts(gpu.power_w) if gpu.power_w is not None else 'N/A W'}  ", ""))
    label, use, heat, memory = _readings(gpu)
    rows = [_fitting(width, [*name, label, use, heat, memory], [*name, use, heat, memory], [*name, use, heat])]
    return rows if brief and not gpu.throttle else [*rows, _clock_row(gpu, width)]


def _fitting(width: int, *forms: Row) -> Row:
    """The first form that fits, or the last."""
    return next((form for form in forms if row_width(form) <= width), forms[-1])


def _readings(gpu: Gpu) -> Row:
    use = percent(None if gpu.utilisation is None else gpu.utilisation / 100)
    heat = f"{gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else "N/A °C"
    memory = f"{size_bytes(gpu.memory_used)} of {size_bytes(gpu.memory_total)}"
    return [("util ", "dim"), (use if gpu.utilisation is not None else "N/A", ""), (f"  {heat}  ", ""), (memory, "dim")]


def _clock_row(gpu: Gpu, width: int) -> Row:
    """Clocks, and what holds them back in words."""
    clock: Row = [("clock ", "dim"), (f"{human_count(gpu.sm_mhz)} MHz" if gpu.sm_mhz is not None else "N/A MHz", "")]
    if gpu.throttle:
        reasons = ", ".join(gpu.throttle)
        held = (f"held back: {reasons}", "warn")
        return _fitting(width, [*clock, ("  ", ""), held], [clock[1], ("  ", ""), held], [held], [(reasons, "warn")])
    memory = f"{human_count(gpu.memory_mhz)} MHz" if gpu.memory_mhz is not None else "N/A"
    return _fitting(width, [*clock, ("  memory ", "dim"), (memory, "")], clock)


def _cpu_share(t: Telemetry) -> str:
    return percent(None if t.cpu_percent is None else t.cpu_percent / 100)


def _host_rows(t: Telemetry, width: int) -> list[Row]:
    """As much of the host's memory and load as fits whole."""
    used, total = size_bytes(t.memory_used), size_bytes(t.memory_total)
    row: Row = [("CPU ", "dim"), (_cpu_share(t), ""), ("  mem ", "dim"), (used, "")]
    load: Row = [(f"  load {fixed(t.load_1m, 1)}", "dim")]
    of_total: Row = [*row, (f" of {total}", "dim")]
    return [
        [(t.gpu_problem or "no NVIDIA GPU", "dim")],
        _fitting(width, [*of_total, *load], of_total, [*row, *load], row),
    ]


def _energy_rows(store: Store, width: int) -> list[Row]:
    """Energy of the run, and how well it is known; then what a token and the whole cost."""
    joules, quality = store.energy_j, store.energy_quality
    if joules is None or store.energy is None:
        return [[("run ", "dim"), ("energy unknown", "dim")]]
    row: Row = [("run ", "dim")]
    if quality.complete is False:
        row.append(("at least ", "warn"))
    row.append((energy(joules), ""))
    if quality.estimated:
        row.append((" estimated", "dim"))
    more: Row = [(f"  {compact_number(store.energy.joules_per_token(store.config))} J/token", "dim")]
    price = cost(joules, store.config)
    if price is not None and store.config is not None:
        more.append((f"  {price:,.2f} {store.config.power.currency}".rstrip(), ""))
    return [[*row, *more]] if row_width([*row, *more]) <= width else [row, more]


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


def _limit(gpus: list[Gpu]) -> float | None:
    limits = [gpu.limit_w for gpu in gpus if gpu.limit_w is not None]
    return sum(limits) if limits and len(limits) == len(gpus) else None

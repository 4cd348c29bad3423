"""The first line: is it alive, where is it, how long will it take."""

from __future__ import annotations

from andrea_engine.run.forecast import forecast_disk
from andrea_engine.run.rank_facts import straggler
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import (
    duration,
    fixed,
    human_count,
    percent,
    points,
    rounded_count,
    short_count,
    size_bytes,
)
from andrea_tui.widgets.rows import Row, RowsWidget, row_width, shortened, spread

WORDS = {
    "training": ("●", "good"),
    "sampling": ("●", "good"),
    "validating": ("●", "good"),
    "saving": ("●", "good"),
    "starting": ("◐", "warn"),
    "preparing": ("◐", "warn"),
    "loading": ("◐", "warn"),
    "compiling": ("◐", "warn"),
    "stopping": ("◐", "warn"),
    "stalled": ("▲", "bad"),
    "suspended": ("▲", "bad"),
    "crashed": ("✕", "bad"),
    "failed": ("✕", "bad"),
    "halted": ("■", "bad"),
    "pivot": ("◆", "dim"),
    "stopped": ("□", "dim"),
    "finished": ("✓", "good"),
    "elsewhere": ("◇", "dim"),
    "empty": ("□", "dim"),
    "recorded": ("◇", "dim"),
    "missing": ("?", "dim"),
}
STALE_STEPS = 3.0
SLOW = 1.0  # seconds between looks, from which on a screen that hardly moves is explained


class StatusBar(RowsWidget):
    """`watching` adds the word for a console that sends nothing, `restart` what the watchdog is about to do."""

    def __init__(self, name: str) -> None:
        super().__init__(id="status")
        self.run_name = name
        self.watching = ""
        self.restart = ""
        self.alone = False  # the screen has room for this line only

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        if self.alone:
            return [self._brief(store, width)]
        left = self._heading()
        if store.n_params and width >= 100:
            left.append((f"  {rounded_count(store.n_params)}", "dim"))
        if store.ranks and width >= 100:
            left.append((f"  {len(store.ranks):,} ranks", "dim"))
        if self.watching:
            left.append((f"  {self.watching}", "warn"))
        if self.restart:
            left.append((f"  {self.restart}", "warn"))
        for detail in (3, 2, 1, 0):
            right = self._right(store, detail)
            if row_width(left) + row_width(right) + 2 <= width:
                pace: Row = [(f"  updates every {store.pause:.0f} s", "dim")] if (store.pause or 0.0) >= SLOW else []
                roomy = row_width(left) + row_width(pace) + row_width(right) + 2 <= width
                return [spread([*left, *pace] if roomy else left, right, width)]
        return [spread([], self._right(store, 0), width)]

    def unread(self, width: int, height: int) -> list[Row]:
        return [spread(self._heading(), [("  reading ", "dim")], width)]

    def _heading(self) -> Row:
        return [(" ANDREA ", "accent-bold"), (f" {self.run_name}", "bright")]

    def _brief(self, store: Store, width: int) -> Row:
        """All that matters in one line: state, step, loss EMA, last score; in fewer words the less room there is."""
        word = store.condition.word
        sign, style = WORDS.get(word, ("•", ""))
        ema = fixed(store.last.ema if store.last else None, 3)
        last = store.score.value_at(store.score.x_max or 0.0)
        score = points(last[1] if last else None)
        step = human_count(store.step)
        warn: Row = [(f"  {self.watching}", "warn")] if self.watching else []
        forms: list[Row] = [
            [
                (f"{self.run_name}  ", "bright"),
                (f"{sign} {word}", style),
                *warn,
                (f"  step {step}  loss EMA {ema}  score {score} of 100", ""),
            ],
            [(f"{sign} {word}", style), *warn, (f"  step {step}  EMA {ema}  score {score}", "")],
            [(f"{sign} {word}", style), (f" {step} EMA {ema} score {score}", "")],
            [(f"{sign} {word}", style), (f" {short_count(store.step)} {ema} {score}", "")],
            [(sign, style), (f" {short_count(store.step)} {ema} {score}", "")],
        ]
        return next((form for form in forms if row_width(form) <= width), forms[-1])

    def _right(self, store: Store, detail: int) -> Row:
        word = store.condition.word
        sign, style = WORDS.get(word, ("•", ""))
        idle = store.condition.idle
        row: Row = [(f"{sign} {word}" if idle is None else f"{sign} {word} {idle:,.0f} s", style)]
        total = store.total_steps
        step = store.step
        if detail >= 2:
            row.append((f"  step {human_count(step)} of {human_count(total)}", ""))
        else:
            row.append((f"  {human_count(step)}/{short_count(total)}", ""))
        if total and detail >= 1:
            row.append((f"  {percent(step / total)}", "dim"))
        beat = store.heartbeat
        if store.condition.alive and beat is not None:
            if beat.step_seconds and detail >= 1:
                unit = "steps/min" if detail >= 3 else "/min"
                row.append((f"  {60 / beat.step_seconds:,.1f} {unit}", "dim"))
            if beat.eta_seconds is not None and beat.step < (beat.target_step or 0):
                row.append((f"  ETA {duration(beat.eta_seconds)}", ""))
            age = store.age()
            patience = max(5.0, STALE_STEPS * (beat.step_seconds or 0.0))
            if word == "training" and age is not None and age > patience:
                row.append((f"  last step {duration(age)} ago", "warn"))
        return [*row, (" ", "")]


class SaveBar(RowsWidget):
    """The line above the keys: the last save or the request under way, alarms first."""

    def __init__(self) -> None:
        super().__init__(id="savebar")

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        return [shortened(self.plain(self._line(store)), width)]

    def _line(self, store: Store) -> Row:
        if store.condition.word in ("stalled", "suspended"):
            return [(" ALARM ", "alarm"), (f" {store.condition.sentence}", "bad")]
        if store.alarm:
            return [(" ALARM ", "alarm"), (f" {store.alarm}", "bad")]
        condition = store.condition
        if not condition.alive and condition.word != "missing":
            tone = "bad" if condition.word in ("crashed", "failed", "halted") else ""
            return [*_problems(store), (f" {condition.sentence}", tone)]
        if store.problems:
            return _problems(store)
        if condition.word in ("starting", "preparing", "loading", "stopping"):
            return [(f" {condition.sentence}", "warn")]
        return self._saves(store)

    def _saves(self, store: Store) -> Row:
        """The last save or the one under way, and what else should be known while all is well."""
        saves = store.saves
        text = saves.text or "no checkpoint yet"
        if saves.durable_at is not None and not saves.pending and saves.writing_step is None and not saves.failed:
            text += f", {duration(max(0.0, store.updated - saves.durable_at))} ago"
        row = [(f" {text}", "bad" if saves.failed else "warn" if saves.pending or saves.overdue else "dim")]
        disk, slow = disk_runs(store), _slow_rank(store)
        urgent = saves.pending or any(meaning == "warn" for _, meaning in disk)
        return [*row, *disk, *slow] if urgent else [*slow, *row, *disk]


def _problems(store: Store) -> Row:
    """What cannot be read of the run: the first, and how many more there are."""
    if not store.problems:
        return []
    more = f" (and {len(store.problems) - 1} more)" if len(store.problems) > 1 else ""
    return [(f" {store.problems[0]}{more} ", "warn")]


def _slow_rank(store: Store) -> Row:
    """The process that all others wait for."""
    slow = straggler(store.ranks)
    if slow is None:
        return []
    return [(f" rank {slow.rank.rank} is slow: {slow.ratio:.1f} x the time of the others (n) ", "warn")]


def disk_runs(store: Store) -> Row:
    """Free disk, and whether it lasts at this keep rule."""
    if store.disk_free is None:
        return []
    free = f"  {size_bytes(store.disk_free)} of disk free"
    if store.config is None or store.checkpoints is None:
        return [(free, "dim")]
    config, step = store.config, store.step
    forecast = forecast_disk(
        config.checkpoint, config.n_params, step, config.schedule.steps, store.checkpoints, store.disk_free
    )
    if forecast.enough:
        return [(f"{free}, enough for the whole run", "dim")]
    beat = store.heartbeat
    left = (forecast.full_at or step) - step
    when = f", in {duration(left * beat.step_seconds)}" if beat and beat.step_seconds else ""
    return [(f"{free}, full at about step {human_count(forecast.full_at)}{when}", "warn")]

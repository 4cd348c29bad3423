"""Why is the mix what it is? One row an arm: share, pulls, reward, weight, and what holds it there. At the time cursor
the share alone: the record tells which arm a step trained on, and nothing else about the arms."""

from __future__ import annotations

from andrea_engine.run.arms import ArmRow
from andrea_tui.feed.shares import SharesAt
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import compact_number, human_count, short_count
from andrea_tui.plotting.raster import Kind
from andrea_tui.plotting.strips import bar
from andrea_tui.view import ViewState
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row, row_width
from andrea_tui.widgets.wrapping import message

NARROW = 52
WIDE = 78
DETAIL = 116  # room for everything that decides a weight: the panel alone on a wide screen


class ArmsPanel(Panel):
    NUMBER = "4"

    def __init__(self, view: ViewState | None = None) -> None:
        super().__init__(id="arms")
        self.view = view if view is not None else ViewState()
        self._then = SharesAt()

    def title(self, store: Store, room: int) -> Row:
        if (index := self.view.cursor_index(store.record)) is not None:
            self._then.count(store.record, index)
            step, steps = human_count(int(store.record.steps[index])), human_count(self._then.steps)
            row: Row = [("arms  ", "title"), (f"at step {step}", "cursor-text")]
            shares = (f", share of the {steps} steps before", f", share of {steps} steps", f", of {steps} steps", "")
            return next(form for text in shares if row_width(form := [*row, (text, "dim")]) <= room or not text)
        return [("arms  ", "title"), (store.focus, "dim")]

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        if (index := self.view.cursor_index(store.record)) is not None:
            return self._at_cursor(store, index, width, height)
        arms = store.arms
        if not arms:
            text = "the mix is known once training begins" if store.condition.word != "missing" else ""
            return message(text, width, height)
        name_width = _name_width([arm.name for arm in arms], width)
        rows = [_row(arm, name_width, width, self.kind) for arm in arms]
        return [_head(name_width, width), *_as_many_as_fit(rows, height - 1)]

    def _at_cursor(self, store: Store, index: int, width: int, height: int) -> list[Row]:
        """In the order of the live rows, so that an arm stays where it was found; then those that are gone."""
        self._then.count(store.record, index)
        shares, live = self._then.shares, [arm.name for arm in store.arms]
        names = [*live, *sorted(set(shares).difference(live))]
        if not shares:
            return message("the record does not tell which arms were trained on", width, height)
        name_width = _name_width(names, width)
        room = 4 if width < WIDE else 20
        rows: list[Row] = []
        for name in names:
            share = shares.get(name, 0.0)
            drawn = bar(share, 1.0, room, self.kind, rest=" ")
            rows.append([(f"{_cut(name, name_width)} ", ""), (drawn, "bar"), (f"{share * 100:3.0f} %", "")])
        head: Row = [(f"{'arm':<{name_width}} share", "dim")]
        return [head, *_as_many_as_fit(rows, height - 1)]


def _name_width(names: list[str], width: int) -> int:
    return min(max(map(len, names)), 16 if width < NARROW else 18)


def _cut(name: str, width: int) -> str:
    return name.ljust(width) if len(name) <= width else name[: width - 1] + "…"


def _as_many_as_fit(rows: list[Row], room: int) -> list[Row]:
    """All of them, or the first ones and how many more there are."""
    if len(rows) <= room:
        return rows
    shown = rows[: max(0, room - 1)]
    return [*shown, [(f"+ {len(rows) - len(shown)} more", "dim")]]


def _head(name_width: int, width: int) -> Row:
    if width < NARROW:
        return [(f"{'arm':<{name_width}} share weight held by", "dim")]
    if width >= DETAIL:
        text = f"{'arm':<{name_width}} share {'pulls':>5} {'loss':>6} {'reward':>6} {'+-':>5} {'bonus':>5} {'epoch':>5}"
        text += f" {'penal.':>6} {'before':>6} {'floor':>5} {'cap':>5} {'weight':>6} {'prob':>6}"
        return [(text + "  held by", "dim")]
    text = f"{'arm':<{name_width}} {'share':<9} {'pulls':>6} {'reward':>6} {'weight':>6}"
    if width >= WIDE:
        text += f" {'floor':>6} {'cap':>6}"
    return [(text + "  held by", "dim")]


def _row(arm: ArmRow, name_width: int, width: int, kind: Kind) -> Row:
    name = _cut(arm.name, name_width)
    if not arm.available:
        zombie = f", a saved weight of {arm.stored_weight:.3f} has no effect" if arm.stored_weight else ""
        return [(f"{name} ", "dim"), ("✕ ", "warn"), ((arm.reason or "no data") + zombie, "warn")]
    share = "  – %" if arm.share is None else f"{arm.share * 100:3.0f} %"
    weight = "–" if arm.weight is None else f"{arm.weight:.2f}"
    style = "bright" if arm.in_focus else ""
    held = (arm.held_by, "accent" if arm.held_by in ("floor", "cap", "focus") else "dim")
    if width < NARROW:
        return [(f"{name} ", style), (f"{share}{weight:>6} ", ""), held]
    if width >= DETAIL:
        return [
            (f"{name} ", style),
            *_detail(arm, share),
            held,
        ]
    row: Row = [
        (f"{name} ", style),
        (bar(arm.share, 1.0, 4, kind, rest=" "), "bar"),
        (f"{share} {short_count(arm.pulls, 6)} {compact_number(arm.mean_reward, 6)} {weight:>6}", ""),
    ]
    if width >= WIDE:
        cap = "–" if arm.cap is None else f"{arm.cap:.2f}"
        floor = "–" if not arm.floor else f"{arm.floor:.2f}"
        row.append((f" {floor:>6} {cap:>6}", "dim"))
    return [*row, ("  ", ""), held]


def _detail(arm: ArmRow, share: str) -> Row:
    """Every number between the pulls and the draw, in the order in which they act."""
    cap = "–" if arm.cap is None else f"{arm.cap:.2f}"
    floor = "–" if not arm.floor else f"{arm.floor:.2f}"
    chance = "–" if arm.probability is None else f"{arm.probability * 100:.1f} %"
    return [
        (f"{share} {short_count(arm.pulls, 5)} {compact_number(arm.ema, 6)} {compact_number(arm.mean_reward, 6)}", ""),
        (f" {compact_number(arm.spread, 5)} {compact_number(arm.bonus, 5)}", "dim"),
        (
            f" {compact_number(arm.epochs, 5)} {compact_number(arm.penalty, 6)} {compact_number(arm.tentative, 6)}",
            "dim",
        ),
        (f" {floor:>5} {cap:>5}", "dim"),
        (f" {compact_number(arm.weight, 6)} {chance:>6}  ", ""),
    ]

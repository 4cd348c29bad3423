"""Why is the mix what it is? One row an arm: share, pulls, reward, weight, and what holds it there."""

from __future__ import annotations

from andrea_engine.run.arms import ArmRow
from andrea_tui.feed.store import Store
from andrea_tui.plotting.format import compact_number, short_count
from andrea_tui.plotting.raster import Kind
from andrea_tui.plotting.strips import bar
from andrea_tui.widgets.panel import Panel
from andrea_tui.widgets.rows import Row

NARROW = 52
WIDE = 78
DETAIL = 116  # room for everything that decides a weight: the panel alone on a wide screen


class ArmsPanel(Panel):
    NUMBER = "4"

    def __init__(self) -> None:
        super().__init__(id="arms")

    def title(self, store: Store, room: int) -> Row:
        return [("arms  ", "title"), (store.focus, "dim")]

    def content(self, store: Store, width: int, height: int) -> list[Row]:
        arms = store.arms
        if not arms:
            text = "the mix is known once training begins" if store.condition.word != "missing" else ""
            return [[(text, "message")]]
        name_width = min(max(len(arm.name) for arm in arms), 16 if width < NARROW else 18)
        rows = [_head(name_width, width)]
        room = height - 1
        shown = arms if len(arms) <= room else arms[: max(0, room - 1)]
        rows += [_row(arm, name_width, width, self.kind) for arm in shown]
        if len(shown) < len(arms):
            rows.append([(f"+ {len(arms) - len(shown)} more", "dim")])
        return rows


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
    name = arm.name if len(arm.name) <= name_width else arm.name[: name_width - 1] + "…"
    if not arm.available:
        zombie = f", a saved weight of {arm.stored_weight:.3f} has no effect" if arm.stored_weight else ""
        return [(f"{name:<{name_width}} ", "dim"), ("✕ ", "warn"), ((arm.reason or "no data") + zombie, "warn")]
    share = "  – %" if arm.share is None else f"{arm.share * 100:3.0f} %"
    weight = "–" if arm.weight is None else f"{arm.weight:.2f}"
    style = "bright" if arm.in_focus else ""
    held = (arm.held_by, "accent" if arm.held_by in ("floor", "cap", "focus") else "dim")
    if width < NARROW:
        return [(f"{name:<{name_width}} ", style), (f"{share}{weight:>6} ", ""), held]
    if width >= DETAIL:
        return [
            (f"{name:<{name_width}} ", style),
            *_detail(arm, share),
            held,
        ]
    row: Row = [
        (f"{name:<{name_width}} ", style),
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

"""The four pages as rows. Pure: what they show comes in, rows come out."""

from __future__ import annotations

from collections.abc import Sequence

from andrea_engine.curriculum.preview import PREVIEW_STEPS, ArmPreview
from andrea_engine.run.arms import ArmRow
from andrea_engine.run.pivot import Plan
from andrea_engine.run.policy import Policy
from andrea_tui.plotting.format import compact_number, duration, human_count
from andrea_tui.plotting.raster import Kind
from andrea_tui.plotting.strips import bar
from andrea_tui.screens.pivot.draft import SETTINGS, Draft
from andrea_tui.widgets.rows import Row
from andrea_tui.widgets.wrapping import wrapped

NAME = 18
MOST_LINES = 3  # of names
TITLES = ("now", "floors & caps", "preview", "review")


def tabs(page: int) -> Row:
    """`Pivot   1 now · 2 floors & caps · [3 preview] · 4 review`."""
    row: Row = [("Pivot   ", "accent-bold")]
    for index, title in enumerate(TITLES):
        label = f"{index + 1} {title}"
        row.append((f"[{label}]" if index == page else f" {label} ", "bright" if index == page else "dim"))
        if index < len(TITLES) - 1:
            row.append(("·", "faint"))
    return row


def present(arms: Sequence[ArmRow], policy: Policy, kind: Kind, width: int) -> list[Row]:
    """Page 1: the policy as it is, with the live shares and what decides them."""
    roomy = width >= 90
    more = f" {'bonus':>6} {'epochs':>6}" if roomy else ""
    head = f"{'arm':<{NAME}} {'floor':>6} {'cap':>6}  {'share':<14} {'reward':>7}{more} {'weight':>6}  held by"
    rows: list[Row] = [[(head, "dim")]]
    for arm in arms:
        share = "–" if arm.share is None else f"{arm.share * 100:.0f} %"
        if not arm.available:
            rows.append([(f"{_name(arm.name)} ", "dim"), ("✕ ", "warn"), (arm.reason or "no data", "warn")])
            continue
        rows.append(
            [
                (
                    f"{_name(arm.name)} {_weight(policy.floors.get(arm.name))} {_weight(policy.caps.get(arm.name))}  ",
                    "",
                ),
                (bar(arm.share, 1.0, 8, kind, rest=" "), "bar"),
                (f" {share:>5} {compact_number(arm.mean_reward, 7)}", ""),
                (f" {compact_number(arm.bonus, 6)} {compact_number(arm.epochs, 6)}" if roomy else "", ""),
                (f" {compact_number(arm.weight, 6)}", ""),
                (f"  {arm.held_by}", "accent" if arm.in_focus else "dim"),
            ]
        )
    if not arms:
        rows.append([("the mix is known once training begins", "message")])
    focus = "a third of the arms" if policy.focus is None else f"{policy.focus} arms"
    rows += [
        [],
        [("focus set  ", "dim"), (f"{focus}, drawn anew every {policy.span[0]} to {policy.span[1]} steps", "")],
        [("others     ", "dim"), (f"weight {policy.background:g}; exploration constant {policy.c:g}", "")],
        *_under("warm-up    ", _warmup(policy), width),
    ]
    return rows


def edit(draft: Draft, problem: str) -> list[Row]:
    """Page 2: one row an arm, then the settings; the cursor stands on a cell."""
    rows: list[Row] = [[(f"{'arm':<{NAME}} {'floor':>8} {'cap':>8}", "dim")]]
    for index, name in enumerate(draft.arms):
        off = draft.caps[name].strip() in ("0", "0.0")
        here = index == draft.row
        rows.append(
            [
                (_name(name), "bright" if here else ""),
                (" ", ""),
                _cell(draft.floors[name] or "–", here and draft.column == 0),
                (" ", ""),
                _cell(draft.caps[name] or "–", here and draft.column == 1),
                ("  switched off" if off else "", "warn"),
            ]
        )
    rows.append([])
    for index, setting in enumerate(SETTINGS):
        here = index + len(draft.arms) == draft.row
        rows.append(
            [
                (f"{setting.name:<{NAME}} ", "bright" if here else ""),
                _cell(draft.settings[setting.name] or "–", here),
                (f"  {setting.help}", "dim"),
            ]
        )
    rows.append([(f"{'warm-up sources':<{NAME}} ", "dim"), (", ".join(draft.warmup_sources) or "none", "dim")])
    rows += [[], [(problem, "bad")] if problem else [("this is a policy that the run can take", "good")]]
    return rows


def preview(arms: Sequence[ArmPreview] | None, draft: Draft, problem: str, kind: Kind, width: int) -> list[Row]:
    """Page 3: what the next draws would be, old against new, and what each arm can reach."""
    if problem:
        return [[(problem, "bad")]]
    if arms is None:
        return [[("computing the preview from the loss record", "message")]]
    policy = draft.policy()
    length = max(4, min(14, (width - 64) // 2))
    head = f"{'arm':<{NAME}} {'floor':>6} {'cap':>6}  {'now':<{length + 6}}  {'new policy':<{length + 8}}can reach"
    rows: list[Row] = [[(head, "dim")]]
    for arm in arms:
        old, new = arm.old_draws / PREVIEW_STEPS, arm.new_draws / PREVIEW_STEPS
        sign, style = ("▲", "good") if new > old + 0.005 else ("▼", "warn") if new < old - 0.005 else (" ", "")
        rows.append(
            [
                (
                    f"{_name(arm.name)} {_weight(policy.floors.get(arm.name))} {_weight(policy.caps.get(arm.name))}  ",
                    "",
                ),
                (bar(old, 1.0, length, kind, rest=" "), "band"),
                (f" {old * 100:3.0f} %  ", "dim"),
                (bar(new, 1.0, length, kind, rest=" "), "bar"),
                (f" {new * 100:3.0f} %", ""),
                (f" {sign}", style),
                (f" {arm.new_least * 100:.0f} to {arm.new_most * 100:.0f} %", "dim"),
            ]
        )
    rows += [
        [],
        [
            (
                f"simulated: the next {PREVIEW_STEPS} draws, were each arm to go on earning its mean reward",
                "dim",
            )
        ],
    ]
    return rows


def review(plan: Plan | None, draft: Draft, notices: Sequence[str], problem: str) -> list[Row]:
    """Page 4: the change in words, when it happens, what moves and what stays."""
    if problem:
        return [[(problem, "bad")]]
    changes = draft.changes()
    rows: list[Row] = [[("what changes", "title")]]
    rows += [[(f"  {line}", "")] for line in changes] or [
        [("  nothing in the policy: bandit and samples would only start afresh", "warn")]
    ]
    rows += [[(f"  {line}", "warn")] for line in notices]
    rows += [[], [("when", "title")]]
    if plan is None:
        return [*rows, [("  this cannot be told at the moment", "warn")]]
    rows.append([(f"  {when_text(plan)}", "")])
    if plan.running:
        other = "at the next checkpoint boundary" if plan.at == "now" else "after the step under way"
        rows.append([(f"  w: {other} instead", "dim")])
    rows += [
        [],
        [("what stays", "title")],
        [("  the weights, both moments and the loss record, byte for byte", "")],
        [("what starts afresh", "title")],
        [("  bandit and samples; the old ones are kept, with the policy and a receipt, in", "")],
        [(f"  {plan.archive}", "accent")],
    ]
    return rows


def when_text(plan: Plan) -> str:
    """`after step 112,700, in 81 steps (about 13 min); the engine restarts by itself`."""
    if not plan.running:
        return f"at once, at step {human_count(plan.step)}: the engine is not running, and stays so until r"
    ahead = plan.step - plan.here
    about = f" (about {duration(plan.seconds)})" if plan.seconds is not None else ""
    steps = f"{human_count(ahead)} step{'s' * (ahead != 1)}"
    return f"after step {human_count(plan.step)}, in {steps}{about}; the engine restarts by itself"


def _cell(text: str, here: bool) -> tuple[str, str]:
    return (f"{text:>8}", "cursor" if here else "")


def _name(name: str) -> str:
    return f"{name if len(name) <= NAME else name[: NAME - 1] + '…':<{NAME}}"


def _weight(value: float | None) -> str:
    return f"{'–' if value is None else format(value, '.2f'):>6}"


def _under(label: str, text: str, width: int) -> list[Row]:
    """A text of any length beside its label: no word is cut."""
    lines = list(wrapped(text, max(1, width - len(label)), MOST_LINES))
    return [[(label if index == 0 else " " * len(label), "dim"), (line, "")] for index, line in enumerate(lines)]


def _warmup(policy: Policy) -> str:
    if not policy.warmup_steps:
        return "none"
    return f"the first {human_count(policy.warmup_steps)} steps of the run, from {', '.join(policy.warmup_sources)}"

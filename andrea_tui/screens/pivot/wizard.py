"""The wizard's screen: keys, pages, and nothing done to the run before Enter on the last page."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from andrea_engine.curriculum.preview import ArmPreview, rebuild
from andrea_engine.curriculum.preview import preview as preview_of
from andrea_engine.run.arms import ArmRow
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, RunError
from andrea_engine.run.intent import At, PivotIntent
from andrea_engine.run.io import atomic_write
from andrea_engine.run.pivot import Plan, ask, example_policies, plan, policy_text, propose
from andrea_engine.run.policy import Policy, dump_policy, parse_policy
from andrea_tui.feed.store import Store
from andrea_tui.screens.ask import InputDialog
from andrea_tui.screens.pivot import pages
from andrea_tui.screens.pivot.draft import Draft
from andrea_tui.widgets.rows import Row, RowsWidget

Arm = TypeVar("Arm", ArmRow, ArmPreview)
PROGRAM = "andrea-tui"
POLICIES = Path("policies")
_KEYS = (
    ("Esc leave without a trace", "Enter next page"),
    (
        "↑↓ row", "Tab floor/cap", "←→ nudge", "0-9 type", "x off/on", "o open policy", "v save",
        "Enter preview", "b back", "Esc leave",
    ),
    ("Enter review", "b back", "Esc leave without a trace"),
    ("Enter APPLY", "w when", "b back", "Esc leave without a trace"),
)  # fmt: skip


def _hints(page: int, width: int) -> list[Row]:
    """The keys of a page, on as many lines as they need."""
    lines = [""]
    for hint in _KEYS[page]:
        if len(lines[-1]) + len(hint) + 3 > width:
            lines.append("")
        lines[-1] += f" {hint}  "
    return [[(line, "dim")] for line in lines]


class _Page(RowsWidget):
    """Shows the rows that the screen makes."""

    def build(self, store: Store, width: int, height: int) -> list[Row]:
        screen = self.screen
        return screen.page_rows(store, height) if isinstance(screen, PivotWizard) else []


class PivotWizard(Screen[PivotIntent | None]):
    """Ends with the intent that was written, or None: then nothing at all was written."""

    KEYS_HELP = (
        ("Enter", "The next page; on the last one: apply."),
        ("b", "The page before."),
        ("up down k j", "Choose an arm."),
        ("Tab", "Floor or cap."),
        ("left right - +", "Less or more."),
        ("0-9 . backspace", "Type a number."),
        ("x", "Switch an arm off or on."),
        ("o v", "Read a policy from a file, or save this one."),
        ("w", "When the pivot takes effect."),
        ("Esc", "Leave; nothing has been written."),
    )
    BINDINGS = [
        Binding("escape", "leave", "leave", show=False),
        Binding("enter", "next", "next", show=False),
        Binding("b", "back", "back", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("left,minus", "nudge(-1)", "less", show=False),
        Binding("right,plus", "nudge(1)", "more", show=False),
        Binding("tab", "column", "column", show=False, priority=True),
        Binding("x", "switch", "off or on", show=False),
        Binding("backspace", "erase", "erase", show=False),
        Binding("o", "open", "open a policy", show=False),
        Binding("v", "save", "save the policy", show=False),
        Binding("w", "when", "when", show=False),
    ]

    def __init__(self, directory: RunDirectory, store: Store, policy: Policy, arms: list[str]) -> None:
        """`arms`: the run's sources. All pages list them by their share at this moment: in one order the eye finds one
        again, and no row moves under the cursor."""
        super().__init__()
        self._directory = directory
        self._store = store
        self._policy = policy
        by_share = [row.name for row in store.arms]
        self.draft = Draft.of(
            policy, [*(name for name in by_share if name in arms), *(a for a in arms if a not in by_share)]
        )
        self.page = 0
        self._at: At = "boundary"
        self._plan: Plan | None = None
        self._preview: Sequence[ArmPreview] | None = None
        self._notices: tuple[str, ...] = ()
        self._problem = ""

    def compose(self) -> ComposeResult:
        yield _Page(id="compare")

    def on_mount(self) -> None:
        self.set_interval(0.5, self.redraw)
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        if self.page == 3 and not self._problem:
            self._make_plan()
        for page in self.query(_Page):  # none any more while the screen is being taken away
            page.update_from(self._store)

    def page_rows(self, store: Store, height: int) -> list[Row]:
        """All rows of the page that is open, fitted to `height`."""
        page = self.query_one(_Page)
        if self.page == 0:
            body = pages.present(self._ordered(store.arms), self._policy, page.kind, page.size.width)
        elif self.page == 1:
            body = pages.edit(self.draft, self.draft.problem())
        elif self.page == 2:
            body = pages.preview(self._preview, self.draft, self._problem, page.kind, page.size.width)
        else:
            body = pages.review(self._plan, self.draft, self._notices, self._problem)
        hints = _hints(self.page, page.size.width)
        room = max(0, height - 3 - len(hints))
        if len(body) > room:  # keep the row with the cursor in view
            start = max(0, min(self.draft.row + 2 - room // 2, len(body) - room)) if self.page == 1 else 0
            body = body[start : start + room]
        return [pages.tabs(self.page), [], *body, *[[] for _ in range(room - len(body))], [], *hints]

    def _ordered(self, rows: Sequence[Arm]) -> list[Arm]:
        """In the order of all pages; arms that the draft does not know come last."""
        places = {name: place for place, name in enumerate(self.draft.arms)}
        return sorted(rows, key=lambda row: places.get(row.name, len(places)))

    # -- keys ---------------------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if self.page == 1 and event.character is not None and event.character in "0123456789.":
            self.draft.type(event.character)
            event.stop()
            self.redraw()

    def action_move(self, rows: int) -> None:
        if self.page == 1:
            self.draft.move(rows)
            self.redraw()

    def action_column(self) -> None:
        if self.page == 1:
            self.draft.switch_column()
            self.redraw()

    def action_nudge(self, direction: int) -> None:
        if self.page == 1:
            self.draft.nudge(direction)
            self.redraw()
        elif direction < 0:
            self.action_back()

    def action_switch(self) -> None:
        if self.page == 1:
            self.draft.switch()
            self.redraw()

    def action_erase(self) -> None:
        if self.page == 1:
            self.draft.erase()
            self.redraw()

    def action_when(self) -> None:
        if self.page == 3:
            self._at = "now" if self._at == "boundary" else "boundary"
            self.redraw()

    def action_back(self) -> None:
        self.page = max(0, self.page - 1)
        self.redraw()

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_next(self) -> None:
        if self.page == 3:
            self._apply()
            return
        if self.page == 1 and self.draft.problem():
            self.notify(self.draft.problem(), severity="warning", markup=False)
            return
        self.page += 1
        if self.page >= 2:
            self._validate()
        if self.page == 2:
            self._compute_preview()
        self.redraw()

    # -- what the pages need ------------------------------------------------------------------------------------

    def _validate(self) -> None:
        try:
            self._notices = propose(self._directory, dump_policy(self.draft.policy()), "the new policy").notices
            self._problem = ""
        except RunError as error:
            self._problem = str(error)

    def _compute_preview(self) -> None:
        """In a thread: a fold over a long record takes a second or two."""
        if self._problem:
            return
        self._preview = None
        policy = self.draft.policy()
        app = self.app

        def run() -> None:
            try:
                found = preview_of(rebuild(self._directory), policy)
            except ConfigError as error:
                self._problem = str(error)
            else:
                self._preview = self._ordered(found)
            app.call_later(self.redraw)

        threading.Thread(target=run, name="preview", daemon=True).start()

    def _make_plan(self) -> None:
        try:
            self._plan = plan(self._directory, self._at)
        except RunError as error:
            self._plan = None
            self._problem = str(error)

    def _apply(self) -> None:
        if self._problem or self._plan is None:
            self.notify(self._problem or "this cannot be applied at the moment", severity="error", markup=False)
            return
        try:
            intent = ask(self._directory, self.draft.policy(), self._at, by=PROGRAM)
        except RunError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.dismiss(intent)

    # -- policies in files --------------------------------------------------------------------------------------

    def action_open(self) -> None:
        if self.page != 1:
            return
        known = [*example_policies(), *(str(path) for path in sorted(POLICIES.glob("*.toml")))]
        hint = f"A file, or one of: {', '.join(known)}.  Enter loads it, Esc goes back."

        def named(value: str | None) -> None:
            if not value or not value.strip():
                return
            try:
                self.draft.load(parse_policy(policy_text(value.strip()), value.strip()))
            except RunError as error:
                self.notify(str(error), severity="error", markup=False)
            self.redraw()

        self.app.push_screen(InputDialog("Open which policy?", hint), named)

    def action_save(self) -> None:
        if self.page != 1:
            return
        if self.draft.problem():
            self.notify(self.draft.problem(), severity="warning", markup=False)
            return
        text = dump_policy(self.draft.policy())

        def named(value: str | None) -> None:
            if not value or not value.strip():
                return
            path = Path(value.strip())
            if path.exists():
                self.notify(f"{path} exists already; choose another name", severity="error", markup=False)
                return
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                atomic_write(path, text.encode())
            except OSError as error:
                self.notify(f"{path} cannot be written: {error.strerror}", severity="error", markup=False)
                return
            self.notify(f"saved {path}", markup=False)

        hint = "A new file.  Enter writes it, Esc goes back."
        self.app.push_screen(InputDialog("Save the policy as", hint, str(POLICIES / "mine.toml")), named)

"""Pictures of the console from recorded runs, as SVG and PNG. Run by `make screenshots`.

A recording is the run directory of a real run (without checkpoints and tokens), copied while its engine was training;
the screen is drawn as it stood at that moment.
"""

from __future__ import annotations

import asyncio
import dataclasses
import html
import os
import re
import sys
import time
from pathlib import Path

os.environ["TZ"] = "UTC"
time.tzset()

from andrea_engine.run.condition import Condition  # noqa: E402  (the time zone comes first)
from andrea_engine.run.directory import RunDirectory  # noqa: E402
from andrea_engine.run.events import read_events  # noqa: E402
from andrea_tui.app import AndreaApp  # noqa: E402
from andrea_tui.feed.tailer import DirectoryReader  # noqa: E402
from andrea_tui.screens.actions import Actions  # noqa: E402
from andrea_tui.screens.dashboard import DashboardScreen  # noqa: E402

HERE = Path(__file__).resolve().parent
SHOTS = (
    # name, recording, columns, rows, theme, keys
    ("dashboard", "demo", 120, 40, "andrea-dark", ()),
    ("dashboard-80x24", "demo", 80, 24, "andrea-dark", ()),
    ("dashboard-light", "demo", 120, 40, "andrea-light", ()),
    ("stop-dialog", "demo", 120, 40, "andrea-dark", ("q",)),
    ("samples", "demo", 120, 40, "andrea-dark", ("e",)),
    ("pivot-preview", "demo", 120, 40, "andrea-dark", ("p", "enter", "down", "tab", "0", ".", "2", "enter")),
)
_TEXT = re.compile(r"<text (?P<attributes>[^>]*)>(?P<content>[^<]*)</text>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_FONTS = re.compile(r"font-family: Fira Code[^;]*;")
_BRAILLE = range(0x2800, 0x2900)


class RecordedApp(AndreaApp):
    """The console over a recording: one look at the files, no engine, no acting."""

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__(directory, watch=False)

    def _open_dashboard(self) -> None:
        reader = DirectoryReader(self.directory)
        while True:
            update = reader.poll()
            beat = update.heartbeat
            if beat is None:
                sys.exit(f"{self.directory.path} has no engine.json: this is no recording")
            moment = Condition(beat.phase, alive=True, sentence=beat.note or beat.phase)
            kept = kept_checkpoints(self.directory)
            self.store.apply(
                dataclasses.replace(
                    update,
                    condition=moment,
                    time=beat.time,
                    disk_free=None,
                    checkpoints=len(kept),
                    newest_checkpoint=kept[-1],
                )
            )
            if update.complete:
                break
        self.control.read_only_reason = lambda: ""  # type: ignore[method-assign]
        self.control.release = lambda: None  # type: ignore[method-assign]
        self.actions = Actions(self, self.store, self.control)
        self.push_screen(DashboardScreen(self.store, self.control, self.actions))


def kept_checkpoints(directory: RunDirectory) -> list[int]:
    """Steps of the checkpoints that were there when the run was recorded: saved, and not removed since."""
    kept: set[int] = set()
    for event in read_events(directory.events):
        if event.kind == "save_durable" and event.step is not None:
            kept.add(event.step)
        removed = event.facts.get("steps")
        if event.kind == "removed" and isinstance(removed, list):
            kept -= set(removed)
    return sorted(kept)


async def shoot(name: str, recording: str, size: tuple[int, int], theme: str, keys: tuple[str, ...]) -> None:
    app = RecordedApp(RunDirectory(HERE / "recorded" / recording))
    async with app.run_test(size=size) as pilot:
        app.theme = theme
        await pilot.pause(0.3)
        for key in keys:
            app.simulate_key(key)
            await pilot.pause(0.3)
        await pilot.pause(1.0)
        svg = app.export_screenshot(title=f"andrea-tui runs/{recording}")
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")
    import cairosvg

    cairosvg.svg2png(bytestring=placed(svg).encode(), write_to=str(HERE / f"{name}.png"), scale=1.5)
    print(f"screenshots/{name}.svg and .png")


def placed(svg: str) -> str:
    """The SVG with an x for each glyph: renderers that ignore `textLength` would draw spikes in the wrong place.

    Braille patterns go into an element of their own, with a font that has them.
    """
    svg = _FONTS.sub("font-family: DejaVu Sans Mono;", svg)
    return _TEXT.sub(_placed_text, svg)


def _placed_text(match: re.Match[str]) -> str:
    attributes = dict(_ATTRIBUTE.findall(match["attributes"]))
    content = html.unescape(match["content"])
    if "textLength" not in attributes or not content:
        return match[0]
    step = float(attributes.pop("textLength")) / len(content)
    start = float(attributes.pop("x"))
    parts = []
    for braille in (False, True):
        chosen = [
            (start + i * step, c) for i, c in enumerate(content) if (ord(c) in _BRAILLE) is braille and not c.isspace()
        ]
        if not chosen:
            continue
        kept = " ".join(f'{key}="{value}"' for key, value in attributes.items())
        font = ' style="font-family: DejaVu Sans; font-size: 17.5px"' if braille else ""
        xs = " ".join(f"{x:.2f}" for x, _ in chosen)
        text = html.escape("".join(c for _, c in chosen))
        parts.append(f'<text {kept} x="{xs}"{font}>{text}</text>')
    return "".join(parts)


def main() -> None:
    for name, recording, columns, rows, theme, keys in SHOTS:
        asyncio.run(shoot(name, recording, (columns, rows), theme, keys))


if __name__ == "__main__":
    main()

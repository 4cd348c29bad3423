"""Pictures of the console from recorded runs, as SVG and PNG. Run by `make screenshots`.

A recording is the run directory of a real run (without checkpoints and tokens), copied while its engine was training;
the screen is drawn as it stood at that moment.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from andrea_engine.run.checkpoint import HEADER, checkpoint_name
from andrea_engine.run.condition import Condition
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import read_events
from andrea_tui.app import AndreaApp
from andrea_tui.feed.tailer import DirectoryReader
from andrea_tui.plotting.raster import Kind

ENDED = ("halted", "finished", "stopped", "failed")
HERE = Path(__file__).resolve().parent
SHOTS = (
    # name, recording, columns, rows, theme, keys
    ("dashboard", "demo", 120, 40, "andrea-dark", ()),
    ("dashboard-80x24", "demo", 80, 24, "andrea-dark", ()),
    ("dashboard-light", "demo", 120, 40, "andrea-light", ()),
    ("chart", "demo", 120, 30, "andrea-dark", ("1", "s", *["left"] * 40)),
    ("stop-dialog", "demo", 120, 40, "andrea-dark", ("q",)),
    ("samples", "demo", 120, 40, "andrea-dark", ("e",)),
    ("checkpoints", "demo", 120, 30, "andrea-dark", ("b", "down", "down")),
    ("events", "demo", 120, 30, "andrea-dark", ("v", "tab")),
    ("halt", "halted", 120, 40, "andrea-dark", ()),
    ("pivot-preview", "demo", 120, 40, "andrea-dark", ("p", "enter", "down", "tab", "0", ".", "2", "enter")),
)
_TEXT = re.compile(r"<text (?P<attributes>[^>]*)>(?P<content>[^<]*)</text>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_FONTS = re.compile(r"font-family: Fira Code[^;]*;")
_BRAILLE = range(0x2800, 0x2900)


class RecordedApp(AndreaApp):
    """The console over a recording: one look at the files, no engine, no acting."""

    def __init__(self, directory: RunDirectory, plot_kind: Kind = "braille") -> None:
        super().__init__(directory, watch=False, plot_kind=plot_kind)
        self.control.read_only_reason = lambda: ""  # type: ignore[method-assign]
        self.control.release = lambda: None  # type: ignore[method-assign]

    def _begin_run(self) -> None:
        reader = DirectoryReader(self.directory)
        while True:
            update = reader.poll()
            beat = update.heartbeat
            if beat is None:
                sys.exit(f"{self.directory.path} has no engine.json: this is no recording")
            moment = Condition(beat.phase, alive=beat.phase not in ENDED, sentence=beat.note or beat.phase)
            kept = kept_checkpoints(self.directory)
            self.store.apply(
                msgspec.structs.replace(
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
        if self.store.condition.word == "halted":
            self.actions.samples()


def as_it_stood(recording: str, scratch: Path) -> RunDirectory:
    """A copy of the recording, with files of zeros in the place of the checkpoints, which are not recorded."""
    directory = RunDirectory(scratch / "runs" / recording)
    shutil.copytree(HERE / "recorded" / recording, directory.path)
    lock = json.loads(directory.resolved.read_text(encoding="utf-8"))
    saved = {event.step: event.time for event in read_events(directory.events) if event.kind == "save_durable"}
    for step in kept_checkpoints(directory):
        path = directory.path / checkpoint_name(step)
        with path.open("wb") as file:
            file.write(HEADER.pack(step, lock["n_params"]))
            file.truncate(HEADER.size + 12 * lock["n_params"])
        os.utime(path, (saved[step], saved[step]))
    return directory


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


async def shoot(
    name: str, recording: str, size: tuple[int, int], theme: str, keys: tuple[str, ...], scratch: Path
) -> None:
    app = RecordedApp(as_it_stood(recording, scratch))
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
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name, recording, columns, rows, theme, keys in SHOTS:
        with tempfile.TemporaryDirectory() as scratch:
            os.environ["XDG_STATE_HOME"] = scratch  # the layout of whoever makes the pictures is none of them
            asyncio.run(shoot(name, recording, (columns, rows), theme, keys, Path(scratch)))


if __name__ == "__main__":
    main()

"""Stores to draw: one that knows nothing, one that knows everything, one whose every text is hostile."""

from __future__ import annotations

import math
import time

from andrea_engine.run.condition import Condition
from andrea_engine.run.config import parse_config
from andrea_engine.run.events import Event
from andrea_engine.run.heartbeat import Gpu, Heartbeat, LastSave, Saving, Telemetry
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.samples import Sample, StoredScores
from andrea_tui.feed.store import Store
from andrea_tui.feed.update import EntryBatch, Update

HOSTILE = (
    "\x1b]52;c;aGk=\x07 \x1b]0;title\x1b\\ \x1bc \x1b[2J \x1b[6n \x1b[?1049l \x9b31m \x9d0;x\x9c \x1bP$q\x1b\\ "
    "\x00\x07\x08\x0b\x0c\x0e\x7f\x85 \u202eevil\u202c \u2066a\u2069 \u200f \u061c \ud800 \r\n\t"
    " [/INST] [/] [/ [bold]x [red on :boom: [@click=app.quit]x[/] 가나다 👨\u200d👩\u200d👧 🇩🇪 é ①\u3000"
)
KINDS = ["pivot", "start", "resumed", "phase", "save_asked", "save_durable", "save_failed", "removed", "sample", "gate"]
KINDS += ["nonfinite", "halt", "pin", "override", "notice", "error", "stop", "unknown-kind"]
PHASES = (
    ("training", True),
    ("starting", True),
    ("saving", True),
    ("stopping", True),
    ("stalled", True),
    ("suspended", True),
    ("stopped", False),
    ("finished", False),
    ("halted", False),
    ("failed", False),
    ("crashed", False),
    ("elsewhere", False),
    ("recorded", False),
    ("empty", False),
    ("missing", False),
)


def heartbeat(*, text: str = "reading", gpus: int = 1, step: int = 400) -> Heartbeat:
    now = time.time()
    gpu = Gpu(
        uuid="a",
        name=text,
        power_w=131.0,
        limit_w=450.0,
        utilisation=97.0,
        memory_used=1_400_000_000,
        memory_total=24_000_000_000,
        temperature_c=61.0,
    )
    telemetry = Telemetry(
        time=now,
        gpus=[gpu] * gpus,
        gpu_problem="" if gpus else text,
        cpu_percent=55.0,
        memory_used=2_000_000_000,
        memory_total=8_000_000_000,
        load_1m=1.5,
    )
    return Heartbeat(
        pid=1,
        process_start=1,
        boot_id="",
        host=text,
        session=3,
        phase="training",
        phase_since=now,
        time=now,
        step=step,
        target_step=5000,
        total_steps=5000,
        armed=True,
        step_time=now,
        step_seconds=0.5,
        tokens_per_second=4096.0,
        eta_seconds=86_400.0 * 9.5,
        device=text,
        n_params=1_000_000,
        saving=Saving(step=step, done=1, total=3),
        last_save=LastSave(step=300, bytes=12_000_000, seconds=0.4, time=now - 30, reason="cadence"),
        telemetry=telemetry,
        note=text,
        problem=text,
    )


def snapshot(text: str, arms: int = 16) -> dict[str, object]:
    rows: dict[str, object] = {}
    for number in range(arms):
        rows[f"{text} {number}"] = {
            "pulls": 18_402 - number,
            "share": 1 / (number + 2),
            "mean_reward": 212.04,
            "weight": 1.0,
            "floor": 0.8,
            "cap": 1.5,
            "in_focus": number < 5,
            "held_by": "floor" if number % 2 else "focus",
        }
    rows["gone"] = {"available": False, "zombie": True, "reason": text, "stored_weight": 1.546}
    return {"arms": rows, "focus": {"arms": ["a", "b"], "until": 423}}


def samples(text: str) -> tuple[Sample, ...]:
    scores = StoredScores(31.2, 33.0, 16.1, 3.0, 83.3)
    return (
        Sample(step=100, text="region " * 60, scores=StoredScores(0.5, 0.5, 20, 4, 25.0)),
        Sample(step=200, text=text),
        Sample(step=300, text=text * 3, scores=scores, prompt="> how do bees find flowers\n< "),
    )


def events(text: str) -> tuple[Event, ...]:
    names = ("text", "error", "reason", "phase", "by", "source", "alarm", "host")
    facts: dict[str, object] = dict.fromkeys(names, text)
    facts |= {"step": 300, "total": 20.0, "consecutive_low": 2, "bytes": 12_000_000, "seconds": 0.4, "pid": 77}
    facts |= {"pinned": True}
    return tuple(Event(time.time(), kind, 1, facts) for kind in (*KINDS, text))


def full(text: str = "chat", *, word: str = "training", alive: bool = True, gpus: int = 1) -> Store:
    """Everything is known, and every text is `text`."""
    store = Store()
    losses = [50.0 if step == 123 else math.nan if step == 77 else 9.0 * step**-0.2 for step in range(1, 401)]
    entries = [
        make_entry(step=i, loss=loss, ema=4.0 + 1 / i, source=text, lr=3e-4, grad_norm=0.84, energy_j=i * 1e3)
        for i, loss in enumerate(losses, 1)
    ]
    for first in (1, 350):  # steps from 350 on are trained twice
        store.apply(
            Update(
                time.time(),
                Condition(word, alive=alive, sentence=text),
                heartbeat(text=text, gpus=gpus),
                batches=(EntryBatch(tuple(entries[first - 1 :]), None if first == 1 else first),),
                events=events(text),
                samples=samples(text),
                snapshot=snapshot(text),
                config=parse_config('preset = "demo"', "run.toml"),
                disk_free=212_000_000_000,
                checkpoints=12,
                newest_checkpoint=300,
                problems=(text,) if gpus == 0 else (),
            )
        )
    return store

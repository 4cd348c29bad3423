"""Every fact on the screen stands in `--json`: worded from the JSON alone, the panels' texts leave no number over.

`FACTS` says for each panel how a value of the JSON is worded there. For each kind of run it is checked both ways: what
the JSON knows is on the panel, and what is on the panel, without axes of charts and the run's own texts, is known.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.events import EventLog, read_events
from andrea_engine.run.heartbeat import Gpu, Telemetry, read_heartbeat, write_heartbeat
from andrea_engine.run.loss_entry import make_entry
from andrea_engine.run.rank_facts import Rank
from andrea_engine.run.samples import Sample, StoredScores, write_samples
from andrea_engine.run.summary import Summary, summarise
from andrea_engine.run.summary_text import as_json
from andrea_tui.feed.event_words import describe
from andrea_tui.feed.store import Store
from andrea_tui.feed.tailer import DirectoryReader
from andrea_tui.feed.trouble import OwnEnd, trouble
from andrea_tui.plotting.format import (
    compact_number,
    duration,
    energy,
    fixed,
    human_count,
    percent,
    rounded_count,
    size_bytes,
    watts,
)
from andrea_tui.widgets.arms_panel import ArmsPanel
from andrea_tui.widgets.events_panel import EventsPanel
from andrea_tui.widgets.loss_panel import LossPanel
from andrea_tui.widgets.power_panel import PowerPanel
from andrea_tui.widgets.ranks_table import RanksTable
from andrea_tui.widgets.rows import Row, RowsWidget
from andrea_tui.widgets.sample_panel import SamplePanel
from andrea_tui.widgets.status_bar import SaveBar, StatusBar
from tests.screens.situations import beat, fill, situation
from tests.support.tiny import make_run

JOULES = 3.6e6


@dataclass(frozen=True)
class Fact:
    """`words(value, all)`: how the panel words what is at `path` of the JSON; None where it says nothing of it then."""

    panel: str
    path: str
    words: Callable[[Any, dict[str, Any]], str | None]


def found(data: Any, path: str) -> list[Any]:
    """All values at a path; `*` stands for each member of a list. Null is no value."""
    values = [data]
    for name in path.split("."):
        if name == "*":
            values = [member for value in values for member in value]
        else:
            values = [value[name] for value in values if isinstance(value, dict) and value.get(name) is not None]
    return [value for value in values if value is not None]


def alive(text: Callable[[Any], str]) -> Callable[[Any, dict[str, Any]], str | None]:
    return lambda value, data: text(value) if data["alive"] else None


def always(text: Callable[[Any], str]) -> Callable[[Any, dict[str, Any]], str | None]:
    return lambda value, data: text(value)


def saves_are_told(data: dict[str, Any]) -> bool:
    return bool(data["alive"]) and data["state"] == "training" and not data["problems"]


def has_gpus(data: dict[str, Any]) -> bool:
    return bool(data["telemetry"]["gpus"])


def gpus_words(gpus: list[dict[str, Any]]) -> str:
    """The sum of them all, as the title has it."""
    power, limit = (sum(gpu[name] for gpu in gpus) for name in ("power_w", "limit_w"))
    return f"{watts(power)} of {watts(limit)}  {len(gpus)} GPUs" if gpus else ""


def told(arm: dict[str, Any], name: str) -> bool:
    return bool(arm["available"]) and arm[name] is not None


def full_in_words(step: int, data: dict[str, Any]) -> str | None:
    return f", in {duration((step - data['step']) * data['step_seconds'])}" if saves_are_told(data) else None


def last_save_words(save: dict[str, Any], data: dict[str, Any]) -> str | None:
    if not saves_are_told(data):
        return None
    return f"saved step {human_count(save['step'])} ({size_bytes(save['bytes'])}, {save['seconds']:.1f} s)"


def rank_ratio(straggler: dict[str, Any]) -> float:
    return float(straggler["rank"]["step_seconds"] / straggler["others"])


def rank_is_slow(straggler: dict[str, Any]) -> str:
    return f"rank {straggler['rank']['rank']} is slow: {rank_ratio(straggler):.1f} x the time of the others"


FACTS = [
    # -- first line
    Fact("status", "state", always(str)),
    Fact("status", "idle_seconds", always(lambda v: f"{v:,.0f} s")),
    Fact("status", "n_params", always(rounded_count)),
    Fact("status", "step", always(lambda v: f"step {human_count(v)} of")),
    Fact("status", "total_steps", always(lambda v: f" of {human_count(v)}")),
    Fact("status", "total_steps", lambda v, d: percent(d["step"] / v)),
    Fact("status", "steps_per_minute", alive(lambda v: f"{v:,.1f} steps/min")),
    Fact("status", "eta_seconds", lambda v, d: f"ETA {duration(v)}" if d["step"] < (d["target_step"] or 0) else None),
    # -- last line but one
    Fact("save", "sentence", lambda v, d: None if d["alive"] and d["state"] == "training" else v),
    Fact("save", "disk_free", lambda v, d: f"{size_bytes(v)} of disk free" if saves_are_told(d) else None),
    Fact("save", "disk_full_at", lambda v, d: f"full at about step {human_count(v)}" if saves_are_told(d) else None),
    Fact("save", "disk_full_at", full_in_words),
    Fact("save", "last_save", last_save_words),
    # -- loss
    Fact("loss", "ema", always(lambda v: fixed(v, 3))),
    Fact("loss", "ema_trend", always(lambda v: f"{'▼' if v < 0 else '▲'} {abs(v):.3f} per 1k")),
    Fact("loss", "validation_loss", always(lambda v: f"validation {fixed(v, 3)}")),
    Fact("loss", "nonfinite_steps", lambda v, d: f"× {human_count(v)} not finite" if v else None),
    Fact("loss", "sample.scores.total", always(lambda v: f"sample score {compact_number(v)}")),
    Fact("loss", "gate_consecutive", lambda v, d: f"halts at {v} in a row" if d["sample"] else None),
    Fact("loss", "gate_threshold", lambda v, d: f"below {v:g}" if d["sample"] else None),
    # -- power
    Fact("power", "telemetry.gpu_problem", lambda v, d: v or None),
    Fact("power", "telemetry.cpu_percent", lambda v, d: None if has_gpus(d) else f"CPU {percent(v / 100)}"),
    Fact("power", "telemetry.cpu_power_w", lambda v, d: watts(v) if d["telemetry"]["counts_cpu"] else None),
    Fact("power", "telemetry.memory_total", lambda v, d: None if has_gpus(d) else f" of {size_bytes(v)}"),
    Fact("power", "telemetry.memory_used", lambda v, d: None if has_gpus(d) else f"mem {size_bytes(v)}"),
    Fact("power", "telemetry.load_1m", lambda v, d: None if has_gpus(d) else f"load {fixed(v, 1)}"),
    Fact("power", "telemetry.gpus.*.power_w", always(watts)),
    Fact("power", "telemetry.gpus", always(gpus_words)),
    Fact("power", "telemetry.gpus.*.index", always(lambda v: f"GPU {v}")),
    Fact("power", "telemetry.gpus.*", lambda v, d: None if v["throttle"] else f"memory {v['memory_mhz']:,.0f} MHz"),
    Fact("power", "telemetry.gpus.*.utilisation", always(lambda v: f"util {percent(v / 100)}")),
    Fact("power", "telemetry.gpus.*.temperature_c", always(lambda v: f"{v:.0f} °C")),
    Fact("power", "telemetry.gpus.*.memory_used", always(lambda v: f"{size_bytes(v)} of ")),
    Fact("power", "telemetry.gpus.*.memory_total", always(lambda v: f" of {size_bytes(v)}")),
    Fact("power", "telemetry.gpus.*.sm_mhz", always(lambda v: f"{human_count(v)} MHz")),
    Fact("power", "telemetry.gpus.*.throttle.*", always(str)),
    Fact("power", "energy_kwh", lambda v, d: f"{energy(v * JOULES)}{' estimated' if d['energy_estimated'] else ''}"),
    Fact("power", "energy_complete", lambda v, d: None if v else "at least "),
    Fact("power", "joules_per_token", always(lambda v: f"{compact_number(v)} J/token")),
    Fact("power", "cost", lambda v, d: f"{v:,.2f} {d['currency']}".rstrip()),
    Fact("power", "tokens_per_second", alive(human_count)),
    Fact("power", "mfu", alive(lambda v: f"MFU {percent(v)}")),
    Fact("power", "grad_norm", always(lambda v: f"grad norm {fixed(v, 2, 5)}")),
    Fact("power", "lr", always(lambda v: f"lr {v:.2e}")),
    # -- sample
    Fact("sample", "sample.step", always(lambda v: f"step {human_count(v)}")),
    Fact("sample", "sample.scores.total", always(lambda v: f"{int(v)} of 100")),
    Fact("sample", "sample.scores.bigram", always(lambda v: f"{v:.1f} of 35")),
    Fact("sample", "sample.scores.trigram", always(lambda v: f"{v:.1f} of 35")),
    Fact("sample", "sample.scores.english", always(lambda v: f"{v:.1f} of 20")),
    Fact("sample", "sample.scores.character", always(lambda v: f"{v:.1f} of 10")),
    Fact("sample", "sample.text", always(str)),
    Fact("sample", "gate_low_in_row", lambda v, d: f"{v} low in a row" if v else None),
    # -- arms
    Fact("arms", "focus", always(str)),
    Fact("arms", "arms.*", lambda v, d: v["name"]),
    Fact("arms", "arms.*", lambda v, d: v["held_by"] if v["available"] else v["reason"]),
    Fact("arms", "arms.*", lambda v, d: None if v["available"] else f"weight of {v['stored_weight']:.3f} has"),
    *(
        Fact("arms", "arms.*", lambda v, d, name=name, words=words: words(v[name]) if told(v, name) else None)
        for name, words in {
            "share": lambda share: f"{share * 100:.0f} %",
            "pulls": str,
            "ema": compact_number,
            "mean_reward": compact_number,
            "spread": compact_number,
            "bonus": compact_number,
            "epochs": compact_number,
            "penalty": compact_number,
            "tentative": compact_number,
            "floor": lambda floor: f"{floor:.2f}" if floor else None,
            "cap": lambda cap: f"{cap:.2f}",
            "weight": compact_number,
            "probability": lambda chance: f"{chance * 100:.1f} %",
        }.items()
    ),
    # -- ranks
    Fact("status", "ranks", lambda v, d: f"{len(v)} ranks" if v else None),
    Fact("save", "straggler", lambda v, d: rank_is_slow(v) if saves_are_told(d) else None),
    Fact("ranks", "straggler", lambda v, d: f"needs {rank_ratio(v):.1f} x the time of the others"),
    Fact("ranks", "straggler.rank", lambda v, d: f"rank {v['rank']} on {v['host']}"),
    Fact("ranks", "ranks", lambda v, d: f"ranks  {len(v)}" if v else None),
    Fact("ranks", "ranks.*.rank", always(lambda v: f"   {v}  ")),
    Fact("ranks", "ranks.*.host", always(str)),
    Fact("ranks", "ranks.*.pid", always(str)),
    Fact("ranks", "ranks.*.device", always(str)),
    Fact("ranks", "ranks.*.step_seconds", always(lambda v: f"{v:.3f} s")),
    Fact("ranks", "ranks.*.step_seconds", lambda v, d: percent(v / d["step_seconds"])),
    Fact("ranks", "ranks.*.tokens_per_second", always(human_count)),
    # -- how it ended, or that it gets nowhere
    Fact("trouble", "sentence", lambda v, d: v[1:] if d["state"] == "stalled" else None),
    Fact("trouble", "advice", lambda v, d: v or None),
    Fact("trouble", "exit_code", lambda v, d: f"exit code {v}" if v else None),
    Fact(
        "trouble",
        "last_save.step",
        lambda v, d: None if d["alive"] else f"{d['step'] - v} steps since the checkpoint of step {v} are lost",
    ),
    Fact("trouble", "idle_seconds", always(lambda v: f"no progress for {v:,.0f} s")),
]


# -- the runs ---------------------------------------------------------------------------------------------------------


@contextmanager
def rich(path: Path) -> Iterator[RunDirectory]:
    """Everything is known: energy and its price, two GPUs, validation, low samples, steps that were not finite."""
    with situation("training", path) as directory:
        make_run(path, {"power": {"price_per_kwh": 0.4, "currency": "EUR"}, "schedule": {"steps": 5000}})
        fill(directory)
        entries = [
            make_entry(
                step=step,
                loss=math.nan if step in (11, 12) else 6.0 - step / 20,
                ema=6.1 - step / 20,
                lr=3e-4,
                grad_norm=0.84,
                source="chat",
                session=1,
                power_w=262.0,
                energy_j=40_000.0 * step,
            )
            for step in range(1, 41)
        ]
        directory.loss.write_bytes(b"[\n" + b",\n".join(entry.to_line() for entry in entries) + b"\n]\n")
        log = EventLog(directory.events, 1)
        log.append("validation", step=40, loss=4.3217)
        log.append("energy", complete=False, estimated=True)
        log.append("sample", step=40, total=21.5, consecutive_low=2, window_low=2, window_filled=4)
        scores = StoredScores(bigram=5.0, trigram=6.5, english=6.0, character=4.0, total=21.5)
        write_samples(directory.samples, [Sample(step=40, text="region region", scores=scores)])
        arm = {
            "pulls": 23,
            "share": 0.31,
            "ema": 5.17,
            "mean_reward": 212.0,
            "spread": 1.9,
            "bonus": 0.66,
            "epochs": 2.25,
            "penalty": 0.308,
            "tentative": 0.47,
            "floor": 0.8,
            "cap": 1.5,
            "weight": 0.81,
            "probability": 0.274,
            "held_by": "floor",
        }
        directory.state.write_text(json.dumps({"arms": {"chat": arm}, "focus": {"arms": ["chat"], "until": 47}}))
        gpus = [
            Gpu(
                uuid=f"GPU-{index}",
                name="NVIDIA H200",
                index=index,
                time=time.time(),
                used=True,
                power_w=131.0 + index * 20,
                limit_w=450.0,
                utilisation=97.0 - index,
                memory_used=1_400_000_000,
                memory_total=24_000_000_000,
                temperature_c=61.0 + index,
                sm_mhz=1980.0,
                memory_mhz=2619.0,
                throttle=["power cap"] if index else [],
            )
            for index in (0, 1)
        ]
        telemetry = Telemetry(time=time.time(), gpus=gpus, cpu_percent=12.0)
        write_heartbeat(directory.heartbeat, beat("training", telemetry=telemetry, mfu=0.317))
        yield directory


@contextmanager
def host(path: Path) -> Iterator[RunDirectory]:
    """It trains on the processor, whose packages tell their power."""
    with situation("training", path) as directory:
        telemetry = Telemetry(
            time=time.time(),
            gpu_problem="no NVIDIA GPU",
            cpu_percent=83.0,
            cpu_power_w=61.0,
            counts_cpu=True,
            memory_used=2_100_000_000,
            memory_total=8_400_000_000,
            load_1m=3.7,
        )
        write_heartbeat(directory.heartbeat, beat("training", telemetry=telemetry))
        yield directory


@contextmanager
def shared(path: Path) -> Iterator[RunDirectory]:
    """Three processes on two machines train it, and one of them is slow."""
    with situation("training", path) as directory:
        times = ((0, "north", 2.1), (1, "north", 2.2), (2, "south", 2.9))
        ranks = [
            Rank(rank=n, host=host, pid=4000 + n, device="CPU", step_seconds=own, tokens_per_second=900 / own)
            for n, host, own in times
        ]
        write_heartbeat(directory.heartbeat, beat("training", ranks=ranks))
        yield directory


@contextmanager
def unsaved(path: Path) -> Iterator[RunDirectory]:
    """It could not save, and says so in its exit code."""
    with situation("failed", path) as directory:
        ended = read_heartbeat(directory.heartbeat)
        assert ended is not None
        write_heartbeat(directory.heartbeat, msgspec.structs.replace(ended, exit_code=3))
        yield directory


@contextmanager
def stalled(path: Path) -> Iterator[RunDirectory]:
    with situation("training", path) as directory:
        long_ago = time.time() - 10_000.0
        write_heartbeat(directory.heartbeat, beat("training", phase_since=long_ago, step_time=long_ago))
        yield directory


@pytest.fixture(autouse=True)
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that it will be full before the end, and always the same."""
    usage = SimpleNamespace(total=10**9, used=0, free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


@contextmanager
def made(name: str, path: Path) -> Iterator[RunDirectory]:
    kinds = {"rich": rich, "host": host, "shared": shared, "unsaved": unsaved, "stalled": stalled}
    with kinds[name](path) if name in kinds else situation(name, path) as directory:
        yield directory


RUNS = (
    "empty",
    "training",
    "rich",
    "host",
    "shared",
    "stopped",
    "finished",
    "halted",
    "failed",
    "unsaved",
    "crashed",
    "stalled",
    "recorded",
)


# -- the panels -------------------------------------------------------------------------------------------------------


def bare(kind: type[RowsWidget], *arguments: Any) -> Any:
    """The widget, drawn without a screen."""
    return type(kind.__name__, (kind,), {"kind": "braille"})(*arguments)


def text_of(rows: list[Row]) -> str:
    return "\n".join("".join(text for text, _ in row) for row in rows)


def panels(directory: RunDirectory) -> dict[str, str]:
    """What each panel says, axes and curves left out."""
    store, reader = Store(), DirectoryReader(directory)
    while not store.complete:
        store.apply(reader.poll())
    loss, power, sample, arms = bare(LossPanel), bare(PowerPanel), bare(SamplePanel), bare(ArmsPanel)
    ranks = bare(RanksTable)
    chart = loss.content(store, 84, 18)
    scores = [row for row in chart if "sample score" in text_of([row])]
    trouble_found = trouble(store, OwnEnd())
    return {
        "status": text_of(bare(StatusBar, "a run").build(store, 160, 1)),
        "save": text_of(bare(SaveBar).build(store, 200, 1)),
        "loss": text_of([loss.title(store, 80), *scores]),
        "power": text_of([power.title(store, 80), *power._facts(store, 80, 40)]),
        "sample": text_of([sample.title(store, 80), *sample.content(store, 80, 20)]),
        "arms": text_of([arms.title(store, 80), *arms.content(store, 130, 20)[1:]]),
        "ranks": text_of([ranks.title(store, 120), *ranks.content(store, 120, 20)]) if store.ranks else "",
        "events": text_of(bare(EventsPanel).content(store, 200, 60)),
        "trouble": "" if trouble_found is None else "\n".join((trouble_found.title, *trouble_found.facts)),
    }


def as_data(directory: RunDirectory) -> tuple[Summary, dict[str, Any]]:
    summary = summarise(directory)
    return summary, json.loads(as_json(summary))


def wordings(data: dict[str, Any]) -> dict[str, list[str]]:
    """By panel, how it words what the JSON knows."""
    words: dict[str, list[str]] = {}
    for fact in FACTS:
        said = [fact.words(value, data) for value in found(data, fact.path)]
        words.setdefault(fact.panel, []).extend(text for text in said if text)
    return words


@pytest.mark.parametrize("name", RUNS)
def test_what_the_json_knows_is_on_the_panel_and_nothing_else_is(name: str, tmp_path: Path) -> None:
    with made(name, tmp_path / "run") as directory:
        _, data = as_data(directory)
        shown = panels(directory)
    for panel, words in wordings(data).items():
        if panel == "trouble" and not shown[panel]:
            continue
        assert [text for text in words if text not in shown[panel]] == [], f"{panel} does not say: {shown[panel]}"
        rest = without(shown[panel], [*words, *NO_FACTS.findall(shown[panel])])
        assert not re.search(r"[0-9]", rest), f"{panel} says what the JSON does not: {rest}"


NO_FACTS = re.compile(
    r"EMA 0\.99"  # which of the averages
    r"|, [^;,]* ago"  # ages, of times that the JSON has
    r"|on \d+ machines"  # counted
    r"|– of \d+"
    r"|the (?:first|next) sample comes at step [\d,]+"  # of run.toml
)


def without(text: str, words: list[str]) -> str:
    """The text with every occurrence of each of the words blanked, also of words that overlap."""
    covered = [False] * len(text)
    for word in words:
        for match in re.finditer(f"(?={re.escape(word)})", text):
            covered[match.start() : match.start() + len(word)] = [True] * len(word)
    return "".join(" " if hidden else char for char, hidden in zip(text, covered, strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_the_events_on_the_panel_are_those_in_the_json(name: str, tmp_path: Path) -> None:
    with made(name, tmp_path / "run") as directory:
        _, data = as_data(directory)
        shown = panels(directory)["events"]
        events = read_events(directory.events)
    known = {json.dumps(event, sort_keys=True) for event in data["events"]}
    hidden = ("save_writing", "save_seen")
    for event in events:
        facts = {**event.facts, "time": event.time, "kind": event.kind, "session": event.session}
        assert json.dumps(facts, sort_keys=True) in known
        assert event.kind in hidden or describe(event)[0] in shown
    assert len([line for line in shown.splitlines() if line.strip()]) == max(
        1, len([event for event in events if event.kind not in hidden])
    )


def test_the_table_covers_what_a_rich_run_knows(tmp_path: Path) -> None:
    """Each fact of the table is worded at least once by one of the runs: none of them is dead."""
    said: set[int] = set()
    for name in RUNS:
        with made(name, tmp_path / name) as directory:
            _, data = as_data(directory)
        said |= {
            index for index, fact in enumerate(FACTS) for value in found(data, fact.path) if fact.words(value, data)
        }
    assert [FACTS[index].path for index in range(len(FACTS)) if index not in said] == []

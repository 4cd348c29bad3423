"""What a checkpoint costs: the pause, the whole cost of a save while training goes on, and loading."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from andrea_engine.model.flat import FlatParameters
from andrea_engine.run.checkpoint import checkpoint_bytes, checkpoint_name, write_checkpoint
from andrea_engine.run.config import CheckpointTable
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import RunError
from andrea_engine.run.events import EventLog
from andrea_engine.run.loss_record import LossRecord
from andrea_engine.train.checkpointing import CheckpointWriter, load_checkpoint, numbers_problem
from benchmarks.measure import Case, differences, interleave, summarise
from benchmarks.models import EngineStep, fresh, preset_shape
from benchmarks.report import Outcome, Scale, Target

TARGETS = {
    "checkpoint_pause_vs_torch_save": Target("<=", 0.08),
    "save_cost_vs_sync": Target("<=", 0.5),
    "load_vs_torch_load": Target("<=", 0.35),
}
DISK_QUIET = 0.6  # the kernel's own writing counts as foreign CPU
# As many as a write takes: each further step adds its own noise to a difference and nothing else.
FOLLOWING_STEPS = 4


class Saves:
    """A run directory with the state of 12m, its writer, and the same content as `torch.save` writes it."""

    def __init__(self, place: Path, flat: FlatParameters) -> None:
        self.flat = flat
        self.torch_path = place / "peer.pt"
        self.sync_place = place / "sync"
        self.sync_place.mkdir(parents=True)
        self.directory = RunDirectory(place)
        self.record = LossRecord(self.directory)
        self.record.recover(0)
        events = EventLog(self.directory.events, session=1)
        table = CheckpointTable(keep_last=2, keep_every=0)
        self.writer = CheckpointWriter(self.directory, flat, self.record, events, table, set())
        self.step = 0

    def submit(self) -> None:
        self.step += 1
        self.writer.submit(self.step, "cadence", {})

    def wait(self) -> None:
        """Wait for the write in flight; a measurement of saves that fail would mean nothing."""
        error = self.writer.wait()
        if error is not None:
            raise error

    def torch_save(self) -> None:
        with self.torch_path.open("wb") as file:
            torch.save({"w": self.flat.w, "m": self.flat.m, "v": self.flat.v}, file)
            file.flush()
            os.fsync(file.fileno())

    def write_sync(self) -> None:
        """What a save costs whose caller waits: the same look at the numbers, file, digest and fsyncs."""
        regions = [buffer.detach().numpy() for buffer in self._buffers()]
        problem = numbers_problem(regions, 1)
        if problem is not None:
            raise RunError(f"the state that is saved {problem}")
        write_checkpoint(self.sync_place, 1, [region.data for region in regions])

    @property
    def path(self) -> Path:
        """The newest file that the writer made."""
        return self.directory.path / checkpoint_name(self.step)

    def load(self) -> None:
        load_checkpoint(self.path, self.flat)

    def torch_load(self) -> None:
        torch.load(self.torch_path, weights_only=True)

    def require_equal(self) -> None:
        """Raise RunError unless `torch.load` and our loader give the same numbers."""
        self.load()
        theirs = torch.load(self.torch_path, weights_only=True)
        for name, buffer in zip(("w", "m", "v"), self._buffers(), strict=True):
            if not torch.equal(theirs[name], buffer):
                raise RunError(f"the two ways of saving disagree about {name}, so their times cannot be compared")

    def _buffers(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.flat.w, self.flat.m, self.flat.v


def measure(scale: Scale) -> Outcome:
    """Pause, cost and load of the 12m state on the disk of `scale.scratch`."""
    torch.set_num_threads(scale.threads)
    outcome = Outcome()
    saves = Saves(scale.scratch, _state(scale))
    try:
        _measure_pause(outcome, scale, saves)
        _measure_load(outcome, scale, saves)
        _measure_cost(outcome, scale, saves)
    finally:
        saves.writer.wait()
        saves.record.close()
    outcome.details["bytes"] = checkpoint_bytes(saves.flat.w.numel())
    return outcome


def _state(scale: Scale) -> FlatParameters:
    """Weights and moments as they look in training: nothing that a file system could compress or skip."""
    flat = fresh(preset_shape("12m", quick=scale.quick))
    flat.m.normal_(0.0, 1e-3)
    flat.v.normal_(0.0, 1e-3).square_()
    return flat


def _measure_pause(outcome: Outcome, scale: Scale, saves: Saves) -> None:
    first = Case(saves.submit)
    cases = {"ours": Case(saves.submit, saves.wait), "torch_save": Case(saves.torch_save, saves.wait)}
    allocating = interleave({"first": first}, 1, 1)["first"]  # allocates the staging buffers, once in a process
    saves.wait()
    saves.torch_save()
    taken = interleave(cases, *scale.rounds(9, 15), limit=DISK_QUIET)
    saves.wait()
    saves.require_equal()
    ours, theirs = (summarise(taken[name], DISK_QUIET) for name in ("ours", "torch_save"))
    outcome.compare("checkpoint_pause_vs_torch_save", ours, theirs)
    outcome.details["pause"] = {
        "ours": ours.facts(),
        "ours_first": summarise(allocating, DISK_QUIET).facts(),
        "torch_save": theirs.facts(),
    }


def _measure_load(outcome: Outcome, scale: Scale, saves: Saves) -> None:
    cases = {"ours": Case(saves.load), "torch_load": Case(saves.torch_load)}
    taken = interleave(cases, *scale.rounds(9, 15))
    ours, theirs = summarise(taken["ours"]), summarise(taken["torch_load"])
    outcome.compare("load_vs_torch_load", ours, theirs)
    outcome.details["load"] = {"ours": ours.facts(), "torch_load": theirs.facts()}


def _measure_cost(outcome: Outcome, scale: Scale, saves: Saves) -> None:
    """Pause plus what the save adds to the steps that follow it, until the file is durable.

    Demo steps beside the state of 12m: steps of 12m would take ten times as long and drown the cost in their noise.
    """
    step = EngineStep(fresh(preset_shape("demo", quick=scale.quick)), batch=8)

    def train() -> None:
        for _ in range(FOLLOWING_STEPS):
            step()

    def ours() -> None:
        saves.submit()
        train()
        saves.wait()

    def sync() -> None:
        saves.write_sync()
        train()

    train()
    saves.write_sync()
    cases = {"undisturbed": Case(train), "ours": Case(ours), "sync": Case(sync)}
    taken = interleave(cases, *scale.rounds(41, 61), limit=DISK_QUIET)  # differences of noisy times
    costs = {name: summarise(differences(taken[name], taken["undisturbed"]), DISK_QUIET) for name in ("ours", "sync")}
    outcome.compare("save_cost_vs_sync", costs["ours"], costs["sync"])
    outcome.details["save_cost"] = {
        "following_steps": FOLLOWING_STEPS,
        "undisturbed": summarise(taken["undisturbed"], DISK_QUIET).facts(),
        **{name: cost.facts() for name, cost in costs.items()},
    }

"""The names inside a run directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from andrea_engine.run.errors import ConfigError

ARCHIVE_PATTERN = re.compile(r"pivot-([0-9]{4,9})-step-[0-9]{6,10}(-[0-9]{1,4})?")
RECEIPT = "receipt.json"


class RunDirectory(msgspec.Struct, frozen=True):
    """Paths of one run. Nothing is opened or created here except by `create`."""

    path: Path

    @property
    def config(self) -> Path:
        """What was asked: preset, sources, policy, schedule, gate, keep rule."""
        return self.path / "run.toml"

    @property
    def resolved(self) -> Path:
        """What was resolved: every default, versions, n_params, tokenizer digest."""
        return self.path / "run.lock.json"

    @property
    def console(self) -> Path:
        """The console in charge."""
        return self.path / "console.json"

    @property
    def tokenizer(self) -> Path:
        return self.path / "harris_segments.json"

    @property
    def tokens(self) -> Path:
        """Folder of the encoded sources (uint16), so that a resume reads the very same data."""
        return self.path / "tokens"

    @property
    def loss(self) -> Path:
        return self.path / ".loss.json"

    @property
    def journal(self) -> Path:
        """Loss entries of the steps since the last durable checkpoint."""
        return self.path / ".loss.journal.jsonl"

    @property
    def samples(self) -> Path:
        return self.path / ".samples.json"

    @property
    def state(self) -> Path:
        return self.path / ".state.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def heartbeat(self) -> Path:
        return self.path / "engine.json"

    @property
    def lock(self) -> Path:
        return self.path / "engine.lock"

    @property
    def log(self) -> Path:
        return self.path / "engine.log"

    @property
    def pivot_intent(self) -> Path:
        return self.path / "pivot.json"

    @property
    def archive(self) -> Path:
        return self.path / "archive"

    @property
    def name(self) -> str:
        """Short name for titles: the directory's own name."""
        return self.path.resolve().name

    def exists(self) -> bool:
        """True when the path is a directory that holds a run."""
        return self.config.is_file()

    def is_foreign_run(self) -> bool:
        """True when there is no run.toml, yet a loss record or checkpoints: a run of the original engine."""
        if self.exists() or not self.path.is_dir():
            return False
        return any(
            name.endswith(".loss.json") or (name.startswith("step_") and name.endswith(".bin"))
            for name in os.listdir(self.path)
        )

    def loss_record(self) -> Path:
        """The loss record to read: `.loss.json`, else the only `<model>.loss.json` of an original run."""
        return self._sidecar(self.loss)

    def sample_record(self) -> Path:
        """The samples to read: `.samples.json`, else the only `<model>.samples.json` of an original run."""
        return self._sidecar(self.samples)

    def _sidecar(self, path: Path) -> Path:
        if path.exists() or not self.path.is_dir():
            return path
        named = sorted(p for p in self.path.glob(f"*{path.name}") if not p.name.startswith("."))
        return named[0] if len(named) == 1 else path

    def archives(self) -> list[Path]:
        """Archives of the pivots that were completed, oldest first: those with a receipt."""
        return [path for path in self._pivot_archives() if (path / RECEIPT).is_file()]

    def half_done_archives(self) -> list[Path]:
        """Archives without a receipt: of the pivot under way, or of nobody."""
        return [path for path in self._pivot_archives() if not (path / RECEIPT).is_file()]

    def _pivot_archives(self) -> list[Path]:
        try:
            names = [] if self.archive.is_symlink() else os.listdir(self.archive)
        except OSError:
            return []
        names = [name for name in names if not (self.archive / name).is_symlink()]
        found = [(int(m[1]), m[0]) for m in map(ARCHIVE_PATTERN.fullmatch, names) if m]
        return [self.archive / name for _, name in sorted(found)]

    def policy_generation(self) -> int:
        """Number of pivots so far, from the archives they left. One that is half done does not count yet."""
        archives = self.archives()
        match = ARCHIVE_PATTERN.fullmatch(archives[-1].name) if archives else None
        return int(match[1]) if match else 0

    def require(self) -> None:
        """Raise ConfigError unless this is a run that the engine can train."""
        if self.exists():
            return
        if self.is_foreign_run():
            raise ConfigError(
                f"{self.path} has no run.toml, so it can be looked at but not trained; "
                f"start a new run with: andrea-engine init NEW --preset demo"
            )
        raise ConfigError(f"{self.path} is not a run directory; create it with: andrea-engine init {self.path}")

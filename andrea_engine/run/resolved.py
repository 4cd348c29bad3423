"""`run.lock.json`, what the engine made of `run.toml`, for those who read it without the engine."""

from __future__ import annotations

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.io import read_optional
from andrea_engine.run.loss_entry import loads_bounded

FILE_LIMIT = 16 * 1024 * 1024


def read_resolved(directory: RunDirectory) -> dict[str, object]:
    """The file as a mapping, empty before the first start. Raises ConfigError when it is damaged."""
    try:
        resolved = loads_bounded(read_optional(directory.resolved, FILE_LIMIT) or b"{}")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{directory.resolved} cannot be read: {error}") from None
    return resolved if isinstance(resolved, dict) else {}


def live_tokens(resolved: dict[str, object]) -> dict[str, int]:
    """Tokens in one pass over each source that had text at the last start."""
    arms = resolved.get("arms")
    tokens = {str(name): _tokens(arm) for name, arm in arms.items()} if isinstance(arms, dict) else {}
    return {name: count for name, count in tokens.items() if count > 0 and name not in unavailable(resolved)}


def unavailable(resolved: dict[str, object]) -> dict[str, str]:
    """Sources that had no text at the last start, and why."""
    gone = resolved.get("unavailable")
    return {str(name): str(reason) for name, reason in gone.items()} if isinstance(gone, dict) else {}


def _tokens(arm: object) -> int:
    tokens = arm.get("tokens") if isinstance(arm, dict) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else 0

"""The mixing policy: what the operator may change at a pivot, as a value and as TOML.

    [floors]              # source name -> least sampling weight, absent = 0
    chat = 0.8
    [caps]                # source name -> greatest sampling weight, absent = unlimited, 0 = switched off
    repo-docs = 0.3
    [bandit]
    c = 100.0             # UCB1 exploration constant
    span = [7, 42]        # steps between two draws of the focus set, both ends included
    focus = 5             # size of the focus set, absent = a third of the arms, rounded up
    background = 0.15     # tentative weight of arms outside the focus set
    [warmup]
    steps = 20000         # during the first steps of the run ...
    sources = ["chat"]    # ... only these sources are drawn

Weights are relative; a floor above 1 is legal and outweighs a focus arm.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

import msgspec

from andrea_engine.run.errors import ConfigError

LIMIT = 1_000_000.0
"""Largest weight and largest `c`: far beyond any use, small enough that no sum can overflow."""

DEFAULT_C = 100.0
"""Rewards are 1000 x nats gained on the arm's loss EMA, and batch noise of about 0.1 nat makes their spread
about 100. The bonus of UCB1 should be of the size of that spread: a constant near 1 would be invisible."""

DEFAULT_SPAN = (7, 42)
DEFAULT_BACKGROUND = 0.15

_KEYS = {"bandit": ("c", "span", "focus", "background"), "warmup": ("steps", "sources")}
_TABLES = ("floors", "caps", *_KEYS)


class Policy(msgspec.Struct, frozen=True):
    """Floors, caps, bandit constants and warm-up of one policy generation.

    Build it with `from_mapping` or `parse_policy` whenever a person or a file is the source: they validate.
    """

    floors: dict[str, float] = msgspec.field(default_factory=dict)
    caps: dict[str, float] = msgspec.field(default_factory=dict)
    c: float = DEFAULT_C
    span: tuple[int, int] = DEFAULT_SPAN
    focus: int | None = None
    background: float = DEFAULT_BACKGROUND
    warmup_steps: int = 0
    warmup_sources: tuple[str, ...] = ()

    def floor(self, source: str) -> float:
        """Least sampling weight of `source`."""
        return self.floors.get(source, 0.0)

    def cap(self, source: str) -> float | None:
        """Greatest sampling weight of `source`; None means unlimited."""
        return self.caps.get(source)

    def sources(self) -> set[str]:
        """Every source name the policy mentions."""
        return {*self.floors, *self.caps, *self.warmup_sources}

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object], where: str) -> Policy:
        """Validate parsed TOML. `where` names its origin in messages, such as `policies/chat.toml`.

        Raises ConfigError with one sentence that says where, what, and what to do.
        """
        for name in mapping:
            if name not in _TABLES:
                raise ConfigError(f"{where}: unknown entry {name!r}; a policy has the tables {_list(_TABLES)}.")
        floors = _weights(_table(mapping, "floors", where), f"{where}: [floors]")
        caps = _weights(_table(mapping, "caps", where), f"{where}: [caps]")
        for source in sorted(floors.keys() & caps.keys()):
            if caps[source] < floors[source]:
                raise ConfigError(
                    f"{where}: [caps] {source} = {caps[source]:g} is below its floor {floors[source]:g}; "
                    "raise the cap or lower the floor."
                )
        bandit = _table(mapping, "bandit", where)
        warmup = _table(mapping, "warmup", where)
        at, warm = f"{where}: [bandit]", f"{where}: [warmup]"
        steps = _integer(warmup.get("steps", 0), f"{warm} steps", least=0)
        sources = _names(warmup.get("sources", ()), f"{warm} sources")
        if steps and not sources:
            raise ConfigError(f"{warm} steps = {steps} needs sources; name at least one or set steps = 0.")
        return cls(
            floors=floors,
            caps=caps,
            c=_number(bandit.get("c", DEFAULT_C), f"{at} c"),
            span=_span(bandit.get("span", DEFAULT_SPAN), f"{at} span"),
            focus=_integer(bandit["focus"], f"{at} focus", least=1) if "focus" in bandit else None,
            background=_number(bandit.get("background", DEFAULT_BACKGROUND), f"{at} background", most=1.0),
            warmup_steps=steps,
            warmup_sources=sources,
        )

    def to_mapping(self) -> dict[str, object]:
        """The tables of the TOML form; `from_mapping` gives back an equal policy."""
        bandit: dict[str, object] = {"c": self.c, "span": list(self.span), "background": self.background}
        if self.focus is not None:
            bandit["focus"] = self.focus
        return {
            "floors": dict(self.floors),
            "caps": dict(self.caps),
            "bandit": bandit,
            "warmup": {"steps": self.warmup_steps, "sources": list(self.warmup_sources)},
        }


def parse_policy(text: str, where: str) -> Policy:
    """Read a policy from TOML text. Raises ConfigError as `Policy.from_mapping` does."""
    try:
        mapping = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise ConfigError(f"{where}: not valid TOML ({error}); correct the file.") from error
    return Policy.from_mapping(mapping, where)


def dump_policy(policy: Policy) -> str:
    """TOML text of `policy`; `parse_policy` gives back an equal one."""
    import tomli_w

    return tomli_w.dumps(policy.to_mapping())


def _list(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _table(mapping: Mapping[str, object], name: str, where: str) -> Mapping[object, object]:
    table = mapping.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: {name} is {table!r}, not a table; write [{name}] and its entries below it.")
    for key in table if name in _KEYS else ():
        if key not in _KEYS[name]:
            raise ConfigError(f"{where}: [{name}] has no entry {key!r}; it takes {_list(_KEYS[name])}.")
    return table


def _weights(table: Mapping[object, object], where: str) -> dict[str, float]:
    weights = {}
    for source, value in table.items():
        if not isinstance(source, str) or not source:
            raise ConfigError(f"{where} has an entry named {source!r}; use the name of a source.")
        weights[source] = _number(value, f"{where} {source}")
    return weights


def _number(value: object, where: str, most: float = LIMIT) -> float:
    # The comparison is also false for NaN, and exact for integers too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ConfigError(f"{where} = {value!r} cannot be used; give a number from 0 to {most:,.0f}.")
    return float(value)


def _integer(value: object, where: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{where} = {value!r} cannot be used; give a whole number of at least {least}.")
    return value


def _span(value: object, where: str) -> tuple[int, int]:
    if isinstance(value, list | tuple) and len(value) == 2:
        low = _integer(value[0], f"{where} low end", least=1)
        high = _integer(value[1], f"{where} high end", least=1)
        if low <= high:
            return low, high
    raise ConfigError(f"{where} = {value!r} cannot be used; give two whole numbers, low then high, as [7, 42].")


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise ConfigError(f'{where} = {value!r} cannot be used; give a list of source names, as ["chat"].')
    if len(set(value)) < len(value):
        raise ConfigError(f"{where} names a source twice; keep one of them.")
    return tuple(value)

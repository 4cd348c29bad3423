"""A policy being edited: cells with a cursor, and the policy they amount to. Pure."""

from __future__ import annotations

import msgspec

from andrea_engine.run.errors import ConfigError
from andrea_engine.run.policy import Policy

NUDGE = 0.05
WHERE = "the new policy"


class Setting(msgspec.Struct, frozen=True):
    """A number of the policy that belongs to no arm. `step` is what an arrow key adds."""

    name: str
    help: str
    step: float
    whole: bool


SETTINGS = (
    Setting("c", "exploration constant of UCB1, in units of reward", 10.0, whole=False),
    Setting("span low", "fewest steps between two draws of the focus set", 1, whole=True),
    Setting("span high", "most steps between two draws of the focus set", 1, whole=True),
    Setting("focus", "arms in the focus set, empty for a third of them", 1, whole=True),
    Setting("background", "weight of the arms outside of the focus set", NUDGE, whole=False),
    Setting("warm-up steps", "steps of the run in which only the warm-up sources are drawn", 100, whole=True),
)


class Draft(msgspec.Struct):
    """Rows are the arms, then the settings; an arm has the columns floor and cap, a setting one value.

    Every cell holds text, as typed: an unfinished number is an ordinary state, and `problem` names it.
    """

    arms: list[str]
    floors: dict[str, str]
    caps: dict[str, str]
    settings: dict[str, str]
    warmup_sources: tuple[str, ...]
    origin: Policy
    row: int = 0
    column: int = 0  # 0 floor, 1 cap
    editing: bool = False  # the next digit continues the number instead of replacing it
    switched_off: dict[str, str] = msgspec.field(default_factory=dict)  # arm -> its cap before it was switched off

    @classmethod
    def of(cls, policy: Policy, arms: list[str]) -> Draft:
        """The cells of `policy`, with a row for each of `arms` and for each source that the policy names."""
        names = [*arms, *sorted(policy.sources() - set(arms))]
        return cls(
            arms=names,
            floors={name: _text(policy.floors.get(name)) for name in names},
            caps={name: _text(policy.caps.get(name)) for name in names},
            settings={
                "c": _text(policy.c),
                "span low": str(policy.span[0]),
                "span high": str(policy.span[1]),
                "focus": "" if policy.focus is None else str(policy.focus),
                "background": _text(policy.background),
                "warm-up steps": str(policy.warmup_steps),
            },
            warmup_sources=policy.warmup_sources,
            origin=policy,
        )

    def load(self, policy: Policy) -> None:
        """Replace every cell by those of another policy; the arms stay."""
        other = Draft.of(policy, self.arms)
        self.arms, self.floors, self.caps, self.settings = other.arms, other.floors, other.caps, other.settings
        self.warmup_sources = other.warmup_sources
        self.editing = False

    @property
    def rows(self) -> int:
        return len(self.arms) + len(SETTINGS)

    @property
    def setting(self) -> Setting | None:
        """The setting under the cursor, None on an arm."""
        return None if self.row < len(self.arms) else SETTINGS[self.row - len(self.arms)]

    def move(self, rows: int) -> None:
        self.row = max(0, min(self.row + rows, self.rows - 1))
        self.editing = False

    def switch_column(self) -> None:
        self.column = 1 - self.column
        self.editing = False

    @property
    def cell(self) -> str:
        """Text of the cell under the cursor."""
        setting = self.setting
        if setting is not None:
            return self.settings[setting.name]
        return (self.caps if self.column else self.floors)[self.arms[self.row]]

    def _write(self, text: str) -> None:
        setting = self.setting
        if setting is not None:
            self.settings[setting.name] = text
        else:
            (self.caps if self.column else self.floors)[self.arms[self.row]] = text

    def type(self, character: str) -> None:
        """A digit or a point: the first one replaces the number, further ones continue it."""
        if character not in "0123456789.":
            return
        self._write((self.cell if self.editing else "") + character)
        self.editing = True

    def erase(self) -> None:
        """Take the last character away; an empty cell means: no floor, no cap, the default."""
        self._write(self.cell[:-1])
        self.editing = True

    def nudge(self, direction: int) -> None:
        """One step up or down; below zero is zero."""
        setting = self.setting
        step = NUDGE if setting is None else setting.step
        value = max(0.0, (_number(self.cell) or 0.0) + direction * step)
        self._write(str(round(value)) if setting is not None and setting.whole else _text(round(value, 4)))
        self.editing = False

    def switch(self) -> None:
        """Switch the arm under the cursor off (cap 0, floor none), or back on."""
        if self.setting is not None:
            return
        name = self.arms[self.row]
        if _number(self.caps[name]) == 0.0:
            self.caps[name] = self.switched_off.pop(name, "")
        else:
            self.switched_off[name] = self.caps[name]
            self.caps[name], self.floors[name] = "0", ""
        self.editing = False

    def policy(self) -> Policy:
        """The policy of the cells. Raises ConfigError with one sentence when they do not amount to one."""
        mapping: dict[str, object] = {
            "floors": self._weights(self.floors, "floor"),
            "caps": self._weights(self.caps, "cap"),
            "bandit": {
                "c": self._value("c"),
                "span": [self._whole("span low"), self._whole("span high")],
                "background": self._value("background"),
                **({"focus": self._whole("focus")} if self.settings["focus"].strip() else {}),
            },
            "warmup": {"steps": self._whole("warm-up steps"), "sources": list(self.warmup_sources)},
        }
        policy = Policy.from_mapping(mapping, WHERE)
        if all(policy.cap(name) == 0.0 for name in self.arms):
            raise ConfigError("every arm is switched off, so nothing could be drawn; switch one on")
        return policy

    def problem(self) -> str:
        """Why the cells are no policy, or ''."""
        try:
            self.policy()
        except ConfigError as error:
            return str(error)
        return ""

    def changes(self) -> list[str]:
        """What differs from the policy that the wizard began with, in words."""
        new, old = self.policy(), self.origin
        lines = []
        for name in self.arms:
            for what, before, after in (
                ("floor", old.floors.get(name), new.floors.get(name)),
                ("cap", old.caps.get(name), new.caps.get(name)),
            ):
                if before != after:
                    lines.append(f"{what} of {name}: {_text(before) or 'none'} -> {_text(after) or 'none'}")
        for what, was, now in (
            ("exploration constant", _text(old.c), _text(new.c)),
            ("span", f"{old.span[0]} to {old.span[1]}", f"{new.span[0]} to {new.span[1]}"),
            ("focus set", str(old.focus or "a third"), str(new.focus or "a third")),
            ("background weight", _text(old.background), _text(new.background)),
            ("warm-up steps", str(old.warmup_steps), str(new.warmup_steps)),
            ("warm-up sources", ", ".join(old.warmup_sources) or "none", ", ".join(new.warmup_sources) or "none"),
        ):
            if was != now:
                lines.append(f"{what}: {was} -> {now}")
        return lines

    def _weights(self, cells: dict[str, str], what: str) -> dict[str, float]:
        found = {}
        for name, text in cells.items():
            if text.strip():
                value = _number(text)
                if value is None:
                    raise ConfigError(f"the {what} of {name} is '{text}', which is not a number")
                found[name] = value
        return found

    def _value(self, name: str) -> float:
        value = _number(self.settings[name])
        if value is None:
            raise ConfigError(f"{name} is '{self.settings[name]}', which is not a number")
        return value

    def _whole(self, name: str) -> int:
        value = self._value(name)
        if not value.is_integer():
            raise ConfigError(f"{name} is {value:g}; it must be a whole number")
        return int(value)


def _text(value: float | None) -> str:
    """Every digit of a number: a policy that was only looked at must stay the same."""
    return "" if value is None else repr(float(value)).removesuffix(".0")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

"""What a mutation is: one safeguard taken out of the source, and the tests of which at least one has to notice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Mutation:
    """`old` stands exactly once in the file at `path` (relative to the checkout) and becomes `new`."""

    name: str
    old: str
    new: str
    tests: tuple[str, ...]
    path: str = ""

    @property
    def title(self) -> str:
        return f"{self.path}: {self.name}"

    def applied(self, text: str) -> str:
        """The text of the file with the safeguard taken out. Raises ValueError unless it stands there exactly once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.title}: the text to be replaced stands there {count} times, not once")
        return text.replace(self.old, self.new)


def cut(name: str, old: str, new: str, *tests: Iterable[str]) -> Mutation:
    """Take a safeguard out; `tests` are lists of node ids, as `ids` makes them."""
    return Mutation(name, old, new, tuple(test for some in tests for test in some))


def of(path: str, *mutations: Mutation) -> tuple[Mutation, ...]:
    """Mutations of one file."""
    return tuple(replace(mutation, path=path) for mutation in mutations)


def ids(path: str, *names: str) -> tuple[str, ...]:
    """Node ids: `ids("run/test_io", "lines_are_appended")`."""
    return tuple(f"tests/{path}.py::test_{name}" for name in names)

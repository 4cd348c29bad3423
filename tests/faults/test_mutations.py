"""The table of safeguards fits the source, and taking one out is noticed; `make soak` takes out every one."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults import mutations
from tests.faults.collected import ROOT, node_ids
from tests.faults.mutation import Mutation
from tests.faults.mutations import MUTATIONS, check_unmutated, is_killed, survivors, workbench

CHEAP = "andrea_engine/run/retention.py: pins"

# What must never be taken out unnoticed. A line that does it is named by a mutation, or stands in EXEMPT with a reason.
SAFEGUARDS = re.compile(
    r"\bos\.fsync\(|\bfsync_directory\(|\.rename\(|temporary\.replace\(|\bos\.link\(|\bos\.O_EXCL\b|\bos\.O_NOFOLLOW\b"
    r"|\bfcntl\.flock\(|\bEngineLock\(|\bwith guard\(|\bpthread_sigmask\(|\bpidfd_open\(|\bpidfd_send_signal\("
)
EXEMPT = {
    "andrea_engine/run/branching.py": {
        # a copy takes its place, and that one is named
        "os.link(source, target, follow_symlinks=False)",
    },
    "andrea_engine/run/repair.py": {
        # told by tests/run/test_repair.py::test_never_while_an_engine_lives
        "lock = EngineLock(directory)",
    },
    "andrea_tui/cli.py": {
        # only for a screen that never opened, and then the process ends at once: no test can tell
        "signal.pthread_sigmask(signal.SIG_SETMASK, before)",
    },
}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.title)
def test_every_mutation_fits_the_source(mutation: Mutation) -> None:
    mutant = mutation.applied((ROOT / mutation.path).read_text(encoding="utf-8"))
    ast.parse(mutant, mutation.path)
    assert mutation.tests
    assert set(mutation.tests) - node_ids() == set()


def test_every_mutation_has_a_name_of_its_own() -> None:
    titles = [mutation.title for mutation in MUTATIONS]
    assert sorted(set(titles)) == sorted(titles)


def test_no_safeguard_is_left_out() -> None:
    """Every line that syncs, renames, locks or signals is touched by a mutation."""
    left_out = []
    for path in sorted(path for package in ("andrea_engine", "andrea_tui") for path in (ROOT / package).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            code = line.strip()
            if not SAFEGUARDS.search(code.partition("  #")[0]) or code.startswith(("def ", '"', "#")):
                continue
            touched = any(m.path == name and number in lines_of(m, text) for m in MUTATIONS)
            if not touched and code not in EXEMPT.get(name, set()):
                left_out.append(f"{name}:{number}: {code}")
    assert left_out == []


def lines_of(mutation: Mutation, text: str) -> range:
    """Numbers of the lines that the mutation replaces or stands on."""
    start = text.index(mutation.old)
    first = text.count("\n", 0, start) + 1
    return range(first, first + mutation.old.count("\n") + 1)


def test_a_mutation_is_noticed() -> None:
    """One that is quick; and the same test passes when nothing that matters is changed."""
    (mutation,) = [mutation for mutation in MUTATIONS if mutation.title == CHEAP]
    harmless = replace(mutation, new=f"{mutation.old} and True")
    with workbench() as copy:
        before = (copy / mutation.path).read_bytes()
        assert is_killed(copy, mutation)
        assert not is_killed(copy, harmless)
        assert (copy / mutation.path).read_bytes() == before


@pytest.mark.parametrize("code", [2, 4, 5, -9], ids=["interrupted", "no such test", "none was run", "killed"])
def test_tests_that_were_not_run_notice_nothing(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutations, "run_tests", lambda copy, tests, *options: (code, "said"))
    (tmp_path / "p").write_text("b")
    mutation = Mutation("x", "b", "c", ("t",), "p")
    with pytest.raises(RuntimeError, match=f"pytest ended with {code}:"):
        is_killed(tmp_path, mutation)
    with pytest.raises(RuntimeError, match="do not pass without a mutation"):
        check_unmutated(tmp_path, [mutation])
    assert (tmp_path / "p").read_text() == "b"


def test_a_text_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    mutation = Mutation("x", "b", "c", ("t",), "p")
    assert mutation.applied("abd") == "acd"
    for text in ("ad", "abbd"):
        with pytest.raises(ValueError, match="p: x: the text to be replaced"):
            mutation.applied(text)


@pytest.mark.soak
def test_every_mutation_is_noticed() -> None:
    assert survivors(MUTATIONS) == []

"""Rules that the source text itself must keep: handlers, doors, formats and sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("andrea_engine", "andrea_tui")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
EVERYTHING = sorted({*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")})


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call with its dotted name, as written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def _imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything imported; `from a import b` gives both a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_a_signal_handler_does_one_assignment() -> None:
    (latch,) = (n for n in _tree(ROOT / "andrea_engine/latch.py").body if isinstance(n, ast.ClassDef))
    methods = {node.name: node for node in latch.body if isinstance(node, ast.FunctionDef)}
    installed = [call.args[1] for name, call in _calls(methods["arm"]) if name == "signal.signal"]
    assert installed
    for handler in installed:
        assert isinstance(handler, ast.Attribute), "a method of the latch"
        (statement,) = methods[handler.attr].body
        assert isinstance(statement, ast.Assign)
        assert ast.unparse(statement.targets[0]) in {"self.save_asked", "self.stop_asked"}
        assert ast.unparse(statement.value) == "time.time()"


def test_the_handlers_are_armed_by_the_first_statements() -> None:
    first, second, third, fourth, *_ = _tree(ROOT / "andrea_engine/__main__.py").body
    assert isinstance(first, ast.Expr), "the docstring"
    assert ast.unparse(second) == "from __future__ import annotations"
    assert ast.unparse(third) == "from andrea_engine.latch import LATCH"
    assert ast.unparse(fourth) == "LATCH.arm()"
    assert list(_imported(_tree(ROOT / "andrea_engine/__init__.py"))) == []


def test_signals_are_sent_through_one_door() -> None:
    """To a process whose identity was checked, by a handle that cannot mean another one.

    The alarm hook ends its own child and the console's parent passes on to its own what it is sent. Neither has reaped
    the child: that number cannot mean another process either. torchrun's agent passes on to its workers through psutil,
    which looks whether the number is still that of the process it listed.
    """
    sending = {"os.killpg", "signal.pidfd_send_signal", "pidfd_send_signal", "os.tgkill"}
    for path in SOURCES:
        for name, call in _calls(_tree(path)):
            if name == "os.kill" and path.name != "parent.py":
                assert ast.unparse(call.args[1]) == "0", f"{_name(path)}: os.kill may only ask whether a process lives"
            sends = name in sending or name.endswith(".send_signal")
            assert not sends or path.name in {"launch.py", "hooks.py", "agent.py"}, (
                f"{_name(path)} sends a signal by itself: {name}"
            )


def test_samples_are_made_through_one_door() -> None:
    users = {
        _name(path)
        for path in SOURCES
        if "andrea_engine.model.sampling.generate" in set(_imported(_tree(path)))
        or any(name in {"generate", "sampling.generate"} for name, _ in _calls(_tree(path)))
    }
    assert users == {"andrea_engine/train/sample.py"}
    made = [(_name(path), call) for path in SOURCES for name, call in _calls(_tree(path)) if name.endswith("Sample")]
    assert sorted(name for name, _ in made) == ["andrea_engine/run/samples.py", "andrea_engine/train/sample.py"], (
        "what is not read from a file comes out of the door"
    )
    (scored,) = ({word.arg for word in call.keywords} for name, call in made if "train" in name)
    assert {"scores", "metrics_version"} <= scored


def test_nothing_is_read_that_could_run_code() -> None:
    modules = {"pickle", "shelve", "marshal", "dill", "joblib", "cloudpickle"}
    functions = {"torch.load", "torch.save", "eval", "exec", "os.system", "os.popen"}
    for path in SOURCES:
        tree = _tree(path)
        assert not modules & {name.partition(".")[0] for name in _imported(tree)}, _name(path)
        for name, call in _calls(tree):
            assert name not in functions, f"{_name(path)} calls {name}"
            assert not {"shell", "allow_pickle"} & {word.arg for word in call.keywords}, f"{_name(path)}: {name}"


def test_no_file_has_500_lines() -> None:
    lengths = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in EVERYTHING}
    assert {name: length for name, length in lengths.items() if length >= 500} == {}


def test_every_module_says_what_it_is_for() -> None:
    trees = {_name(path): _tree(path) for path in SOURCES}
    assert [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)] == []
    code = {name: tree for name, tree in trees.items() if len(tree.body) > 1 and not name.endswith("__init__.py")}
    assert [name for name, tree in code.items() if "__future__.annotations" not in set(_imported(tree))] == []

"""What a run directory may do to whoever works in it: nothing. Links, permissions, sizes, depths, doors to files."""

from __future__ import annotations

import ast
import json
import os
import shutil
import stat
import subprocess
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from andrea_engine.run.check import check
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.module_command import module_command
from andrea_engine.run.policy import parse_policy
from andrea_engine.run.receipt import read_receipt
from andrea_engine.run.summary import summarise
from tests.run import pivot_support as support
from tests.support import records
from tests.support.inprocess import andrea_engine
from tests.support.tiny import make_run

ROOT = Path(__file__).resolve().parents[2]
SECRET = "what-nobody-may-see"
PATHS = sorted(
    name
    for name, member in vars(RunDirectory).items()
    if isinstance(member, property) and name not in {"name", "archive", "tokens"}
)


def names() -> list[str]:
    """Every file of a run, a checkpoint among them; the folders have a test of their own."""
    directory = RunDirectory(Path("run"))
    return sorted([getattr(directory, name).name for name in PATHS] + ["step_000040.bin"])


def test_every_path_of_a_run_is_tried() -> None:
    assert len(names()) == 14
    assert {".loss.json", "events.jsonl", "run.toml", "engine.lock", "pivot.json"} <= set(names())


# -- links -----------------------------------------------------------------------------------------------------------


def _snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = (path.read_bytes(), path.stat().st_mtime_ns)
    return found


COMMANDS = (
    ("status", "RUN", "--json"),
    ("check", "RUN", "--deep", "--json"),
    ("inspect", "RUN", "--json"),
    ("repair", "RUN", "--deep", "--yes"),
    ("fork", "RUN", "FORK", "--at", "30"),
    ("pivot", "RUN", "--policy", "POLICY", "--at", "now", "--no-restart"),
    ("rollback", "RUN", "--to", "30"),
    ("train", "RUN", "--steps", "42"),
)


def _every_command(run: Path, place: Path) -> str:
    """What all commands print, one after the other on the same run; how each ends is its own affair."""
    policy = place / "policy.toml"
    policy.write_text("[floors]\nharbour = 0.5\n")
    words = {"RUN": str(run), "FORK": str(place / "fork"), "POLICY": str(policy)}
    output = []
    for command in COMMANDS:
        result = andrea_engine(*(words.get(word, word) for word in command))
        assert "Traceback" not in result.err
        output += [result.out, result.err]
    return "".join(output)


@pytest.mark.parametrize("name", names())
def test_a_link_out_of_the_run_is_never_followed(run_copy: RunDirectory, tmp_path: Path, name: str) -> None:
    """A link to a good file of its kind, which would be tempting. It is neither read nor written, moved nor removed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    path = run_copy.path / name
    decoy = outside / name
    if path.exists():
        path.rename(decoy)
    else:
        decoy.write_text("{}\n")
    if name in {".samples.json", "events.jsonl", "engine.json", "engine.log", "run.lock.json"}:
        _plant(decoy)
    path.symlink_to(decoy)
    before = _snapshot(outside)
    output = _every_command(run_copy.path, tmp_path)
    assert _snapshot(outside) == before
    assert SECRET not in output
    inside = [path for folder in (run_copy.path, tmp_path / "fork") for path in folder.rglob("*")]
    assert not any(SECRET.encode() in path.read_bytes() for path in inside if path.is_file() and not path.is_symlink())


def _plant(path: Path) -> None:
    """The secret in a place where the file's readers would show it, or copy it on."""
    if path.name == ".samples.json":
        path.write_text(json.dumps([{"step": 40, "text": SECRET}]))
    elif path.name == "events.jsonl":
        path.write_text(json.dumps({"time": 1, "kind": "notice", "session": 1, "text": SECRET}) + "\n")
    elif path.name in {"engine.json", "run.lock.json"}:
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"note": SECRET, "unavailable": {"harbour": SECRET}}))
    else:
        path.write_text(SECRET + "\n")


@pytest.mark.parametrize("name", ["archive", "tokens"])
def test_a_folder_that_leads_elsewhere_is_neither_read_nor_written(
    run_copy: RunDirectory, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    if (run_copy.path / name).exists():
        shutil.move(run_copy.path / name, outside / name)
    else:
        archive = outside / name / "pivot-0001-step-000040"
        archive.mkdir(parents=True)
        (archive / "receipt.json").write_text(SECRET)
        (archive / ".a.999999999.1.tmp").write_text(SECRET)
    (run_copy.path / name).symlink_to(outside / name)
    before = _snapshot(outside)
    assert SECRET not in _every_command(run_copy.path, tmp_path)
    assert _snapshot(outside) == before


def test_links_inside_a_pivots_archive(tmp_path: Path) -> None:
    """A half-done pivot whose archive was given links: they are neither written through nor overwritten."""
    run = support.build(tmp_path / "run")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("policy.toml", "receipt.json", ".samples.json"):
        (outside / name).write_text("mine")
    archive = run.archive / "pivot-0001-step-000040"
    archive.mkdir(parents=True)
    for name in ("policy.toml", "receipt.json", ".samples.json"):
        (archive / name).symlink_to(outside / name)
    before = _snapshot(outside)
    support.pending(run)
    andrea_engine("pivot", run.path)
    andrea_engine("repair", run.path, "--yes")
    assert _snapshot(outside) == before
    assert run.samples.exists()


# -- permissions -----------------------------------------------------------------------------------------------------


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o077, 0o027])
def test_every_file_has_the_users_permissions(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        run = make_run(tmp_path / "run")
        assert andrea_engine("train", run.path, "--steps", 21).code == 0
        policy = tmp_path / "policy.toml"
        policy.write_text("[floors]\nharbour = 0.5\n")
        assert andrea_engine("pivot", run.path, "--policy", policy, "--at", "now", "--no-restart").code == 0
        assert andrea_engine("rollback", run.path, "--to", 10).code == 0
        run.state.write_text("no state")
        assert andrea_engine("repair", run.path, "--yes").code == 0
        assert andrea_engine("fork", run.path, tmp_path / "fork", "--at", 10).code == 0
    everything = [path for folder in (run.path, tmp_path / "fork") for path in (folder, *folder.rglob("*"))]
    assert len(everything) > 30
    for path in everything:
        expected = (0o777 if path.is_dir() else 0o666) & ~mask
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


# -- sizes and depths ------------------------------------------------------------------------------------------------

GIGABYTE = 1 << 30
STREAMED = 1 << 28  # bytes of the files that are read piece by piece, whatever their length
MEMORY = 64 * 1024 * 1024
BEGINNINGS = [b"", b"[\n{", b'{"time":1']
DEEP = b"[" * 200_000 + b"]" * 200_000
DEEPER = b'{"a":' * 200_000 + b"1" + b"}" * 200_000


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return support.build(tmp_path / "run")


@pytest.mark.parametrize("name", [name for name in names() if name not in {"engine.lock", "engine.log"}])
def test_a_gigabyte_costs_neither_memory_nor_an_exception(run: RunDirectory, name: str) -> None:
    """A sparse file, as anyone may make it for nothing; under three beginnings that choose different readers."""
    streamed = name in {".loss.json", ".loss.journal.jsonl", "events.jsonl"}
    for beginning in BEGINNINGS if streamed else BEGINNINGS[:1]:
        path = run.path / name
        path.write_bytes(beginning)
        os.truncate(path, STREAMED if streamed else GIGABYTE)
        tracemalloc.start()
        report = check(run)
        summarise(run)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY
        assert any(f.severity in {"problem", "warning", "note"} and f.path == name for f in report.findings)


@pytest.mark.parametrize("data", [DEEP, DEEPER])
@pytest.mark.parametrize("name", [name for name in names() if not name.endswith((".bin", ".log", ".lock"))])
def test_depth_is_no_exception(run: RunDirectory, name: str, data: bytes) -> None:
    (run.path / name).write_bytes(data)
    report = check(run)
    assert any(f.severity in {"problem", "warning", "note"} and f.path == name for f in report.findings)
    summarise(run)
    andrea_engine("repair", run.path, "--yes")


def test_depth_in_receipts_and_policies(run: RunDirectory) -> None:
    archive = run.archive / "pivot-0001-step-000040"
    archive.mkdir(parents=True)
    (archive / "receipt.json").write_bytes(DEEPER)
    assert f"archive/{archive.name}" in {finding.path for finding in check(run).problems()}
    with pytest.raises(Exception, match="cannot be read as a receipt"):
        read_receipt(archive / "receipt.json")
    with pytest.raises(Exception, match="not valid TOML"):
        parse_policy(f"a = {'[' * 50_000}", "here")


def test_a_digit_bomb_in_every_record(run: RunDirectory) -> None:
    bomb = b'{"step":' + b"9" * 100_000 + b',"time":1e999,"kind":"x"}\n'
    for name in (".loss.json", ".loss.journal.jsonl", "events.jsonl", ".samples.json", ".state.json"):
        (run.path / name).write_bytes(bomb)
    check(run)
    summarise(run)


# -- doors -----------------------------------------------------------------------------------------------------------

OPENING = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "copyfile", "copy", "copytree", "memmap"}
ALLOWED = {
    "run/io.py": {"open", "fdopen"},  # the door itself, with O_NOFOLLOW
    "run/process.py": {"read_text"},  # /proc
    "run/config.py": {"read_text"},  # the shipped presets
    "run/branching.py": {"copyfile"},  # of a checkpoint that was validated, and tokens that are no links
}


def test_the_run_package_opens_files_through_one_door() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "andrea_engine/run").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                if name in OPENING:
                    found.setdefault(f"run/{path.name}", set()).add(name)
    assert {
        name: calls - ALLOWED.get(name, set()) for name, calls in found.items() if calls - ALLOWED.get(name, set())
    } == {}


def test_whatever_is_created_is_opened_without_following_a_link() -> None:
    """`os.open` with O_CREAT stands beside O_NOFOLLOW, or in `open_regular`, which adds it."""
    for package in ("andrea_engine", "andrea_tui"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and any(ast.unparse(c.func) == "os.open" for c in _calls(node)):
                    source = ast.unparse(node)
                    assert "O_CREAT" not in source or "O_NOFOLLOW" in source, f"{path.name}: {node.name}"


FORBIDDEN = {
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "pty.spawn"),
    *("asyncio.create_subprocess_shell", "eval", "exec", "compile", "__import__"),
    *("torch.load", "pickle.load", "pickle.loads", "marshal.loads", "np.load", "yaml.load"),
}


def test_no_command_line_is_ever_put_together_for_a_shell() -> None:
    for package in ("andrea_engine", "andrea_tui", "benchmarks"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for call in _calls(ast.parse(path.read_text(encoding="utf-8"))):
                name = ast.unparse(call.func)
                unsafe = name in FORBIDDEN and not (package == "benchmarks" and name == "torch.load")
                assert not unsafe, f"{path.relative_to(ROOT)} calls {name}"
                if name.startswith("subprocess.") and call.args:
                    assert not isinstance(call.args[0], (ast.JoinedStr, ast.Constant)), (
                        f"{path.name}: a list, no string"
                    )


def test_no_process_of_ours_looks_for_its_modules_in_the_working_directory() -> None:
    for package in ("andrea_engine", "andrea_tui"):
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            words = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "-m"]
            told = path.name in ("module_command.py", "agent.py")  # the one place, and torchrun's own option
            assert told or not words, f"{path.relative_to(ROOT)}: use module_command"


def test_a_module_that_lies_in_a_run_is_never_executed(run: RunDirectory) -> None:
    planted = "from pathlib import Path\nPath(__file__).with_name('PLANTED').touch()\n"
    for name in ("contextlib", "msgspec", "andrea_engine", "andrea_tui", "torch"):
        (run.path / f"{name}.py").write_text(planted)
    for module, arguments in (
        ("andrea_tui.feed.record_process", (run.loss,)),
        ("andrea_engine", ("status", run.path)),
    ):
        done = subprocess.run(module_command(module, *arguments), cwd=run.path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert not (run.path / "PLANTED").exists()


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_checkpoints_of_hostile_names_are_no_checkpoints(tmp_path: Path) -> None:
    run = support.build(tmp_path / "run")
    for name in ("step_000050.bin\n", "step_000050.bin ", "step_+00050.bin", "step_٠٠٠٠٥٠.bin", "step_0000000050.bin"):
        (run.path / name).write_bytes((run.path / "step_000040.bin").read_bytes())
    assert records.checkpoints(run)
    assert summarise(run).checkpoints[0].step == 40

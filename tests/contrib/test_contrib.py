"""What is offered for supervisors: true to the exit codes, and tried as far as that goes without them."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from andrea_engine.cli import COMMANDS, build_parser
from andrea_engine.run.config import preset_names
from andrea_engine.run.errors import ExitCode
from tests.support import records
from tests.support.engines import wait_until
from tests.support.tiny import RARELY, make_run

ROOT = Path(__file__).resolve().parents[2]
CONTRIB = ROOT / "contrib"
ENGINE = (sys.executable, "-m", "andrea_engine")
PATIENCE = 300  # seconds, in every one of the files
NEEDS_A_PERSON = {
    ExitCode.USAGE,
    ExitCode.SAVE_FAILED,
    ExitCode.LOCKED,
    ExitCode.NO_CHECKPOINT,
    ExitCode.HALTED,
}


# -- systemd -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None, comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((CONTRIB / "andrea@.service").read_text())
    return parser


def test_the_unit_stops_with_a_save_and_never_restarts_what_needs_a_person(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert (service["KillMode"], service["KillSignal"]) == ("mixed", "SIGTERM")
    assert int(service["TimeoutStopSec"]) == PATIENCE
    assert service["Restart"] == "on-failure"
    prevented = {ExitCode(int(word)) for word in service["RestartPreventExitStatus"].split()}
    assert prevented == NEEDS_A_PERSON
    assert (unit["Unit"]["StartLimitBurst"], unit["Unit"]["StartLimitIntervalSec"]) == ("3", "600")


def test_the_unit_computes_its_timeout(unit: configparser.ConfigParser) -> None:
    text = (CONTRIB / "andrea@.service").read_text()
    assert "slowest step + 1.5 x the slowest save + 5 s" in text
    assert 10 + 1.5 * 24 + 5 == 51
    assert 51 + 120 == 171 < int(unit["Service"]["TimeoutStopSec"])
    assert round(1_184_385_032 / 50e6) == 24


def test_the_units_command_is_one_of_ours(unit: configparser.ConfigParser) -> None:
    program, *words = unit["Service"]["ExecStart"].split()
    assert program.endswith("/andrea-engine")
    assert words == ["train", "%h/runs/%i"]
    assert unit["Service"]["StandardOutput"] == "append:%h/runs/%i/engine.log", "where the console looks for it"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = (CONTRIB / "andrea@.service").read_text().replace("%h/.local/bin/andrea-engine", "/bin/true")
    path = tmp_path / "andrea@demo.service"
    path.write_text(text)
    result = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    complaints = [line for line in result.stderr.splitlines() if path.name in line]
    assert (result.returncode, complaints) == (0, [])


# -- Slurm ---------------------------------------------------------------------------------------------------------

SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
SCONTROL = """#!/bin/bash
[ "$1" = show ] && { printf 'north\\nsouth\\n'; exit; }
echo "$@" >> "$PLACE/scontrol"
"""
STATUS = """#!/bin/bash
echo "{\\"exit_code\\": $(cat "$PLACE/status")}"
"""
# Tells what it got, and after SIGTERM takes its time over the save, as long as the file `slow` is there.
STAND_IN = """#!/bin/bash
trap 'echo USR1 >> "$PLACE/signals"' USR1
trap 'echo TERM >> "$PLACE/signals"; ending=1' TERM
echo "$@" >> "$PLACE/started"
read -r code < "$PLACE/code"
[ "$code" = wait ] || { echo 0 > "$PLACE/code"; exit "$code"; }
while [ -z "$ending" ] || [ -e "$PLACE/slow" ]; do sleep 0.02; done
echo saved >> "$PLACE/signals"
exit 0
"""


class Job:
    """The batch script under bash, with stand-ins for what Slurm brings."""

    def __init__(self, place: Path, *, engine: str = STAND_IN, run: Path = Path("runs/x")) -> None:
        self.place = place
        programs = place / "bin"
        programs.mkdir(parents=True)
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL), ("andrea-engine", engine)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.write("code", "wait")
        self._run = run
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **slurm: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            **slurm,
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
            "PLACE": str(self.place),
            "SLURM_JOB_ID": "4711",
            "OMP_NUM_THREADS": "1",
        }
        command = ["bash", str(CONTRIB / "slurm.sbatch"), str(self._run)]
        self._process = subprocess.Popen(command, env=environment, start_new_session=True, cwd=ROOT)
        return self._process

    def write(self, name: str, text: str) -> None:
        (self.place / name).write_text(text + "\n")

    def lines(self, name: str) -> list[str]:
        path = self.place / name
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, name: str, count: int = 1) -> None:
        wait_until(lambda: len(self.lines(name)) >= count, f"{count} line(s) in {name}")

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path / "job")
    yield made
    made.end()


def options() -> dict[str, str]:
    found = re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", (CONTRIB / "slurm.sbatch").read_text(), re.M)
    return dict(found)


def test_the_time_limit_rings_the_batch_shell_early_enough() -> None:
    assert options()["signal"] == f"B:USR1@{PATIENCE}"
    assert "requeue" in options()
    assert options()["open-mode"] == "append"
    text = (CONTRIB / "slurm.sbatch").read_text()
    first_command = text.index("\nrun=")
    assert text.rindex("#SBATCH") < first_command, "Slurm reads no option behind the first command"
    assert subprocess.run(["bash", "-n", str(CONTRIB / "slurm.sbatch")], check=False).returncode == 0


def test_at_the_time_limit_the_engine_saves_and_a_new_job_goes_on(job: Job) -> None:
    (job.place / "slow").touch()
    shell = job.start()
    job.wait_for("started")
    shell.send_signal(signal.SIGUSR1)
    job.wait_for("signals")
    shell.send_signal(signal.SIGUSR1)
    job.wait_for("signals", 2)
    assert shell.poll() is None, "the shell waits for the save to its end"
    (job.place / "slow").unlink()
    assert shell.wait(20) == 0
    assert job.lines("signals") == ["TERM", "TERM", "saved"]
    assert job.lines("scontrol") == ["requeue 4711"]
    assert job.lines("started") == ["train runs/x"]


def test_who_ends_the_job_gets_a_save_and_no_new_job(job: Job) -> None:
    shell = job.start()
    job.wait_for("started")
    shell.send_signal(signal.SIGTERM)
    assert shell.wait(20) == 0
    assert job.lines("signals") == ["TERM", "saved"]
    assert job.lines("scontrol") == []


@pytest.mark.parametrize("code", sorted(set(ExitCode) - {ExitCode.PIVOT}))
def test_the_exit_code_is_the_engines(job: Job, code: ExitCode) -> None:
    job.write("code", str(int(code)))
    assert job.start().wait(20) == code
    assert job.lines("scontrol") == []
    assert len(job.lines("started")) == 1


def test_after_a_pivot_the_engine_starts_again(job: Job) -> None:
    job.write("code", "7")
    assert job.start().wait(20) == 0
    assert job.lines("started") == ["train runs/x"] * 2


def test_several_gpus_of_a_node_get_a_process_each(job: Job) -> None:
    job.write("code", "0")
    assert job.start(SLURM_GPUS_ON_NODE="4").wait(20) == 0
    assert job.lines("started") == ["train runs/x --nproc 4"]


@pytest.mark.parametrize("code", ["null", "0", "6", "7"])
def test_several_nodes_run_torchrun_and_the_run_tells_how_it_ended(job: Job, code: str) -> None:
    """Its own exit code is 1 for every one of them that is not 0."""
    (job.place / "bin" / "andrea-engine").rename(job.place / "bin" / "torchrun")
    (job.place / "bin" / "andrea-engine").write_text(STATUS)
    (job.place / "bin" / "andrea-engine").chmod(0o755)
    job.write("code", "1")
    job.write("status", code)
    nodes = {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "north,south", "SLURM_NODEID": "1"}
    shell = job.start(**nodes, SLURM_GPUS_ON_NODE="8")
    if code == "7":  # a pivot: it is started again, and ends for good
        job.wait_for("started", 2)
        job.write("status", "0")
    assert shell.wait(20) == (0 if code in ("null", "7") else int(code))
    words = job.lines("started")[0].split()
    assert words[-4:] == ["-m", "andrea_engine", "train", "runs/x"]
    options = get_args_parser().parse_args(words)
    assert (options.node_rank, options.nnodes, options.nproc_per_node) == (1, "2", "8")
    assert (options.master_addr, options.master_port) == ("north", 29500)
    assert options.shutdown_timeout == PATIENCE


def test_without_a_run_it_says_how_it_is_used(job: Job) -> None:
    result = subprocess.run(["bash", str(CONTRIB / "slurm.sbatch")], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "usage: sbatch" in result.stderr


def test_the_real_engine_under_the_batch_script(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", RARELY)
    job = Job(tmp_path / "job", engine=f'#!/bin/bash\nexec {shlex.join(ENGINE)} "$@"\n', run=directory.path)
    try:
        shell = job.start()
        wait_until(lambda: records.events(directory, "phase", phase="training"), "training")
        wait_until(lambda: directory.journal.stat().st_size > 0, "a step")
        shell.send_signal(signal.SIGUSR1)
        assert shell.wait(60) == 0
    finally:
        job.end()
    assert len(records.checkpoints(directory)) == 1
    assert job.lines("scontrol") == ["requeue 4711"]
    assert records.events(directory, "stop")[-1].facts["exit_code"] == 0


# -- SkyPilot and containers ---------------------------------------------------------------------------------------


def test_the_task_starts_with_commands_that_exist() -> None:
    yaml = pytest.importorskip("yaml")
    task = yaml.safe_load((CONTRIB / "skypilot.yaml").read_text())
    assert set(task) == {"name", "resources", "envs", "workdir", "setup", "run"}
    assert task["envs"]["PRESET"] in preset_names()
    assert "-c constraints.txt" in task["setup"]
    assert (ROOT / "constraints.txt").exists()
    lines = task["run"].strip().splitlines()
    assert lines[-1].startswith("exec ~/andrea/bin/andrea-engine train "), "a signal must reach the engine"
    assert subprocess.run(["bash", "-n"], input=task["setup"] + task["run"], text=True, check=False).returncode == 0


def test_every_command_that_is_named_exists() -> None:
    parser = build_parser()
    for path in CONTRIB.iterdir():
        for words in re.findall(r"andrea-engine +([a-z]+) ", path.read_text()):
            assert words in {*COMMANDS, "in"}, f"{path.name}: andrea-engine {words}"
    assert parser.parse_args(["pivot", "x", "--policy", "y", "--no-restart"]).no_restart


def test_every_patience_is_the_same() -> None:
    text = (CONTRIB / "container.md").read_text()
    seconds = re.findall(r"(?:stop-timeout |--time |GracePeriodSeconds: |grace_period: )(\d+)", text)
    assert set(map(int, seconds)) == {PATIENCE}
    assert len(seconds) == 4


def _as_process_1(*words: str) -> list[str]:
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *words]


def _may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(_as_process_1("true"), capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _may_unshare(), reason="a process namespace of its own needs rights")
def test_as_process_number_1_the_engine_saves_and_exits(tmp_path: Path) -> None:
    """No default action of a signal is there for process 1: only what has a handler works."""
    directory = make_run(tmp_path / "run", RARELY)
    command = _as_process_1(*ENGINE, "train", str(directory.path))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    outer = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT)
    try:
        wait_until(lambda: records.events(directory, "phase", phase="training"), "training")
        assert records.events(directory, "start")[0].integer("pid") == 1
        inner = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        os.kill(inner, signal.SIGUSR1)
        wait_until(lambda: records.events(directory, "save_durable", reason="operator"), "the save")
        os.kill(inner, signal.SIGTERM)
        assert outer.wait(60) == 0
    finally:
        outer.kill()
        outer.wait()
    assert records.events(directory, "stop")[-1].facts["exit_code"] == 0

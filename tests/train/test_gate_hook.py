"""The operator's alarm command: a real script, told the facts, that can neither delay nor harm the engine."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from andrea_engine.run.config import parse_config
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.process import is_alive
from andrea_engine.train.hooks import AlarmHook
from tests.support import records
from tests.support.engines import Engines
from tests.support.gates import COLLAPSED
from tests.support.inprocess import andrea_engine
from tests.support.tiny import make_run

# One line a call: the facts that are asked for, separated by `|`.
TELL = 'echo "$ANDREA_KIND|$ANDREA_STEP|$ANDREA_SCORE|$ANDREA_AXIS|$ANDREA_MISSED|$ANDREA_MESSAGE" >> "$1"\n'


class Told:
    """A script that appends to `out`, its hook, and the notices."""

    def __init__(self, folder: Path, script: str = TELL, limit: float = 60.0) -> None:
        self.out = folder / "out"
        self.script = folder / "tell.sh"
        self.script.write_text(script)
        self.notices: list[str] = []
        command = ["/bin/sh", str(self.script), str(self.out)]
        self.hook = AlarmHook(command, folder / "run", self.notices.append, limit)

    def lines(self) -> list[str]:
        """What was told, after the hook has ended."""
        self.hook.close()
        return self.out.read_text().splitlines() if self.out.exists() else []


def test_the_engine_runs_it_with_the_facts(engines: Engines, tmp_path: Path) -> None:
    out, script = tmp_path / "out", tmp_path / "tell.sh"
    script.write_text(TELL + 'echo "$ANDREA_RUN" >> "$1"\necho "told about $ANDREA_KIND"\nexit 3\n')
    directory = make_run(tmp_path / "run", {**COLLAPSED, "on_alarm": ["/bin/sh", str(script), str(out)]})
    engine = engines.launch(directory)
    assert engine.wait() == 6
    total = records.events(directory, "sample", step=50)[0].number("total")
    first, second = (line.split("|") for line in out.read_text().splitlines() if "|" in line)
    assert first[:5] == ["collapse", "50", str(total), "", "0"]
    assert first[5] == "5 samples in a row below 100 since step 10; no sample passed yet"
    assert second[:5] == ["halt", "50", str(total), "", "0"]
    assert second[5] == "halted by the coherence gate at step 50: 5 samples in a row below 100"
    assert out.read_text().splitlines().count(str(directory.path)) == 2
    assert "told about halt" in engine.output, "its output stands in the engine's log"
    assert records.notices(directory).count("the alarm command /bin/sh ended with exit code 3") == 2


def test_a_run_without_alarms_never_calls(tmp_path: Path) -> None:
    out = tmp_path / "out"
    directory = make_run(tmp_path / "run", {"on_alarm": ["touch", str(out)]})
    assert andrea_engine("train", directory.path, "--steps", 20).code == 0
    assert not out.exists()


@pytest.mark.parametrize(
    ("kind", "facts", "line"),
    [
        ("gate", {"step": 7, "alarm": "axis", "axis": "english", "text": "weak"}, "axis|7|31.5|english|0|weak"),
        ("gate", {"step": 7, "alarm": "window", "axis": None, "text": "13 of 20"}, "window|7|31.5||0|13 of 20"),
        ("gate", {"step": 7, "alarm": "recovered", "text": "good again"}, None),
        ("halt", {"step": 8, "reason": "five low ones"}, "halt|8|31.5||0|five low ones"),
        ("save_failed", {"step": 9, "error": "disk full"}, "save_failed|9|31.5||0|disk full"),
        ("nonfinite", {"step": 4}, "nonfinite|4|31.5||0|the loss or gradient of step 4 is not finite"),
        ("save_durable", {"step": 9}, None),
        ("notice", {"text": "hello"}, None),
        ("halt", {"step": None, "reason": "$(touch x) `id`; \x00\x1b[31m"}, "halt||31.5||0|$(touch x) `id`; ␀␛[31m"),
    ],
)
def test_which_events_are_alarms(tmp_path: Path, kind: str, facts: dict[str, object], line: str | None) -> None:
    told = Told(tmp_path)
    told.hook.observe("sample", {"step": 7, "total": 31.5})
    told.hook.observe(kind, facts)
    assert told.lines() == ([] if line is None else [line])
    assert told.notices == []


def test_one_runs_one_waits_and_the_caller_never_does(tmp_path: Path) -> None:
    """The first call blocks until somebody reads from a pipe; meanwhile four alarms come, and the newest waits."""
    gate = tmp_path / "pipe"
    os.mkfifo(gate)
    told = Told(tmp_path, TELL + f'[ "$ANDREA_KIND" = collapse ] && cat "{gate}"\ntrue\n')
    told.hook.observe("gate", {"step": 1, "alarm": "collapse", "text": "a"})
    with gate.open("wb"):  # opens as soon as the first command reads: it is under way
        for step in (2, 3, 4):
            told.hook.observe("gate", {"step": step, "alarm": "window", "text": "b"})
        told.hook.observe("halt", {"step": 5, "reason": "c"})
    assert told.lines() == ["collapse|1|||0|a", "halt|5|||3|c"]
    told.hook.observe("halt", {"step": 6, "reason": "after the end"})
    assert len(told.lines()) == 2


def test_what_comes_with_every_step_is_told_once_in_a_while(tmp_path: Path) -> None:
    told = Told(tmp_path)
    for step in (1, 2, 3):
        told.hook.observe("nonfinite", {"step": step})
    told.hook.observe("halt", {"step": 3, "reason": "three in a row"})
    kinds = [line.split("|")[:2] for line in told.lines()]
    assert kinds[-1] == ["halt", "3"]
    assert kinds.count(["nonfinite", "2"]) == kinds.count(["nonfinite", "3"]) == 0


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    told = Told(tmp_path, 'sleep 600 &\necho $! > "$1"\nwait\n', limit=1.0)
    told.hook.observe("halt", {"step": 1, "reason": "a"})
    for pid in map(int, told.lines()):
        deadline = time.monotonic() + 30
        while is_alive(pid):
            assert time.monotonic() < deadline
    assert told.notices == ["the alarm command /bin/sh did not end within 1 s and was killed"]


def test_a_command_that_does_not_exist_is_a_notice(tmp_path: Path) -> None:
    notices: list[str] = []
    hook = AlarmHook([str(tmp_path / "none")], tmp_path, notices.append)
    hook.observe("halt", {"step": 1, "reason": "a"})
    hook.close()
    assert notices == [f"the alarm command {tmp_path / 'none'} could not be started: No such file or directory"]


def test_it_has_no_input_and_a_session_of_its_own(tmp_path: Path) -> None:
    report = "import os, sys; print(sys.stdin.read() == '', os.getsid(0) == os.getpid(), file=open(sys.argv[1], 'w'))"
    hook = AlarmHook([sys.executable, "-c", report, str(tmp_path / "out")], tmp_path, lambda text: None)
    hook.observe("halt", {"step": 1, "reason": "a"})
    hook.close()
    assert (tmp_path / "out").read_text() == "True True\n"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ('"notify me"', 'on_alarm must be a list of words, as ["notify", "me"], not one string: no shell reads'),
        ('["", "me"]', "on_alarm must begin with the name of a program"),
        ('["a\\u0000b"]', "on_alarm must begin with the name of a program and hold no NUL character"),
        ("[3]", "on_alarm[0]: expected `str`, got `int`"),
    ],
)
def test_what_is_no_command_is_refused_in_one_sentence(command: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(f"on_alarm = {command}\n", "run.toml")
    assert str(caught.value).startswith(f"run.toml: {sentence}")
    assert "\n" not in str(caught.value)


def test_control_characters_of_a_message_do_not_reach_the_command(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.hook.observe("halt", {"step": 50, "reason": "\x1b[2J \x00 \x9b31m \u202e end"})
    (line,) = told.lines()
    assert line.split("|")[-1] == "␛[2J ␀ <U+009B>31m <U+202E> end"
    assert told.notices == []

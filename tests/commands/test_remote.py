"""`andrea-tui ssh://host/path`: what is asked of `ssh`, and what the shell on the other side makes of it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_tui.remote import RemoteRun, parse
from tests.support.tiny import make_run

FAKE_SSH = """#!/bin/sh
printf '%s\\n' "$#" "$@" > "$SSH_LOG"
for last; do :; done
cd "$REMOTE_HOME" && exec /bin/sh -c "$last"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `ssh` that runs the command on this machine, in a home of its own; the value is what it notes down."""
    binaries, home = tmp_path / "bin", tmp_path / "home of me"
    binaries.mkdir()
    home.mkdir()
    (binaries / "ssh").write_text(FAKE_SSH)
    (binaries / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("REMOTE_HOME", str(home))
    monkeypatch.setenv("SSH_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def console(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "andrea_tui", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_facts_of_a_run_there_are_those_that_are_printed_there(ssh: Path, tmp_path: Path) -> None:
    directory = make_run(tmp_path / "home of me" / "my runs" / "a'b;c")
    there = f"{shlex.quote(sys.executable)} -m andrea_tui"
    # The program there is found as it is here.
    found = console(
        "ssh://me@[::1]:2222/~/my runs/a'b;c", "--once", "--remote-command", f"PYTHONPATH={_root()} {there}"
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.replace("my runs", str(directory.path.parent)) == console(directory.path, "--once").stdout
    asked = ssh.read_text().splitlines()
    assert asked[1:-1] == ["-p", "2222", "--", "me@::1"]


def _root() -> str:
    return shlex.quote(str(Path(__file__).parents[2]))


def test_its_exit_code_is_the_one_of_the_console_there(ssh: Path, tmp_path: Path) -> None:
    assert console("ssh://host/nowhere", "--remote-command", "exit 3;").returncode == 3
    assert ssh.read_text().splitlines() == ["4", "-t", "--", "host", "exit 3; /nowhere"]


def test_options_go_along(ssh: Path) -> None:
    console("ssh://host/runs/a b", "--watch", "--ascii", "--compare", "/runs/c d", "--remote-command=echo")
    assert ssh.read_text().splitlines()[-1] == "echo '/runs/a b' --watch --ascii --compare '/runs/c d'"


@pytest.mark.parametrize(
    "address",
    [
        "ssh://",
        "ssh://host",
        "ssh://host/",
        "ssh:///path",
        "ssh://-oProxyCommand=x/p",
        "ssh://a@-x/p",
        "ssh://a b/p",
        "ssh://-l@host/p",
        "ssh://host:0/p",
        "ssh://host:65536/p",
        "ssh://host:22x/p",
        "ssh://h\x1b[2J/p",
    ],
)
def test_what_is_no_address_is_one_sentence(address: str, ssh: Path) -> None:
    with pytest.raises(ConfigError, match="is no address of a run; write ssh://"):
        parse(address)
    refused = console(address, "--once")
    assert (refused.returncode, refused.stdout) == (ExitCode.USAGE, "")
    assert refused.stderr.count("\n") == 1
    assert "\x1b" not in refused.stderr
    assert not ssh.exists()


def test_without_ssh_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = console("ssh://host/path")
    assert refused.returncode == ExitCode.USAGE
    assert refused.stderr.startswith("andrea-tui: ssh cannot be started (No such file or directory); install")


@pytest.mark.parametrize("arguments", [("ssh://host/p", "--serve"), (".", "--remote-command", "x")])
def test_options_that_belong_elsewhere_are_refused(arguments: tuple[str, ...], ssh: Path) -> None:
    assert console(*arguments).returncode == ExitCode.USAGE
    assert not ssh.exists()


@given(st.text(st.characters(blacklist_characters="\0\n", blacklist_categories=("Cs",)), min_size=1))
def test_the_shell_there_gets_the_very_path(path: str) -> None:
    run = RemoteRun("host", None, path)
    (word,) = shlex.split(run.shell_path)
    inside = path.removeprefix("~/")
    expected = f"/{path}" if inside == path else inside or "."
    assert os.path.normpath(word) == os.path.normpath(expected)
    assert not word.startswith("-")

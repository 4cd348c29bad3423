"""`--serve`: what is handed to textual-serve, who may connect, and the console that a page gets."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pyte
import pytest

from andrea_engine.run.errors import ExitCode
from andrea_tui import cli, serve
from tests.e2e.terminal import ENVIRONMENT, PATIENCE, UNWANTED
from tests.screens.situations import situation


class StandIn:
    """textual-serve's server, which notes what it was made with."""

    made: list[dict[str, Any]]
    error: OSError | None = None

    def __init__(self, command: str, host: str = "localhost", port: int = 8000, title: str | None = None) -> None:
        self.command, self.host, self.port, self.title = command, host, port, title
        type(self).made.append({"command": shlex.split(command), "host": host, "port": port, "title": title})

    def serve(self) -> None:
        if self.error is not None:
            raise self.error
        self.made[-1]["served"] = True

    async def handle_websocket(self, request: Any) -> str:
        return "connected"


class TurnedAwayError(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    """In the place of textual-serve and of what it brings along."""
    kind = type("Recorded", (StandIn,), {"made": []})
    for name, contents in (
        ("textual_serve.server", {"Server": kind}),
        ("aiohttp.web", {"HTTPForbidden": TurnedAwayError}),
    ):
        package, module = types.ModuleType(name.partition(".")[0]), types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, package.__name__, package)
        monkeypatch.setitem(sys.modules, name, module)
    return kind


def test_pages_watch_on_this_machine_unless_more_is_asked_for(
    stand_in: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a run; rm -rf [/INST]"
    with situation("stopped", path):
        assert cli.run([str(path), "--serve"]) == ExitCode.OK
        out = capsys.readouterr().out
        command = [sys.executable, "-P", "-m", "andrea_tui", str(path), "--watch"]
        assert stand_in.made == [
            {"command": command, "host": "127.0.0.1", "port": 8000, "title": "ANDREA", "served": True}
        ]
        assert "http://127.0.0.1:8000/" in out
        assert "may only watch" in out
        assert "warning" not in out
        arguments = ["--serve", "--port", "9001", "--host", "192.0.2.7", "--allow-control", "--ascii"]
        assert cli.run([str(path), *arguments]) == ExitCode.OK
        out = capsys.readouterr().out
        assert stand_in.made[1] == {
            "command": [sys.executable, "-P", "-m", "andrea_tui", str(path), "--ascii"],
            "host": "192.0.2.7",
            "port": 9001,
            "title": "ANDREA",
            "served": True,
        }
        assert "warning: there is no password; everybody who reaches 192.0.2.7:9001 can stop or change the run" in out
        assert cli.run([str(path), "--serve", "--replay", "60", "--allow-control"]) == ExitCode.OK
        assert stand_in.made[2]["command"][-2:] == ["--replay", "60.0"]


def test_a_port_that_is_taken_is_said(
    stand_in: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in.error = OSError(98, "Address already in use")
    with situation("stopped", tmp_path / "run"):
        assert cli.run([str(tmp_path / "run"), "--serve", "--port", "8123"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error == "andrea-tui: 127.0.0.1:8123 cannot be opened: Address already in use; try another --port\n"


def test_without_textual_serve_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve", None)  # as if it were not installed
    with situation("stopped", tmp_path / "run"):
        assert cli.run([str(tmp_path / "run"), "--serve"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error == "andrea-tui: --serve needs textual-serve; install it with: pip install 'andrea[serve]'\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--serve", "--start"], "--serve only shows the console"),
        (["--serve", "--json"], "--serve only shows the console"),
        (["--port", "9000"], "belong to --serve"),
        (["--allow-control"], "belong to --serve"),
        (["--serve", "--watch", "--allow-control"], "contradict each other"),
        (["--serve", "--host", "0.0.0.0"], "the address by which browsers reach this machine"),
        (["--serve", "--port", "70000"], "give a port from 1 to 65535"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], words: str, stand_in: type[StandIn], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with situation("stopped", tmp_path / "run"):
        assert cli.run([str(tmp_path / "run"), *arguments]) == ExitCode.USAGE
    assert words in capsys.readouterr().err
    assert stand_in.made == []


@pytest.mark.parametrize(
    ("origin", "asked", "host", "foreign"),
    [
        (None, "127.0.0.1:8000", "127.0.0.1", False),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "127.0.0.1", False),
        ("http://localhost:8000", "localhost:8000", "127.0.0.1", False),
        ("http://192.0.2.7:8000", "192.0.2.7:8000", "192.0.2.7", False),
        ("http://evil.example", "127.0.0.1:8000", "127.0.0.1", True),
        ("http://127.0.0.1:9999", "127.0.0.1:8000", "127.0.0.1", True),
        ("http://evil.example:8000", "evil.example:8000", "127.0.0.1", True),  # its name was made to lead here
        ("null", "127.0.0.1:8000", "127.0.0.1", True),
        ("http://[", "127.0.0.1:8000", "127.0.0.1", True),
    ],
)
async def test_pages_of_other_sites_are_turned_away(
    origin: str | None, asked: str, host: str, foreign: bool, stand_in: type[StandIn]
) -> None:
    assert serve.is_foreign(origin, asked, host) is foreign
    server = serve._guarded(stand_in)("true", host=host)
    headers = {"Host": asked} if origin is None else {"Host": asked, "Origin": origin}
    request = types.SimpleNamespace(headers=headers)
    if foreign:
        with pytest.raises(TurnedAwayError):
            await server.handle_websocket(request)
    else:
        assert await server.handle_websocket(request) == "connected"


class Page:
    """A console started by a shell as textual-serve starts it, and a screen that understands its packets."""

    def __init__(self, command: str, size: tuple[int, int]) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        environment |= ENVIRONMENT | {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}
        environment |= {"COLUMNS": str(size[0]), "ROWS": str(size[1])}
        self.process = subprocess.Popen(
            command, shell=True, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.stdout = self.process.stdout
        self.greeting = self.stdout.readline()
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while header := self.stdout.read(5):
            payload = self.stdout.read(int.from_bytes(header[1:], "big"))
            if header[:1] == b"D":
                with self._lock:
                    self._stream.feed(payload)

    @property
    def text(self) -> str:
        with self._lock:
            return "\n".join(self._screen.display)

    def send(self, kind: bytes, payload: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)
        self.process.stdin.flush()

    def until_shown(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while words not in self.text:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, self.text
            time.sleep(0.01)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()


def test_a_page_gets_a_console_that_only_watches(tmp_path: Path) -> None:
    with situation("training", tmp_path / "run") as directory:
        options = cli.build_parser().parse_args([str(directory.path), "--serve"])
        page = Page(serve.child_command(directory.path, options), (120, 40))
        try:
            assert page.greeting == b"__GANGLION__\n"
            page.until_shown("step 40 of")
            page.send(b"D", b"c")
            page.until_shown("this console only watches (--watch)")
            assert not directory.console.exists()
            page.send(b"M", json.dumps({"type": "quit"}).encode())
            assert page.process.wait(PATIENCE) == 0
        finally:
            page.close()

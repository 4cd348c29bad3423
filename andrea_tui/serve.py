"""The console in a web browser, through textual-serve: one viewer for each page that is opened.

Whoever reaches the port sees the run, without a password: it listens on this machine only, and a page may watch, not
act, unless that is allowed. Pages of other sites are turned away, which a browser would let connect.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.module_command import module_command
from andrea_engine.run.plain import clean

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8000
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104  (recognised, not bound)


def serve(run: Path, options: argparse.Namespace) -> int:
    """Serve until ctrl+c. Raises ConfigError when textual-serve is missing or the port cannot be had."""
    server_class = _server_class()
    host, port = options.host or LOOPBACK, options.port or DEFAULT_PORT
    if host in _EVERYWHERE:
        raise ConfigError("--host needs the address by which browsers reach this machine, not all addresses at once")
    for line in _announcement(run, host, port, control=options.allow_control):
        print(line, flush=True)
    server = _guarded(server_class)(child_command(run, options), host=host, port=port, title="ANDREA")
    try:
        server.serve()
    except OSError as error:
        raise ConfigError(f"{host}:{port} cannot be opened: {error.strerror or error}; try another --port") from error
    return int(ExitCode.OK)


def child_command(run: Path, options: argparse.Namespace) -> str:
    """The shell command of the console behind a page: without `--allow-control` it watches."""
    words: list[object] = [*module_command("andrea_tui", run.absolute())]
    if options.replay is not None:
        words += ["--replay", options.replay]
    elif not options.allow_control:
        words.append("--watch")
    if options.compare is not None:
        words += ["--compare", options.compare.absolute()]
    if options.ascii:
        words.append("--ascii")
    return shlex.join(map(str, words))


def is_foreign(origin: str | None, asked: str, host: str) -> bool:
    """True for a request that a page of another site has made. `origin` and `asked` are its Origin and Host headers;
    no Origin means that no page made it.

    Both have to name the place that is served, so that no other name that was made to lead here passes either.
    """
    if origin is None:
        return False
    names = _LOOPBACK_NAMES if host in _LOOPBACK_NAMES else (host,)
    try:
        return urlsplit(origin).netloc != asked or urlsplit(f"//{asked}").hostname not in names
    except ValueError:
        return True


def _announcement(run: Path, host: str, port: int, *, control: bool) -> Sequence[str]:
    may = "may act on it" if control else "may only watch it"
    lines = [clean(f"{run} is shown at http://{host}:{port}/ ; browsers {may}; ctrl+c ends this, the run goes on")]
    if host not in _LOOPBACK_NAMES:
        what = "stop or change the run" if control else "see the run"
        lines.append(f"warning: there is no password; everybody who reaches {clean(host)}:{port} can {what}")
    return lines


def _server_class() -> Any:
    try:
        return importlib.import_module("textual_serve.server").Server
    except ImportError as error:
        raise ConfigError("--serve needs textual-serve; install it with: pip install 'andrea[serve]'") from error


def _guarded(base: Any) -> Any:
    """textual-serve's server, which lets any page connect and reads its own announcement as markup."""

    class Server(base):  # type: ignore[misc]
        async def on_startup(self, app: object) -> None:
            """Said already."""

        async def handle_websocket(self, request: Any) -> Any:
            if is_foreign(request.headers.get("Origin"), request.headers.get("Host", ""), self.host):
                raise importlib.import_module("aiohttp.web").HTTPForbidden(text="this page belongs to another site")
            return await super().handle_websocket(request)

    return Server

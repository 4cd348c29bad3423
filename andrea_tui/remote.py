"""`andrea-tui ssh://host/path`: the console of a run on another machine, by the console that is installed there.

Nothing of the run is copied: `ssh` carries the screen. Signals, locks and process numbers stay on the machine that they
belong to, and a lost connection is a closed terminal, which never touches the run.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from andrea_engine.run.errors import ConfigError
from andrea_engine.run.plain import clean

# Neither user nor host may begin with a dash: `ssh` would take it for an option.
_PLACE = re.compile(
    r"ssh://(?:(?P<user>[\w.][\w.-]*)@)?(?P<host>[\w.][\w.-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?/(?P<path>.+)",
    re.ASCII,
)


class RemoteRun(msgspec.Struct, frozen=True):
    """A path on another machine. As in git's addresses it is absolute, and `~/` stands for the home directory there."""

    host: str
    port: int | None
    path: str

    @property
    def shell_path(self) -> str:
        """The path as the shell there reads it, in the home directory, where a login begins."""
        inside = self.path.removeprefix("~/")
        if inside == self.path:
            return shlex.quote(f"/{self.path}")
        return shlex.quote(f"./{inside}" if inside.startswith("-") else inside or ".")

    def command(self, program: str, arguments: Sequence[str], *, terminal: bool) -> list[str]:
        """The command line of `ssh`. `program` is for the shell there, and so may have a `~` or options of its own."""
        there = " ".join([program, self.shell_path, *map(shlex.quote, arguments)])
        port = [] if self.port is None else ["-p", str(self.port)]
        return ["ssh", *(["-t"] if terminal else []), *port, "--", self.host, there]


def parse(address: str) -> RemoteRun:
    """Raises ConfigError for what is no address of a run."""
    found = _PLACE.fullmatch(address)
    if found is None or (found["port"] and not 0 < int(found["port"]) < 65536):
        raise ConfigError(
            f"{clean(address)} is no address of a run; write ssh://host/path or ssh://user@host:port/~/path-in-the-home"
        )
    host = found["host"].strip("[]")
    user = f"{found['user']}@" if found["user"] else ""
    return RemoteRun(user + host, int(found["port"]) if found["port"] else None, found["path"])


def connect(run: RemoteRun, program: str, arguments: Sequence[str], *, terminal: bool) -> NoReturn:
    """Become `ssh`, whose exit code is that of the console there. Raises ConfigError where there is no `ssh`."""
    try:
        os.execvp("ssh", run.command(program, arguments, terminal=terminal))  # noqa: S606, S607
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(
            f"ssh cannot be started ({reason}); install an ssh client, or log in there and run {clean(program)}"
        ) from error

"""Notice that the terminal has gone, even where no hang-up signal tells it: the console must not stay and spin."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable

GRACE_SECONDS = 3.0
EXIT_CODE = 128 + int(signal.SIGHUP)


def watch_terminal(descriptor: int, gone: Callable[[], object]) -> None:
    """Call `gone` from a thread when the terminal behind `descriptor` is hung up.

    A process that is then still there after `GRACE_SECONDS` is ended: writing to a dead terminal may block for ever.
    """

    def wait() -> None:
        poller = select.poll()
        poller.register(descriptor, 0)  # hang-ups are reported unasked
        poller.poll()
        gone()
        threading.Event().wait(GRACE_SECONDS)
        os._exit(EXIT_CODE)

    threading.Thread(target=wait, name="hang-up", daemon=True).start()

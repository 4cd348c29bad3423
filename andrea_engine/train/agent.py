"""torchrun on this machine, as `train --nproc` uses it: `python -m andrea_engine.train.agent N RUN [ARGUMENT ...]`.

It differs from plain torchrun in what people meet: SIGUSR1 goes on to the workers instead of ending it, a worker's
failure is one sentence instead of a report, and the exit code is that of the worker that failed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence

import psutil

from andrea_engine.run.errors import ExitCode

GRACE = 300  # seconds that the workers have to save, once torchrun was told to end


def main(words: Sequence[str]) -> int:
    """Run the workers until all have ended; the exit code of the leader if it failed, else of the first that did."""
    # Blocked here and in the workers until they have handlers, or a signal during their start would end them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    threading.Thread(target=_pass_on, daemon=True).start()
    logging.disable()  # torchrun's reports: what has happened is said by whom it happened to
    os.environ["PYTHONSAFEPATH"] = "1"  # for the workers, as `module_command` does for all others
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torchrun would say so; each engine sets its own number
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import get_args_parser, run

    processes, *arguments = words
    options = ["--standalone", f"--nproc-per-node={processes}", f"--shutdown-timeout={GRACE}"]
    try:
        run(get_args_parser().parse_args([*options, "-m", "andrea_engine", "train", *arguments]))  # type: ignore[no-untyped-call]
    except SignalException:
        return ExitCode.OK  # the workers were told to stop, and have
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        first, failure = error.get_first_failure()
        if failure.exitcode < 0:
            print(_killed(first, failure.pid, -failure.exitcode), file=sys.stderr, flush=True)
        return exit_code(codes, first)
    return ExitCode.OK


def exit_code(codes: Mapping[int, int], first: int) -> ExitCode:
    """What the failure of some ranks means, by their exit codes (negative: by which signal) and which was the first."""
    code = codes.get(0, codes[first])
    return ExitCode(code) if code in set(ExitCode) else ExitCode.FAILED


def _killed(rank: int, pid: int, number: int) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    hint = " (out of memory?)" if number == signal.SIGKILL else ""
    told = f"rank {rank} (process {pid}) was ended by {name}{hint}"
    return f"{told}; start the run again, it goes on from its last checkpoint"


def _pass_on() -> None:
    """A request to save, to all workers: whoever hears it tells the leader."""
    while True:
        signal.sigwait({signal.SIGUSR1})
        for worker in psutil.Process().children():
            with contextlib.suppress(psutil.Error):  # it has just ended
                worker.send_signal(signal.SIGUSR1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The feed of a replay: a recorded run handed out as the tailer would have done, by a clock that can pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from andrea_engine.run.condition import Condition
from andrea_engine.run.directory import RunDirectory
from andrea_tui.feed.recording import Recording
from andrea_tui.feed.update import Update

TICK = 0.25  # seconds between two updates
MOST_PENDING = 4  # updates that the app has not taken yet


class ReplayClock:
    """The moment of a replay, in seconds of the recorded run. It stands still at first.

    Safe to be asked in one thread and toggled in another.
    """

    def __init__(self, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.speed = speed
        self._clock = clock
        self._state: tuple[float, float | None] = 0.0, None  # moment, and when it was that; one value: always whole

    @property
    def paused(self) -> bool:
        return self._state[1] is None

    def now(self) -> float:
        """The moment."""
        moment, since = self._state
        return moment if since is None else moment + (self._clock() - since) * self.speed

    def toggle(self) -> None:
        """Pause, or go on."""
        self._state = self.now(), self._clock() if self.paused else None


class Replay:
    """Plays a recording in a daemon thread: the feed of a console that was opened with `--replay SPEED`.

    `speed`: seconds of the run in one second. Each update is passed to `deliver`, which must not block; the receiver
    calls `taken` for each that it has worked off.
    """

    def __init__(self, directory: RunDirectory, speed: float, deliver: Callable[[Update], object]) -> None:
        self.clock = ReplayClock(speed)
        self.ended = self._begun = False
        self._directory = directory
        self._deliver = deliver
        self._stopped = False
        self._wake = threading.Event()
        self._pending = threading.Semaphore(MOST_PENDING)
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._pending.release()
        if self._thread.is_alive():  # one that never began cannot be waited for
            self._thread.join(timeout=2.0)

    def toggle(self) -> None:
        """Pause, or go on; nothing before the record has been read."""
        if self._begun:
            self.clock.toggle()
            self._wake.set()

    def look_now(self) -> None:
        """Nothing comes sooner in a replay than it did."""

    def attended(self) -> None:
        """It is as lively for nobody."""

    def taken(self) -> None:
        self._pending.release()

    @property
    def word(self) -> str:
        """The state that the screen shows."""
        paused = self._begun and self.clock.paused
        state = ", ended" if self.ended else ", paused" if paused else ""
        return f"replay x{self.clock.speed:.7g}{state}"

    def _send(self, update: Update) -> None:
        self._pending.acquire()
        if not self._stopped:
            self._deliver(update)

    def _run(self) -> None:
        try:
            self._play()
        except Exception as error:  # whatever it is: a dead thread would show an old picture for ever
            text = f"the replay has ended: {type(error).__name__}: {error}"
            self.ended = True
            self._send(Update(time.time(), Condition(self.word, alive=False, sentence=text), None, problems=(text,)))

    def _play(self) -> None:
        recording = Recording(self._directory)
        while not recording.read():
            self._send(self._reading(recording))
            if self._stopped:
                return
        self.clock.toggle()
        self._begun = True
        while not self._stopped and not self.ended:
            self._wake.clear()
            moment = self.clock.now()
            self.ended = moment >= recording.end
            self._send(recording.at(moment, self.word))
            self._wake.wait(None if self.clock.paused else TICK)

    def _reading(self, recording: Recording) -> Update:
        state = Condition(self.word, alive=True, sentence="reading the record")
        return Update(time.time(), state, None, complete=False, read_share=recording.share)

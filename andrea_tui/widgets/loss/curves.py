"""From the store and the view to the curves of one frame. What is built for a choice is dropped with the choice."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from andrea_tui.feed.axes import AxisMap, Mapped, unknown
from andrea_tui.feed.picks import Pick
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.record import Record
from andrea_tui.feed.smoothing import BETAS, Smoothed
from andrea_tui.feed.store import Store
from andrea_tui.view import DEFAULT_SMOOTHING, ViewState, Window
from andrea_tui.widgets.loss.series import Offer, chosen, measured


class Traced(msgspec.Struct, frozen=True):
    """A series over the axis: as it is, and smoothed (None: shown as it is). `smoothing` names the line."""

    raw: Series
    line: Series | None
    smoothing: str
    finished: bool = True

    @property
    def shown(self) -> Series:
        return self.raw if self.line is None else self.line


class Picture(msgspec.Struct, frozen=True):
    """All that a frame is drawn from. `note` tells in words what could not be shown as asked."""

    offer: Offer
    axis: AxisMap
    main: Traced
    other: Traced | None
    other_name: str
    validation: Series | None
    score: Series
    abandoned: tuple[Series, ...]
    note: str
    measured: bool  # the main series has a few points that the record does not hold
    other_axis: AxisMap | None

    @property
    def finished(self) -> bool:
        """False while something is still being computed: the next frame shows more."""
        return self.main.finished and (self.other is None or self.other.finished)


class _Tracer:
    """The present choice over one record: its axis, its pick, its line."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.axis = AxisMap(record, "step")
        self._pick = Pick(record, "loss")
        self._smoothed: Smoothed | None = None

    def over(self, axis: str) -> AxisMap:
        if self.axis.axis != axis:
            self.axis = AxisMap(self.record, axis)
        self.axis.sync()
        return self.axis

    def trace(self, offer: Offer, smoothing: str) -> Traced:
        if self._pick.key != offer.key:
            self._pick = Pick(self.record, offer.key)
        finished = self._pick.sync()
        raw = self._pick.over(self.axis)
        if not offer.smoothed or smoothing == "off":
            self._smoothed = None
            return Traced(raw, None, "", finished)
        record = self.record
        if offer.key == "loss" and smoothing == DEFAULT_SMOOTHING and 0 < record.known["ema"] == len(record):
            self._smoothed = None
            return Traced(raw, record.ema.over(self.axis.xs), f"EMA {smoothing}, recorded")
        if self._smoothed is None or self._smoothed.raw is not raw.values or self._smoothed.beta != BETAS[smoothing]:
            self._smoothed = Smoothed(raw.values, BETAS[smoothing])
        finished = self._smoothed.sync() and finished
        name = f"EMA {smoothing}" if finished else f"EMA {smoothing}, computing"
        return Traced(raw, raw.over_values(self._smoothed.line), name, finished)


class Curves:
    """Makes pictures of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._main = _Tracer(store.record)
        self._other: _Tracer | None = None
        self._mapped: dict[int, Mapped] = {}

    @property
    def axis(self) -> AxisMap:
        """The axis of the last picture."""
        return self._main.axis

    def picture(self, view: ViewState) -> Picture:
        """Bring everything up to the store, for what the view asks for."""
        store = self.store
        offer = chosen(store, view.series)
        missing = unknown(store.record, view.x_axis)
        axis = self._main.over("step" if missing else view.x_axis)
        notes = [f"over steps: {missing}"] if missing and len(store.record) else []
        if offer.key != view.series and len(store.record):
            notes.append(f"nothing known for {view.series.removeprefix('arm:')}")
        asked = measured(store, offer.key)
        main = self._main.trace(offer, view.smoothing) if asked is None else Traced(self._map(asked, axis), None, "")
        other, other_note = self._trace_other(offer, view.smoothing, axis.axis)
        extra = offer.key == "loss"
        picture = Picture(
            offer=offer,
            axis=axis,
            main=main,
            other=other,
            other_name=store.other.name if store.other is not None else "",
            validation=self._map(store.validation, axis) if extra else None,
            score=self._map(store.score, axis),
            abandoned=tuple(self._map(series, axis) for series in store.abandoned) if extra else (),
            note="; ".join([*notes, *([other_note] if other_note else [])]),
            measured=asked is not None,
            other_axis=None if self._other is None else self._other.axis,
        )
        self._forget()
        return picture

    def convert(self, window: Window) -> Window | None:
        """The window in units of the present axis; None (all is shown) where nothing of it is left there."""
        if window.axis == self.axis.axis:
            return window
        old = AxisMap(self.store.record, window.axis)
        old.sync()
        lo, hi = (self.axis.x_of(old.step_at(x)) for x in (window.lo, window.hi))
        wide = hi - lo > abs(hi) * 1e-9
        return replace(window, axis=self.axis.axis, lo=lo, hi=hi) if wide else None

    def _trace_other(self, offer: Offer, smoothing: str, axis: str) -> tuple[Traced | None, str]:
        """The second run's line, and why there is none."""
        run = self.store.other
        if run is None:
            return None, ""
        if self._other is None or self._other.record is not run.record:
            self._other = _Tracer(run.record)
        if not len(run.record):
            return None, f"{run.name}: no steps yet" if run.complete else f"reading {run.name}"
        reason = unknown(run.record, axis)
        if reason:
            return None, f"{run.name}: {reason}"
        if measured(self.store, offer.key) is not None:
            return None, f"{run.name}: only what its loss record holds is compared"
        self._other.over(axis)
        traced = self._other.trace(offer, smoothing)
        return (traced, "") if len(traced.raw) else (None, f"{run.name}: nothing of this")

    def _map(self, series: Series, axis: AxisMap) -> Series:
        mapped = self._mapped.setdefault(id(series), Mapped(series))
        return mapped.over(axis)

    def _forget(self) -> None:
        """Drop what belongs to series that are no longer there."""
        store = self.store
        alive = {id(s) for s in (store.validation, store.score, *store.abandoned, *store.arm_validation.values())}
        self._mapped = {key: mapped for key, mapped in self._mapped.items() if key in alive}

"""The series that the chart offers, and why some have nothing to show."""

from __future__ import annotations

import msgspec

from andrea_tui.feed.picks import ARM
from andrea_tui.feed.pyramid import Series
from andrea_tui.feed.store import Store

ARM_VALIDATION = "validation:"  # a series key: `validation:` and the name of an arm


class Offer(msgspec.Struct, frozen=True):
    """A series under its `key`; `reason` says why it cannot be shown, as a clause. Only noisy ones are `smoothed`.
    `decimals` of its values in words; None: as many as mean something."""

    key: str
    name: str
    unit: str = ""
    smoothed: bool = True
    reason: str = ""
    decimals: int | None = None


def offers(store: Store) -> list[Offer]:
    """All series of a run, the loss first."""
    known = store.record.known
    no_rate = "" if store.record.tokens_per_step else "the tokens of a step are not known without a run.toml"
    found = [
        Offer("loss", "loss", "nats"),
        Offer("validation", "validation loss", "nats", False, "" if len(store.validation) else "none was measured yet"),
        Offer("score", "sample score", "of 100", False, "" if len(store.score) else "no sample was scored yet", 1),
        Offer("lr", "learning rate", "", False, "" if known["lr"] else "the record does not hold it"),
        Offer("grad_norm", "gradient norm", "", True, "" if known["grad_norm"] else "the record does not hold it"),
        Offer("rate", "tokens per second", "tokens/s", True, no_rate if known["seconds"] else _NO_TIMES),
        Offer("power_w", "power", "W", True, "" if known["power_w"] else "no device told its power"),
    ]
    found += [Offer(ARM + name, f"loss on {name}", "nats") for name in store.record.source_names]
    found += [Offer(ARM_VALIDATION + name, f"validation on {name}", "nats", False) for name in store.arm_validation]
    return found


_NO_TIMES = "the record does not tell how long its steps took"


def measured(store: Store, key: str) -> Series | None:
    """The series of a key that is kept by the store itself; None for those made from the record."""
    if key.startswith(ARM_VALIDATION):
        return store.arm_validation.get(key.removeprefix(ARM_VALIDATION))
    return {"validation": store.validation, "score": store.score}.get(key)


def chosen(store: Store, key: str) -> Offer:
    """The offer of a key, or the loss where this run has nothing to show for it."""
    found = offers(store)
    return next((offer for offer in found if offer.key == key and not offer.reason), found[0])

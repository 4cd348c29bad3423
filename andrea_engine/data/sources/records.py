"""From a record of a data set to text: a field, or a conversation with `> ` and `< ` turns."""

from __future__ import annotations

_TURNS = {"user": "> ", "assistant": "< ", "system": ""}


def render(record: object, field: str | None) -> str | None:
    """The text of one record; None when it has none.

    With `field`, that field and no other; without, `text` if it is a string, else `messages`.
    """
    if not isinstance(record, dict):
        return None
    text = record.get(field or "text")
    if isinstance(text, str):
        return text
    return None if field else _conversation(record.get("messages"))


def _conversation(messages: object) -> str | None:
    """`{role, content}` messages, one turn a line; None when a message has another shape or role."""
    if not isinstance(messages, list) or not messages:
        return None
    turns: list[str] = []
    for message in messages:
        if not isinstance(message, dict):
            return None
        mark, content = _TURNS.get(str(message.get("role"))), message.get("content")
        if mark is None or not isinstance(content, str):
            return None
        turns.append(f"{mark}{content.strip()}\n")
    return "".join(turns)

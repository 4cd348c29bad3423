"""Random damage to JSON, JSON lines and TOML that keeps much of the grammar, so that it gets past the first check."""

from __future__ import annotations

import random
import re

_TOKEN = re.compile(
    rb'"(?:[^"\\\n]|\\.)*"|[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b|[\[\]{},:=]|[A-Za-z_][\w.-]*|\n'
)
_VALUES = (
    b"null true false 0 -1 1 1.5 -0.0 1e999 -1e999 1e-400 NaN Infinity -Infinity nan inf 2147483648 "
    b"9223372036854775807 "
    b"9223372036854775808 -9223372036854775809 18446744073709551616 1979-05-27 07:32:00 0x10 1_000 .5 5. 01 [] {} [[]] "
    b'"" "NaN" "7" "step" "../../x" "/etc/passwd" "\\ud800" "\\u0000" "\\u001b]0;x" "\\x" \'x\' """x""" [1,2] {"a":{}}'
).split(b" ")
_HUGE = (b"9" * 400, b"9" * 5000, b"-" + b"9" * 19, b"1e" + b"9" * 400, b'"' + b"x" * 3000 + b'"')
_DEEP = ((b"[", b"]"), (b'{"a":', b"}"), (b"{a=", b"}"))
_BYTES = (b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1b", b"\r", b"\n", b"\n\n", b" ", b",", b"\xc3", b"'")


def mutate(data: bytes, choice: random.Random) -> bytes:
    """One to five changes."""
    for _ in range(choice.choice((1, 1, 1, 2, 3, 5))):
        data = choice.choices(_CHANGES, _WEIGHTS)[0](data, choice)
    return data


def _token(data: bytes, choice: random.Random) -> tuple[int, int]:
    """Span of a random token; of the whole when there is none."""
    spans = [match.span() for match in _TOKEN.finditer(data)]
    return choice.choice(spans) if spans else (0, len(data))


def _any_value(choice: random.Random) -> bytes:
    kind = choice.randrange(10)
    if kind == 0:
        return choice.choice(_HUGE)
    if kind > 2:
        return choice.choice(_VALUES)
    depth, (opening, closing) = choice.choice((50, 500, 1200, 20_000)), choice.choice(_DEEP)
    closing = choice.choice((closing, closing, b""))  # or cut inside of it
    return opening * depth + b"0" + closing * depth


def _value(data: bytes, choice: random.Random) -> bytes:
    """Another value in the place of a token: wrong in type, huge, or of many levels."""
    start, end = _token(data, choice)
    return data[:start] + _any_value(choice) + data[end:]


def _added(data: bytes, choice: random.Random) -> bytes:
    """A key that nobody knows, at the beginning of a table or on a line of its own."""
    places = [match.end() for match in re.finditer(rb"\{|\n", data)]
    at = choice.choice(places) if places else 0
    if data[:at].endswith(b"{"):
        return data[:at] + b'"unknown":' + _any_value(choice) + b"," + data[at:]
    return data[:at] + b"unknown = " + _any_value(choice) + b"\n" + data[at:]


def _without(data: bytes, choice: random.Random) -> bytes:
    start, end = _token(data, choice)
    return data[:start] + data[end:]


def _twice(data: bytes, choice: random.Random) -> bytes:
    """A piece between two tokens is there again: the same key twice, the same entry twice."""
    start, _ = _token(data, choice)
    _, end = _token(data, choice)
    piece = data[min(start, end) : max(start, end)][:5000]
    at, _ = _token(data, choice)
    return data[:at] + piece + data[at:]


def _swapped(data: bytes, choice: random.Random) -> bytes:
    (a, b), (c, d) = sorted((_token(data, choice), _token(data, choice)))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:] if b <= c else data


def _cut(data: bytes, choice: random.Random) -> bytes:
    return data[: choice.randrange(len(data) + 1)]


def _head_off(data: bytes, choice: random.Random) -> bytes:
    return data[choice.randrange(len(data) + 1) :]


def _byte(data: bytes, choice: random.Random) -> bytes:
    at = choice.randrange(len(data) + 1)
    return data[:at] + choice.choice(_BYTES) + data[at + choice.choice((0, 1)) :]


def _flipped(data: bytes, choice: random.Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[choice.randrange(len(data))] ^= 1 << choice.randrange(8)
    return bytes(changed)


def _hole(data: bytes, choice: random.Random) -> bytes:
    """Zeros, as after a power cut."""
    at = choice.randrange(len(data) + 1)
    size = choice.choice((16, 512, 4096))
    return data[:at] + b"\0" * len(data[at : at + size]) + data[at + size :]


_CHANGES = (_value, _added, _without, _twice, _swapped, _cut, _head_off, _byte, _flipped, _hole)
_WEIGHTS = (8, 3, 3, 3, 3, 2, 1, 3, 3, 1)

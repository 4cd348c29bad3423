"""Harris segmentation: a tokenizer whose segments end where the next letter stops being predictable.

Z. Harris, "From phoneme to morpheme" (Language 31, 1955): count the distinct letters that can follow each prefix
of the corpus words; where that *successor variety* peaks, a morpheme ends. The recurring segments that save the
most tokens become the vocabulary; everything else falls back to bytes, so nothing is ever unknown.

Ids: bytes 0-255, `BOS` 256, segments from 257. Rules that hold for every text:

- Text is cut into chunks (an optional leading space and one run of letters, digits, other marks, or whitespace,
  at most 64 characters); within a chunk the longest segment always wins. A segment never spans two chunks.
- `decode(encode(text)) == text` for any text without lone surrogates. Lone surrogates cannot be written as UTF-8;
  each becomes U+FFFD.
- Encoding is a function of a whole document: `encode(a + b)` may differ from `encode(a) + encode(b)`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path

from andrea_engine.data.harris import candidates
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.io import atomic_write, read_regular

BYTES = 256
BOS = 256
FIRST_SEGMENT = 257
MAX_VOCABULARY = 1 << 16  # ids are stored as uint16
MAX_SEGMENTS = MAX_VOCABULARY - FIRST_SEGMENT
FILE_NAME = "harris_segments.json"

_FORMAT = "andrea-harris-segments"
_VERSION = 1
_MAX_SEGMENT_BYTES = 260  # 65 characters of at most 4 bytes
_MAX_FILE_BYTES = 64 << 20
_CACHE_CHUNKS = 1 << 18  # bounds the memory of the word cache to some tens of MB
_BLOCK = 1 << 18  # characters cut into chunks at a time

_CHUNK = re.compile(
    r" ?[^\W\d_]{1,64}"  # letters
    r"| ?\d{1,64}"
    r"| ?[^\s\w]{1,64}"  # punctuation and symbols
    r"| ?_{1,64}"
    r"|\s{1,64}(?= \S)"  # whitespace, leaving the last space to the word that follows it
    r"|\s{1,64}"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def chunks(text: str) -> Iterator[list[str]]:
    """The chunks of `text` in lists of bounded size; joined they are `text`."""
    start, length = 0, len(text)
    while start < length:
        end = min(start + _BLOCK, length)
        found: list[str] = _CHUNK.findall(text, start, end)
        if end < length:  # the block border may have cut the last chunk short
            end -= len(found.pop())
        yield found
        start = end


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


class Tokenizer:
    """An immutable vocabulary; `segments[i]` has id `257 + i`."""

    def __init__(self, segments: Iterable[str]) -> None:
        """Raises ValueError when a segment is too short or long, repeated, not UTF-8, or they are too many."""
        self.segments = tuple(segments)
        if len(self.segments) > MAX_SEGMENTS:
            raise ValueError(f"{len(self.segments)} segments are more than the {MAX_SEGMENTS} that uint16 ids allow")
        self._words = _WordCache(self.segments)
        self._bytes = [bytes([value]) for value in range(BYTES)] + [b""] + [s.encode() for s in self.segments]

    @property
    def vocab_size(self) -> int:
        return FIRST_SEGMENT + len(self.segments)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the segments in order."""
        return hashlib.sha256(json.dumps([_FORMAT, _VERSION, *self.segments]).encode()).hexdigest()

    def encode_u16(self, text: str) -> bytes:
        """The ids of one document (without BOS) as little-endian uint16."""
        words = self._words
        return b"".join([b"".join(map(words.__getitem__, found)) for found in chunks(text)])

    def encode(self, text: str) -> list[int]:
        """The ids of one document (without BOS)."""
        ids = array("H", self.encode_u16(text))
        if sys.byteorder == "big":
            ids.byteswap()
        return ids.tolist()

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; BOS is dropped and bytes that are no complete UTF-8 become U+FFFD.

        Raises ValueError on an id outside the vocabulary.
        """
        table, size = self._bytes, self.vocab_size
        parts: list[bytes] = []
        for token in ids:
            if not 0 <= token < size:
                raise ValueError(f"token id {token} is outside the vocabulary of {size}")
            parts.append(table[token])
        return b"".join(parts).decode(errors="replace")

    def save(self, path: Path) -> None:
        """Write the vocabulary atomically as JSON."""
        content = {"format": _FORMAT, "version": _VERSION, "digest": self.digest, "segments": self.segments}
        atomic_write(path, (json.dumps(content, indent=0) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a saved vocabulary. Raises ConfigError, in one sentence, on anything but a whole, unaltered one."""
        try:
            content = json.loads(read_regular(path, _MAX_FILE_BYTES))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not valid JSON; restore it from a copy of the run") from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ConfigError(f"{path} is not a Harris tokenizer (it has no 'format': '{_FORMAT}')")
        if content.get("version") != _VERSION:
            raise ConfigError(f"{path} has tokenizer version {content.get('version')!r}; this engine reads {_VERSION}")
        segments = content.get("segments")
        if not isinstance(segments, list) or not all(isinstance(segment, str) for segment in segments):
            raise ConfigError(f"{path}: 'segments' must be a list of strings")
        try:
            tokenizer = cls(segments)
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from error
        if content.get("digest") != tokenizer.digest:
            raise ConfigError(f"{path} was altered: its digest does not match its segments")
        return tokenizer


class _WordCache(dict[str, bytes]):
    """chunk -> ids as little-endian uint16, by greedy longest match; filled on demand."""

    def __init__(self, segments: Iterable[str]) -> None:
        super().__init__()
        self._ids: dict[bytes, bytes] = {}
        lengths: dict[bytes, set[int]] = {}
        for token, segment in enumerate(segments, FIRST_SEGMENT):
            try:
                data = segment.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"segment {segment!r} holds a lone surrogate") from error
            if not 2 <= len(data) <= _MAX_SEGMENT_BYTES:
                raise ValueError(f"segment {segment[:40]!r} has {len(data)} bytes, not 2 to {_MAX_SEGMENT_BYTES}")
            if data in self._ids:
                raise ValueError(f"segment {segment!r} occurs twice")
            self._ids[data] = token.to_bytes(2, "little")
            lengths.setdefault(data[:2], set()).add(len(data))
        # first two bytes -> the lengths of the segments that start so, longest first
        self._lengths = {head: tuple(sorted(found, reverse=True)) for head, found in lengths.items()}

    def __missing__(self, chunk: str) -> bytes:
        data = _utf8(chunk)
        ids, lengths = self._ids, self._lengths
        out: list[bytes] = []
        start = 0
        while start < len(data):
            for length in lengths.get(data[start : start + 2], ()):
                piece = data[start : start + length]  # shorter at the end of the chunk: then it is all that is left
                token = ids.get(piece)
                if token is not None:
                    out.append(token)
                    start += len(piece)
                    break
            else:
                out.append(data[start : start + 1] + b"\0")
                start += 1
        if len(self) >= _CACHE_CHUNKS:
            self.clear()
        encoded = self[chunk] = b"".join(out)
        return encoded


# --- training -------------------------------------------------------------------------------------------------

_MAX_WORDS = 1 << 17  # distinct chunks looked at; rarer ones cannot change which segments win
_ROUNDS = (2.0, 1.4, 1.0)  # multiples of the wanted number kept, round by round
_FILL_WORDS = 20_000
_FILL_CHARACTERS = 8


def train(texts: Iterable[str], segments: int) -> Tokenizer:
    """Learn exactly `segments` segments from `texts`: the same texts in the same order give the same tokenizer.

    The candidates are the spans between successor-variety peaks. Greedy matching lets a long segment take the work
    of the short ones inside it, so the choice is made in rounds: encode with too many, keep those that save the
    most tokens in actual use. Raises ConfigError when `segments` is out of range or the texts are too small.
    """
    if not 1 <= segments <= MAX_SEGMENTS:
        raise ConfigError(f"a tokenizer needs 1 to {MAX_SEGMENTS} segments, not {segments}: ids must fit 16 bits")
    words = _count_words(texts)
    spans = candidates(words)
    ranked = _by_saving(spans)
    kept = ranked[: 3 * segments]
    for factor in _ROUNDS:
        kept = _by_saving(_usage(words, kept))[: int(factor * segments)]
    if len(kept) < segments:
        fill = chain(kept, ranked, _by_saving(_substrings(words)))
        kept = list(dict.fromkeys(fill))[:segments]
    if len(kept) < segments:
        raise ConfigError(
            f"the text holds only {len(kept)} recurring segments, fewer than the {segments} asked for: "
            "add text or choose a smaller vocabulary"
        )
    return Tokenizer(kept)


def _count_words(texts: Iterable[str]) -> dict[str, int]:
    words: Counter[str] = Counter()
    for text in texts:
        for found in chunks(text):
            words.update(found)
    usable = [word for word in words if not _SURROGATE.search(word)]
    if len(usable) > _MAX_WORDS:
        usable = sorted(usable, key=lambda word: (-words[word], word))[:_MAX_WORDS]
    return {word: words[word] for word in usable}


def _by_saving(counts: Mapping[str, int]) -> list[str]:
    """The recurring segments, by the tokens they save over bytes; ties in text order."""
    saving = {text: count * (len(text.encode()) - 1) for text, count in counts.items() if count > 1}
    return sorted((text for text in saving if saving[text] > 0), key=lambda text: (-saving[text], text))


def _usage(words: Mapping[str, int], segments: list[str]) -> dict[str, int]:
    """Segment -> times the greedy encoding of the corpus uses it."""
    cache = _WordCache(segments)
    used: dict[bytes, int] = {}
    for word, count in words.items():
        encoded = cache[word]
        for start in range(0, len(encoded), 2):
            token = encoded[start : start + 2]
            used[token] = used.get(token, 0) + count
    return {text: used.get(id_.to_bytes(2, "little"), 0) for id_, text in enumerate(segments, FIRST_SEGMENT)}


def _substrings(words: Mapping[str, int]) -> dict[str, int]:
    """All short substrings of the most frequent words: the filling when peaks give too few segments."""
    counts: dict[str, int] = {}
    for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:_FILL_WORDS]:
        for start in range(len(word)):
            for end in range(start + 1, min(start + _FILL_CHARACTERS, len(word)) + 1):
                counts[word[start:end]] = counts.get(word[start:end], 0) + count
    return counts

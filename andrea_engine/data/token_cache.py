"""Encoded sources on disk: `NAME.u16` (little-endian uint16, BOS before every document) and `manifest.json`.

A source is encoded once; afterwards its file is the data of the run, so that a resume reads the very same tokens
even when the original text has changed or is gone. It is encoded again when the tokenizer or the source's table in
run.toml changes, or when the file is not the one that was written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from andrea_engine.data.sources import check_name
from andrea_engine.data.sources.base import Source, SourceUnavailable
from andrea_engine.data.tokenizer import BOS, Tokenizer
from andrea_engine.run.errors import ConfigError, SaveError
from andrea_engine.run.io import atomic_write, ensure_folder, open_regular, read_optional, remove_stale_temporaries

MANIFEST = "manifest.json"
VERIFY_BYTES = 256 << 20  # files up to this size are hashed when opened; of larger ones the size is checked

_VERSION = 1
_MANIFEST_LIMIT = 16 << 20
_ITEM = 2  # bytes of a uint16
_BUFFER_BYTES = 1 << 20
_VALIDATION_WINDOWS = 20  # a source with no more windows is too small to give some away
_VALIDATION_TOKENS = 1 << 16

Tokens = npt.NDArray[np.uint16]
Progress = Callable[[str, int, int], None]
"""Called with source name, documents and tokens so far, about once a megabyte of tokens."""


class PreparationStopped(Exception):  # noqa: N818 - a wish that was granted, not an error
    """`should_stop` said so. What was finished is kept; what was under way is not."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the manifest says of one source; `sha256` is that of the file's bytes."""

    tokens: int
    sha256: str
    tokenizer: str
    identity: str
    documents: int
    characters: int
    skipped: int


class Manifest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """`arms` in the order of the sources; `unavailable`: name -> reason."""

    version: int = _VERSION
    context: int
    arms: dict[str, Entry]
    unavailable: dict[str, str]


class ArmData(msgspec.Struct, frozen=True, kw_only=True):
    """One source's data. `tokens` are trained on, `validation_tokens` are not; `digest` covers both."""

    name: str
    tokens: int
    validation_tokens: int
    documents: int
    characters: int
    skipped: int
    digest: str


class Corpus:
    """The encoded sources of a run, mapped from disk on first use."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.context = manifest.context
        self.unavailable = dict(manifest.unavailable)
        self.arms = {name: _arm(name, entry, manifest.context) for name, entry in manifest.arms.items()}
        self._mapped: dict[str, Tokens] = {}

    def array(self, name: str) -> Tokens:
        """The tokens of an arm to train on: uint16 (tokens,), read-only."""
        return self._all(name)[: self.arms[name].tokens]

    def validation(self, name: str) -> Tokens:
        """The held-out end of an arm: uint16 (validation_tokens,), empty for a small source; never trained on."""
        return self._all(name)[self.arms[name].tokens :]

    def verify(self) -> list[str]:
        """Names of the arms whose file is not, byte for byte, the one that was written."""
        return [name for name, arm in self.arms.items() if _sha256(_file(self.directory, name)) != arm.digest]

    def _all(self, name: str) -> Tokens:
        if name not in self._mapped:
            arm = self.arms[name]
            shape = (arm.tokens + arm.validation_tokens,)
            self._mapped[name] = np.memmap(_file(self.directory, name), dtype="<u2", mode="r", shape=shape)
        return self._mapped[name]


def held_out(tokens: int, context: int) -> int:
    """Tokens kept for validation: the last 1 %, at least one window (context + 1), at most 65,536.

    None of a source that has 20 windows or fewer. One window is kept even where it is above the maximum.
    """
    if tokens // context <= _VALIDATION_WINDOWS:
        return 0
    return max(context + 1, min(tokens // 100, _VALIDATION_TOKENS))


def prepare(
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    directory: Path,
    context: int,
    *,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Corpus:
    """Encode what is not there yet and open all of it.

    A source without text is listed in `Corpus.unavailable` with its reason, and asked again at the next start.
    Raises ConfigError when no source has text or a name is not usable, PreparationStopped when `should_stop()`
    turns true between two blocks of documents, SaveError when the disk refuses.
    """
    _check_names(sources)
    try:
        return _prepare(sources, tokenizer, directory, context, progress, should_stop)
    except OSError as error:
        raise SaveError(f"the encoded text cannot be written to {directory}: {error.strerror or error}") from error


def _prepare(
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    directory: Path,
    context: int,
    progress: Progress | None,
    should_stop: Callable[[], bool] | None,
) -> Corpus:
    directory.mkdir(parents=True, exist_ok=True)
    ensure_folder(directory)
    remove_stale_temporaries(directory, alive=lambda _pid: False)  # the engine's lock keeps other writers out
    known = _read_manifest(directory)
    before = known.arms if known else {}
    manifest = Manifest(context=context, arms={}, unavailable={})
    manifest.arms = {source.name: before[source.name] for source in sources if source.name in before}
    for source in sources:
        name = source.name
        if name in manifest.arms and _is_current(manifest.arms[name], source, tokenizer, directory):
            continue
        encoder = _Encoder(source, tokenizer, progress, should_stop)
        try:
            atomic_write(_file(directory, name), encoder.parts())
        except SourceUnavailable as error:
            manifest.arms.pop(name, None)
            manifest.unavailable[name] = str(error)
        else:
            manifest.arms[name] = encoder.entry()
            _write_manifest(directory, manifest)  # at once, so that a stop during the next source loses nothing
    manifest.arms = {source.name: manifest.arms[source.name] for source in sources if source.name in manifest.arms}
    if manifest != known:
        _write_manifest(directory, manifest)
    if not manifest.arms:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in manifest.unavailable.items())
        raise ConfigError(f"no source has any text ({reasons or 'run.toml lists none'})")
    return Corpus(directory, manifest)


def load(directory: Path) -> Corpus:
    """Open what `prepare` left. Raises ConfigError when it is missing, damaged or altered."""
    manifest = _read_manifest(directory)
    if manifest is None:
        raise ConfigError(f"{directory} holds no readable {MANIFEST}; start training to encode the sources")
    for name, entry in manifest.arms.items():
        if not _is_intact(entry, _file(directory, name)):
            raise ConfigError(f"{_file(directory, name)} is missing or altered; start training to encode it again")
    return Corpus(directory, manifest)


class _Encoder:
    """Encodes one source to bytes and counts on the way."""

    def __init__(
        self,
        source: Source,
        tokenizer: Tokenizer,
        progress: Progress | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self._source, self._tokenizer = source, tokenizer
        self._progress, self._should_stop = progress, should_stop
        self._hash = hashlib.sha256()
        self._bytes = self._documents = self._characters = 0

    def parts(self) -> Iterator[bytes]:
        """The content of the file, in blocks. Raises SourceUnavailable before the end when there is no text."""
        for block in _blocks(self._encoded()):
            self._hash.update(block)
            self._bytes += len(block)
            yield block
            if self._progress is not None:
                self._progress(self._source.name, self._documents, self._bytes // _ITEM)
            if self._should_stop is not None and self._should_stop():
                raise PreparationStopped

    def _encoded(self) -> Iterator[bytes]:
        bos = BOS.to_bytes(_ITEM, "little")
        for text in self._source.documents():
            self._documents += 1
            self._characters += len(text)
            yield bos + self._tokenizer.encode_u16(text)

    def entry(self) -> Entry:
        return Entry(
            tokens=self._bytes // _ITEM,
            sha256=self._hash.hexdigest(),
            tokenizer=self._tokenizer.digest,
            identity=self._source.identity,
            documents=self._documents,
            characters=self._characters,
            skipped=self._source.skipped,
        )


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces joined to blocks of about a megabyte."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _BUFFER_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _check_names(sources: Sequence[Source]) -> None:
    seen: dict[str, str] = {}
    for source in sources:
        # Folded, since some file systems do not tell "Chat" from "chat".
        folded = check_name(source.name).casefold()
        if folded in seen:
            raise ConfigError(f"sources '{seen[folded]}' and '{source.name}' need names that differ in more than case")
        seen[folded] = source.name


def _arm(name: str, entry: Entry, context: int) -> ArmData:
    kept = held_out(entry.tokens, context)
    return ArmData(
        name=name,
        tokens=entry.tokens - kept,
        validation_tokens=kept,
        documents=entry.documents,
        characters=entry.characters,
        skipped=entry.skipped,
        digest=entry.sha256,
    )


def _file(directory: Path, name: str) -> Path:
    return directory / f"{name}.u16"


def _is_current(entry: Entry, source: Source, tokenizer: Tokenizer, directory: Path) -> bool:
    asked = (entry.tokenizer, entry.identity) == (tokenizer.digest, source.identity)
    return asked and _is_intact(entry, _file(directory, source.name))


def _is_intact(entry: Entry, path: Path) -> bool:
    try:
        size = path.lstat().st_size
    except OSError:
        return False
    if size != entry.tokens * _ITEM or size == 0:
        return False
    return size > VERIFY_BYTES or _sha256(path) == entry.sha256


def _sha256(path: Path) -> str | None:
    """SHA-256 (hex) of a regular file, None when it cannot be read."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _read_manifest(directory: Path) -> Manifest | None:
    """The manifest, or None when there is none that can be trusted: then everything is encoded again."""
    try:
        data = read_optional(directory / MANIFEST, _MANIFEST_LIMIT)
        manifest = msgspec.json.decode(data or b"", type=Manifest)
        for name in manifest.arms:
            check_name(name)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, ConfigError):
        return None
    return manifest if manifest.version == _VERSION and manifest.context >= 1 else None


def _write_manifest(directory: Path, manifest: Manifest) -> None:
    atomic_write(directory / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")

"""Text without a download: what every Python installation carries, read as files and never imported.

Arms: `python-topics` (the language reference), `docstrings`, `repo-code` (the standard library), `readmes` (package
descriptions and licences) and `dictionary` (definitions made from first sentences).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from andrea_engine.data.sources.base import CappedSource, Options
from andrea_engine.data.sources.definitions import dictionary
from andrea_engine.data.sources.files import read_text, regular_files
from andrea_engine.run.errors import ConfigError

_MAX_FILE_BYTES = 1_000_000
_MIN_DOCSTRING = 40  # shorter ones are labels, not prose
# Not the library itself, or different on every machine.
_NOT_LIBRARY = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "pydoc_data"})
_LICENCE = re.compile(r"(licen[cs]e|copying|notice|authors)[^/]*", re.IGNORECASE)

_QUOTES = '"""'
_HEADER_REACH = 600  # characters between `def` and the docstring: a signature of a few lines
# From the start of a def or class line to the quotes; the first line that ends with a colon ends the header.
_HEADER = re.compile(
    r"[ \t]*(?:async +)?(?P<kind>def|class) +(?P<name>\w+)(?:[^:]|:(?![ \t]*(?:#[^\n]*)?\n))*"
    r":[ \t]*(?:#[^\n]*)?\n\s*(?P<raw>[rR]?)"
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """`kind` is `def` or `class`; `text` is cleaned of its indentation."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Installation:
    """The folders of one Python installation."""

    stdlib: Path
    packages: tuple[Path, ...]

    @classmethod
    def current(cls) -> Installation:
        paths = sysconfig.get_paths()
        packages = dict.fromkeys(Path(paths[key]) for key in ("purelib", "platlib"))
        return cls(Path(paths["stdlib"]), tuple(packages))

    def library_files(self) -> Iterator[Path]:
        """The modules of the standard library, without its tests."""
        for path in regular_files(self.stdlib, _is_library):
            if path.suffix == ".py" and not path.name.startswith("_sysconfigdata"):
                yield path

    def package_files(self) -> Iterator[Path]:
        for folder in self.packages:
            yield from (path for path in regular_files(folder, _is_package) if path.suffix == ".py")


def _is_library(folder: str) -> bool:
    return folder not in _NOT_LIBRARY and not folder.startswith((".", "__", "config-"))


def _is_package(folder: str) -> bool:
    return folder not in {"test", "tests"} and not folder.startswith((".", "__"))


def topics(_: Installation) -> Iterator[str]:
    """The chapters of the language reference that `help()` shows."""
    try:
        from pydoc_data.topics import topics as chapters
    except ImportError:  # some distributions ship Python without its documentation
        return
    for _name, text in sorted(chapters.items()):
        yield text


def code(installation: Installation) -> Iterator[str]:
    """One document a module."""
    for path in installation.library_files():
        yield read_text(path, _MAX_FILE_BYTES) or ""


def docstrings(installation: Installation) -> Iterator[Docstring]:
    """Docstrings of functions and classes: the standard library's first, then those of the installed packages."""
    for files in (installation.library_files(), installation.package_files()):
        for path in files:
            yield from find_docstrings(read_text(path, _MAX_FILE_BYTES) or "")


def find_docstrings(source: str) -> Iterator[Docstring]:
    """Docstrings in double triple quotes of the functions and classes in a module's source text.

    Finding them by their quotes misses about a tenth (module docstrings, odd layouts) of what parsing the whole
    file would find, in a tenth of the time.
    """
    after = 0
    while (start := source.find(_QUOTES, after)) >= 0:
        after = body = start + len(_QUOTES)
        if (header := _header(source, start)) is None:
            continue  # the end of a string, or one that is no docstring
        end = source.find(_QUOTES, body)
        while end > 0 and source[end - 1] == "\\":
            end = source.find(_QUOTES, end + 1)
        if end < 0:
            return
        after = end + len(_QUOTES)
        text = inspect.cleandoc(source[body:end] if header["raw"] else _unescaped(source[body:end]))
        if len(text) >= _MIN_DOCSTRING:
            yield Docstring(header["kind"], header["name"], text)


def _header(source: str, quotes: int) -> re.Match[str] | None:
    """The def or class statement that ends right before position `quotes`."""
    reach = max(0, quotes - _HEADER_REACH)
    keyword = max(source.rfind("def ", reach, quotes), source.rfind("class ", reach, quotes))
    line = source.rfind("\n", 0, keyword) + 1
    return _HEADER.fullmatch(source, line, quotes) if keyword >= 0 else None


def _unescaped(body: str) -> str:
    """`body` as Python reads it between triple quotes; empty when Python would refuse it."""
    if "\\" not in body:
        return body
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            return str(ast.literal_eval(_QUOTES + body + _QUOTES))
    except (SyntaxError, ValueError):
        return ""


def readmes(installation: Installation) -> Iterator[str]:
    """Descriptions and licences of the installed packages, and Python's own licence; each text once."""
    seen: set[bytes] = set()
    for path in _readme_files(installation):
        text = read_text(path, _MAX_FILE_BYTES) or ""
        if path.name == "METADATA":
            text = text.partition("\n\n")[2]  # e-mail headers end at the first blank line
        digest = hashlib.sha256(text.encode(errors="replace")).digest()
        if digest not in seen:
            seen.add(digest)
            yield text


def _readme_files(installation: Installation) -> Iterator[Path]:
    yield from (path for path in [installation.stdlib / "LICENSE.txt"] if path.is_file())
    for folder in installation.packages:
        for info in sorted(folder.glob("*.dist-info")):
            for path in regular_files(info, lambda name: name == "licenses"):
                if path.name == "METADATA" or _LICENCE.fullmatch(path.name):
                    yield path


def _docstring_texts(installation: Installation) -> Iterator[str]:
    return (docstring.text for docstring in docstrings(installation))


def _dictionary(installation: Installation) -> Iterator[str]:
    named = ((found.kind, found.name, found.text) for found in docstrings(installation))
    return dictionary(topics(installation), named)


ARMS: Mapping[str, Callable[[Installation], Iterator[str]]] = {
    "python-topics": topics,
    "docstrings": _docstring_texts,
    "repo-code": code,
    "readmes": readmes,
    "dictionary": _dictionary,
}


# Tables, rules and interpreter sessions are drawn or recorded, not written: a young model that starts one cannot find
# its end, and the gate is right to call that sample a loop.
_DRAWN = re.compile(r"([^\w\s])\1{5,}")
_TABLE_ROW = re.compile(r"\s*(\||\+[-=+])")
_SESSION = re.compile(r"\s*>>>")


def written(text: str) -> str:
    """`text` without table rows and interpreter sessions, and with every run of equal signs (`######`) cut to three."""
    lines = []
    in_session = False
    for line in text.split("\n"):
        in_session = bool(_SESSION.match(line)) or (in_session and not line.isspace() and line != "")
        if not in_session and not _TABLE_ROW.match(line):
            lines.append(line)
    return _DRAWN.sub(r"\1\1\1", "\n".join(lines))


KEYS = ("arm", "max_bytes")
DEFAULT_BYTES = 2_000_000
_DEFAULT_BYTES = {"dictionary": 400_000}  # entries are much alike; more of them would teach the pattern only


@dataclass(slots=True, kw_only=True)
class PythonText(CappedSource):
    """One of `ARMS`; without `max_bytes` a default budget applies, never the whole installation."""

    arm: str
    installation: Installation = field(default_factory=Installation.current)

    def __post_init__(self) -> None:
        if self.max_bytes is None:
            self.max_bytes = _DEFAULT_BYTES.get(self.arm, DEFAULT_BYTES)

    def _texts(self) -> Iterator[str]:
        return map(written, ARMS[self.arm](self.installation))

    def _nothing(self) -> str:
        return f"this Python installation ({self.installation.stdlib}) carries no text for '{self.arm}'"


def build(name: str, options: Options, base: Path) -> PythonText:
    """`arm`: one of `ARMS`, by default the source's own name. Raises ConfigError for any other."""
    del base  # nothing here has a path
    arm = options.text("arm") or name
    if arm not in ARMS:
        raise ConfigError(f"source '{name}': 'arm' must be one of {', '.join(ARMS)}, not '{arm}'")
    return PythonText(name=name, arm=arm, max_bytes=options.count("max_bytes"))

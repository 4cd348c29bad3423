"""The text every Python installation carries, on a made-up installation and on this one."""

from __future__ import annotations

import argparse
import ast
import inspect
import json.decoder
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from andrea_engine.data.sources import SourceUnavailable, make_source
from andrea_engine.data.sources.definitions import describe, dictionary, first_sentence
from andrea_engine.data.sources.python_text import (
    ARMS,
    Docstring,
    Installation,
    PythonText,
    find_docstrings,
    written,
)

MODULE = '''
import os
raise SystemExit("never imported")

class Walker:
    """A walker that visits every node of the tree it is given.

    More:
        indented.
    """

    def walk(self, tree,
             depth: int = 3):  # deep
        r"""Return the nodes of the tree \\in order of depth."""

    async def stop(self):
        """Stops the walk\\u0020at the next node it would visit."""

    def short(self): return 1

    def tiny(self):
        """Too short."""

    def code(self):
        if self:
            """This string is no docstring, though it looks a lot like one."""
'''


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    stdlib, packages = tmp_path / "lib", tmp_path / "lib" / "site-packages"
    info = packages / "walk-1.0.dist-info"
    for folder in (stdlib / "test", stdlib / "__pycache__", packages / "walk", info / "licenses"):
        folder.mkdir(parents=True)
    (stdlib / "b.py").write_text(MODULE)
    (stdlib / "a.py").write_text("x = 1\n")
    (stdlib / "bad.py").write_bytes(b'def f():\n    """\xff\xfe"""')
    (stdlib / "_sysconfigdata_x.py").write_text("machine = 1")
    (stdlib / "test" / "t.py").write_text("test = 1")
    (stdlib / "LICENSE.txt").write_text("Python licence")
    (packages / "walk" / "w.py").write_text(textwrap.dedent(MODULE).replace("Walker", "Runner"))
    (info / "METADATA").write_text("Name: walk\nVersion: 1.0\n\n# Walk\n\nA readme.\n")
    (info / "RECORD").write_text("not prose")
    (info / "licenses" / "LICENSE").write_text("MIT")
    (info / "COPYING").write_text("MIT")
    return Installation(stdlib, (packages,))


def texts(installation: Installation, arm: str) -> list[str]:
    return list(PythonText(name=arm, arm=arm, installation=installation).documents())


def test_docstrings_are_found_with_their_names() -> None:
    assert list(find_docstrings(MODULE)) == [
        Docstring(
            "class", "Walker", "A walker that visits every node of the tree it is given.\n\nMore:\n    indented."
        ),
        Docstring("def", "walk", "Return the nodes of the tree \\in order of depth."),
        Docstring("def", "stop", "Stops the walk at the next node it would visit."),
    ]


@pytest.mark.parametrize("module", [argparse, json.decoder, textwrap, ast])
def test_on_the_standard_library_they_are_what_the_parser_finds(module: object) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]
    parsed = {
        (node.name, ast.get_docstring(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and len(ast.get_docstring(node) or "") >= 40
    }
    found = {(docstring.name, docstring.text) for docstring in find_docstrings(source)}
    assert found <= parsed
    assert len(found) >= 0.9 * len(parsed) > 0


@pytest.mark.parametrize(
    "source",
    ['"""', 'def f():\n    """', '"""a""" """', 'def f():\n """' + "\\x" * 30 + '"""', "def " * 999 + '"""' * 3],
)
def test_odd_source_gives_no_docstring_and_no_error(source: str) -> None:
    assert list(find_docstrings(source)) == []


def test_each_arm_reads_its_part_of_the_installation(installation: Installation) -> None:
    assert [text[:14] for text in texts(installation, "docstrings")] == [
        "A walker that ",
        "Return the nod",
        "Stops the walk",
    ] * 2
    assert texts(installation, "repo-code") == ["x = 1\n", MODULE]
    assert texts(installation, "readmes") == ["Python licence", "MIT", "# Walk\n\nA readme.\n"]
    entries = texts(installation, "dictionary")
    assert "> define Walker\n< Walker is a walker that visits every node of the tree it is given.\n" in entries
    assert "> define stop\n< stop is a function that stops the walk at the next node it would visit.\n" in entries
    assert len([entry for entry in entries if entry.startswith("> define stop\n")]) == 1


def test_an_installation_without_text_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="carries no text for 'readmes'"):
        texts(Installation(tmp_path, (tmp_path / "absent",)), "readmes")


@pytest.mark.parametrize("arm", ARMS)
def test_this_installation_has_text_for_every_arm_within_the_budget(arm: str, tmp_path: Path) -> None:
    source = make_source(arm, {"name": arm, "kind": "python-text", "max_bytes": 20_000}, tmp_path)
    found = list(source.documents())
    size = sum(len(text.encode()) for text in found)
    assert 15_000 < size <= 20_000
    assert found == list(source.documents())


def test_the_default_budget_is_bounded(tmp_path: Path) -> None:
    named = make_source("code", {"kind": "python-text", "arm": "repo-code"}, tmp_path)
    assert isinstance(named, PythonText)
    assert (named.arm, named.max_bytes) == ("repo-code", 2_000_000)


@pytest.mark.parametrize(
    ("kind", "sentence", "expected"),
    [
        ("def", "Return the sum", "a function that returns the sum"),
        ("def", "Returns the sum", "a function that returns the sum"),
        ("def", "Try it again", "a function that tries it again"),
        ("def", "Tries it again", "a function that tries it again"),
        ("class", "Match a name", "a class that matches a name"),
        ("class", "Displays a name", "a class that displays a name"),
        ("class", "The base of all nodes", "the base of all nodes"),
        ("class", "An error in a name", "an error in a name"),
        ("def", "Whether it is so", None),
        ("def", "See the manual", None),
    ],
)
def test_a_first_sentence_becomes_a_definition(kind: str, sentence: str, expected: str | None) -> None:
    assert describe(kind, sentence) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Return the\n   sum. And more.", "Return the sum"),
        ("Return `x` and :class:`~a.B`.\n\nMore.", "Return x and a.B"),
        ("Return version 1.5 of it.", "Return version 1.5 of it"),
        ("No full stop here", None),
        ("Two words.", None),
        ("Use this::\n code.", None),
        ("word " * 41 + ".", None),
    ],
)
def test_the_first_sentence_is_a_plain_one(text: str, expected: str | None) -> None:
    assert first_sentence(text) == expected


def test_the_dictionary_has_each_term_once_and_no_private_ones() -> None:
    topics = ["A name is a reference to an object. More.\n\nNothing.", "A name is a second thing here."]
    named = [("def", "_x", "Return the private thing."), ("def", "get", "Get the thing.")]
    assert list(dictionary(topics, named)) == [
        "> define name\n< name is a reference to an object.\n",
        "> define get\n< get is a function that gets the thing.\n",
    ]


def test_sources_and_tokenizer_do_without_torch_and_numpy() -> None:
    code = (
        "import sys, andrea_engine.data.sources, andrea_engine.data.tokenizer\n"
        "print(sorted({'torch', 'numpy', 'datasets', 'textual'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title\n========\nword", "Title\n===\nword"),
        ("# ------ #", "# --- #"),
        ("#####", "#####"),  # five in a row may mean something
        ("        indented", "        indented"),
        ("aaaaaaaaaa ______________", "aaaaaaaaaa ______________"),
        ("Text.\n\n>>> f(1)\n'1'\n    >>> g\n... x\n2\n\nMore text.", "Text.\n\n\nMore text."),
        ("Table:\n+---+\n| a |\n+===+\nend", "Table:\nend"),
        ("a > b\n> define x\n< x is y", "a > b\n> define x\n< x is y"),
    ],
)
def test_what_is_drawn_or_recorded_goes_and_what_is_written_stays(text: str, expected: str) -> None:
    assert written(text) == expected

"""Another policy in the text of a run.toml: the tables are exchanged, every other byte stays."""

from __future__ import annotations

import tomllib

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.config import preset_names, preset_text
from andrea_engine.run.policy import Policy
from andrea_engine.run.policy_text import replace_policy

POLICY = Policy(floors={"a b": 0.5}, caps={"irc": 0.0}, span=(3, 4))

BEFORE = "# head\nseed = 1  # a seed\n\n[model]\nlayers = 2\n\n"
OLD = "[policy.floors]  # trusted\nchat = 0.5\n# not sure about this one\nirc = 0.1\n\n[policy]\n"
OLD += 'bandit = {c = 3.0}\n["policy".warmup]\nsteps = 5\nsources = [\n  "chat",\n]\n'
AFTER = "\n# about the sources\n[[sources]]\nname = 'chat'\n"


def replaced(text: str, policy: Policy = POLICY, note: str = "policy 1") -> str:
    new = replace_policy(text, policy, note)
    assert tomllib.loads(new) == {**tomllib.loads(text), "policy": policy.to_mapping()}
    assert f"\n# {note}\n" in new
    assert replace_policy(new, policy, note) == new, "once more changes nothing"
    return new


def test_only_the_policy_tables_change() -> None:
    new = replaced(BEFORE + OLD + AFTER)
    assert new.startswith(BEFORE + "[policy]\n# policy 1\n")
    assert new.endswith(AFTER)
    assert "not sure" not in new, "comments on old numbers go with them"


def test_the_next_pivot_replaces_note_and_tables() -> None:
    first = replaced(BEFORE + OLD + AFTER)
    second = replaced(first, Policy(floors={"irc": 1.0}), "policy 2")
    assert "policy 1" not in second
    assert "a b" not in second
    assert (second.startswith(BEFORE), second.endswith(AFTER)) == (True, True)


def test_policy_tables_that_stand_apart() -> None:
    text = "[policy.caps]\nirc = 1.0\n# about seeds\n[model]\nlayers = 1\n[policy.floors]\nchat = 0.5\n# end\n"
    new = replaced(text)
    assert new.startswith("[policy]\n")
    assert new.endswith("# about seeds\n[model]\nlayers = 1\n# end\n")


@pytest.mark.parametrize("text", ["", "seed = 1", "seed = 1\n", "[model]\nlayers = 2\n\n[[sources]]\nname = 'x'\n"])
def test_a_text_without_a_policy_gets_one_at_its_end(text: str) -> None:
    assert replaced(text).startswith(text)


@pytest.mark.parametrize(
    "text",
    [
        "policy = {floors = {chat = 0.5}}\n[model]\nlayers = 2\n",
        "policy.floors.chat = 0.5\nseed = 2\n",
        'title = """\n[policy]\nfloors = 1\n"""\n[model]\nlayers = 2\n',
        '[policy.warmup]\nsteps = 1\nsources = [\n  ["no policy, yet TOML"],\n]\n[model]\nlayers = 2\n',
    ],
)
def test_what_cannot_be_cut_out_is_written_anew(text: str) -> None:
    replaced(text)


def test_line_ends_of_the_other_tables_stay() -> None:
    text = "seed = 1\r\n[policy.floors]\r\nchat = 0.5\r\n[model]\r\nlayers = 2\r\n"
    new = replace_policy(text, POLICY, "policy 1")
    assert new.startswith("seed = 1\r\n")
    assert new.endswith("[model]\r\nlayers = 2\r\n")


@pytest.mark.parametrize("name", preset_names())
def test_every_preset(name: str) -> None:
    text = preset_text(name)
    before, _, after = text.partition("[policy.floors]")
    _, _, sources = after.partition('"dictionary"]\n')
    new = replaced(text)
    assert new.startswith(before)
    assert new.endswith(sources)


def test_a_broken_text_is_refused() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        replace_policy("seed = ", POLICY, "policy 1")


names = st.text(st.sampled_from("ab[]#\"'= \n.é"), min_size=1, max_size=6)
tables = st.dictionaries(
    names.filter(lambda name: name != "policy"),
    st.one_of(st.integers(), names, st.lists(names, max_size=3), st.dictionaries(names, names, max_size=2)),
    max_size=4,
)


@settings(deadline=None, max_examples=150)
@given(tables, st.dictionaries(names, st.floats(0.0, 1.0), max_size=3), st.booleans())
def test_every_document(others: dict[str, object], floors: dict[str, float], multiline: bool) -> None:
    document = {**others, "policy": {"floors": {"old": 1.0}}, "last": {"x": 1}}
    replaced(tomli_w.dumps(document, multiline_strings=multiline), Policy(floors=floors))

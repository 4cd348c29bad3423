"""The policy: what is accepted, what is refused and in which words, and the way to TOML and back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.run.errors import ConfigError, ExitCode
from andrea_engine.run.policy import LIMIT, Policy, dump_policy, parse_policy

WHERE = "policies/chat.toml"


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_policy(text, WHERE)
    assert caught.value.exit_code == ExitCode.USAGE
    message = str(caught.value)
    assert message.startswith(WHERE)
    assert "\n" not in message
    return message


def test_a_full_policy_is_read() -> None:
    policy = parse_policy(
        """
        [floors]
        chat = 0.8
        gutenberg = 2
        [caps]
        chat = 0.8
        repo-docs = 0
        [bandit]
        c = 250
        span = [3, 3]
        focus = 2
        background = 0.0
        [warmup]
        steps = 20000
        sources = ["chat", "gutenberg"]
        """,
        WHERE,
    )
    assert policy == Policy(
        floors={"chat": 0.8, "gutenberg": 2.0},
        caps={"chat": 0.8, "repo-docs": 0.0},
        c=250.0,
        span=(3, 3),
        focus=2,
        background=0.0,
        warmup_steps=20000,
        warmup_sources=("chat", "gutenberg"),
    )
    assert policy.sources() == {"chat", "gutenberg", "repo-docs"}


def test_an_empty_policy_takes_the_defaults() -> None:
    policy = parse_policy("", WHERE)
    assert policy == Policy()
    assert policy.span == (7, 42)
    assert policy.background == 0.15
    assert policy.focus is None
    assert policy.floor("anything") == 0.0
    assert policy.cap("anything") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[floors", ["TOML"]),
        ("[flors]\nchat = 1", ["flors", "floors, caps, bandit and warmup"]),
        ("floors = 3", ["floors", "table"]),
        ("bandit = [1]", ["bandit", "table"]),
        ("[bandit]\nC = 1", ["[bandit]", "'C'", "c, span, focus and background"]),
        ("[warmup]\nstep = 1", ["[warmup]", "'step'", "steps and sources"]),
        ("[floors]\nchat = -0.1", ["[floors] chat", "-0.1"]),
        ("[floors]\nchat = true", ["[floors] chat", "True"]),
        ('[floors]\nchat = "0.8"', ["[floors] chat", "'0.8'"]),
        ("[floors]\nchat = nan", ["[floors] chat", "nan"]),
        ("[floors]\nchat = inf", ["[floors] chat", "inf"]),
        (f"[floors]\nchat = 1{'0' * 400}", ["[floors] chat", "1,000,000"]),
        ("[floors]\nchat.x = 1", ["[floors] chat"]),
        ('[floors]\n"" = 1', ["[floors]", "name of a source"]),
        ("[caps]\nchat = -1", ["[caps] chat", "-1"]),
        ("[caps]\nchat = -inf", ["[caps] chat", "-inf"]),
        ("[floors]\nchat = 0.8\n[caps]\nchat = 0.2", ["[caps] chat = 0.2", "floor 0.8", "raise the cap"]),
        ("[bandit]\nc = -1", ["[bandit] c", "-1"]),
        ("[bandit]\nc = nan", ["[bandit] c", "nan"]),
        ("[bandit]\nspan = [0, 42]", ["[bandit] span low end", "0"]),
        ("[bandit]\nspan = [42, 7]", ["[bandit] span", "[42, 7]"]),
        ("[bandit]\nspan = [7]", ["[bandit] span"]),
        ("[bandit]\nspan = 7", ["[bandit] span"]),
        ("[bandit]\nspan = [7, 42.0]", ["[bandit] span high end", "42.0"]),
        ("[bandit]\nfocus = 0", ["[bandit] focus", "0"]),
        ("[bandit]\nfocus = true", ["[bandit] focus", "True"]),
        ("[bandit]\nbackground = 1.5", ["[bandit] background", "from 0 to 1"]),
        ("[warmup]\nsteps = -1", ["[warmup] steps", "-1"]),
        ("[warmup]\nsteps = 10", ["[warmup] steps = 10", "sources"]),
        ('[warmup]\nsources = "chat"', ["[warmup] sources", "'chat'"]),
        ("[warmup]\nsources = [1]", ["[warmup] sources"]),
        ('[warmup]\nsources = ["chat", "chat"]', ["[warmup] sources", "twice"]),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(text: str, words: list[str]) -> None:
    message = refusal(text)
    for word in words:
        assert word in message


def test_the_origin_is_the_callers() -> None:
    with pytest.raises(ConfigError, match=r"^run\.toml \[policy\]: "):
        Policy.from_mapping({"extra": {}}, "run.toml [policy]")


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
weights = st.floats(0, LIMIT)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    floors = draw(st.dictionaries(names, weights, max_size=4))
    caps = {name: floor + draw(st.floats(0, 9)) for name, floor in floors.items() if floor < LIMIT - 9}
    caps |= draw(st.dictionaries(names.filter(lambda name: name not in floors), weights, max_size=3))
    span = sorted(draw(st.tuples(st.integers(1, 99), st.integers(1, 99))))
    sources = draw(st.lists(names, unique=True, min_size=1, max_size=3))
    return Policy(
        floors=floors,
        caps=caps,
        c=draw(weights),
        span=(span[0], span[1]),
        focus=draw(st.none() | st.integers(1, 99)),
        background=draw(st.floats(0, 1)),
        warmup_steps=draw(st.integers(0, 10**6)),
        warmup_sources=tuple(sources),
    )


@settings(deadline=None)
@given(policies())
def test_toml_and_back_gives_an_equal_policy(policy: Policy) -> None:
    assert parse_policy(dump_policy(policy), WHERE) == policy
    assert Policy.from_mapping(policy.to_mapping(), WHERE) == policy


@settings(deadline=None)
@given(st.floats(), st.floats())
def test_floor_and_cap_are_accepted_exactly_when_they_can_both_hold(floor: float, cap: float) -> None:
    legal = math.isfinite(floor) and math.isfinite(cap) and 0 <= floor <= cap <= LIMIT
    try:
        Policy.from_mapping({"floors": {"a": floor}, "caps": {"a": cap}}, WHERE)
    except ConfigError:
        assert not legal
    else:
        assert legal

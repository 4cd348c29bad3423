"""run.toml: three layers, every mistake named, and the presets' arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_engine.run.checkpoint import checkpoint_bytes
from andrea_engine.run.config import (
    RunConfig,
    create_run,
    load_config,
    parse_config,
    preset_names,
    preset_text,
    suggest_preset,
)
from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError, ExitCode

WHERE = "runs/x/run.toml"


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, WHERE)
    assert caught.value.exit_code == ExitCode.USAGE
    message = str(caught.value)
    assert message.startswith(f"{WHERE}")
    assert "\n" not in message
    return message.removeprefix(f"{WHERE}: ")


# -- presets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "shape", "vocab", "count", "size"),
    [
        ("12m", (384, 6, 12, 1024), 2305, 12_780_288, 153_363_464),
        ("120m", (768, 12, 12, 1024), 8449, 98_698_752, 1_184_385_032),
        ("480m", (1536, 16, 24, 1024), 8449, 480_513_024, 5_766_156_296),
    ],
)
def test_the_presets_of_the_mission(preset: str, shape: tuple[int, ...], vocab: int, count: int, size: int) -> None:
    config = parse_config(f'preset = "{preset}"', WHERE)
    model = config.model
    assert (model.d_model, model.layers, model.heads, model.context) == shape
    assert config.vocab == vocab
    assert config.n_params == count
    assert checkpoint_bytes(config.n_params) == size
    assert config.tokens_per_step == 8 * 1024
    assert (config.checkpoint.every, config.sample.every, config.schedule.steps) == (100, 100, 200_000)
    assert config.schedule.warmup_steps == 2000
    assert config.parsed_policy(WHERE).warmup_steps == 20_000


def test_every_shipped_preset_is_valid_and_the_smallest_comes_first() -> None:
    assert preset_names() == ["demo", "12m", "120m", "480m"]
    for name in preset_names():
        config = parse_config(preset_text(name), WHERE)
        assert config.sources
        named = config.parsed_policy(WHERE).sources()
        assert named <= {source["name"] for source in config.sources}
    with pytest.raises(ConfigError, match=r"no preset '\.\./x'; choose one of demo, 12m, 120m, 480m"):
        preset_text("../x")


@given(st.integers(1, 20), st.integers(1, 6), st.integers(2, 60), st.integers(1, 300))
def test_parameters_are_counted_matrix_by_matrix(d_model: int, layers: int, context: int, segments: int) -> None:
    """Token and position embedding, per layer wq wk wv wo and fc1 fc2 of width 4d, the head; nothing else."""
    config = parse_config(
        f"[model]\nd_model = {d_model}\nheads = 1\nlayers = {layers}\ncontext = {context}\n"
        f"[tokenizer]\nsegments = {segments}",
        WHERE,
    )
    vocab = segments + 257
    matrices = [(vocab, d_model), (context, d_model), (vocab, d_model)]
    for _ in range(layers):
        matrices += [(d_model, d_model)] * 4 + [(4 * d_model, d_model), (d_model, 4 * d_model)]
    assert config.n_params == sum(rows * columns for rows, columns in matrices)


@pytest.mark.parametrize(
    ("path", "preset"),
    [
        ("runs/120m", "120m"),
        ("runs/my-12m-test", "12m"),
        ("runs/480M", "480m"),
        ("runs/andrea_120m", "120m"),
        ("runs/demo", "demo"),
        ("120m/other", "demo"),
        ("runs/1120m", "demo"),
        ("runs/120mm", "demo"),
        ("runs/x", "demo"),
    ],
)
def test_a_name_suggests_a_preset(path: str, preset: str) -> None:
    assert suggest_preset(Path(path)) == preset


# -- layers -----------------------------------------------------------------------------------------------------------


def test_defaults_alone_are_a_valid_run() -> None:
    assert parse_config("", WHERE) == RunConfig()


def test_the_file_wins_over_its_preset_key_by_key() -> None:
    config = parse_config('preset = "120m"\nseed = 7\n[schedule]\nbatch = 4\n[gate]\nhalt = false', WHERE)
    below = parse_config('preset = "120m"', WHERE)
    assert (config.seed, config.schedule.batch, config.gate.halt) == (7, 4, False)
    assert config.schedule.peak_lr == below.schedule.peak_lr
    assert config.model == below.model
    assert config.sources == below.sources
    assert config.policy == below.policy


def test_policy_and_sources_replace_the_presets() -> None:
    config = parse_config(
        'preset = "120m"\n[policy.floors]\nmine = 0.5\n[[sources]]\nname = "mine"\nkind = "text"', WHERE
    )
    assert config.sources == [{"name": "mine", "kind": "text"}]
    assert config.parsed_policy(WHERE).sources() == {"mine"}


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[model\nd_model = 1", ["TOML", "line 1"]),
        ("a = " + "[" * 10_000, ["TOML"]),
        ("preset = 7", ["preset must be a name in quotes", "120m"]),
        ("modle = 1", ["unknown field", "modle"]),
        ("[model]\nd_modle = 1", ["model", "unknown field", "d_modle"]),
        ("[schedule]\nbatch = 0", ["schedule.batch: expected `int` >= 1"]),
        ("[schedule]\nbatch = 8.5", ["schedule.batch: expected `int`"]),
        ('[schedule]\nbatch = "8"', ["schedule.batch: expected `int`, got `str`"]),
        ("[schedule]\nbatch = true", ["schedule.batch: expected `int`, got `bool`"]),
        ("[schedule]\nsteps = 2147483648", ["schedule.steps", "2147483647"]),
        ("[schedule]\npeak_lr = 0", ["schedule.peak_lr"]),
        ("[schedule]\npeak_lr = nan", ["schedule.peak_lr"]),
        ("[schedule]\npeak_lr = inf", ["schedule.peak_lr"]),
        ("[schedule]\nweight_decay = inf", ["schedule.weight_decay"]),
        ("[schedule]\nfloor_ratio = 1.5", ["schedule.floor_ratio"]),
        ("[schedule]\nbeta2 = 1.0", ["schedule.beta2"]),
        ("[schedule]\nbeta1 = nan", ["schedule.beta1"]),
        ("[sample]\ntemperature = inf", ["sample.temperature"]),
        ("[sample]\ntemperature = -0.5", ["sample.temperature"]),
        ("[gate]\nthreshold = 101", ["gate.threshold"]),
        ("[gate]\nhalt = 1", ["gate.halt"]),
        ("[checkpoint]\nkeep_last = 1", ["checkpoint.keep_last", "2"]),
        ("[checkpoint]\nkeep_last = 0", ["checkpoint.keep_last", "2"]),
        ("[checkpoint]\nkeep_last = -1", ["checkpoint.keep_last", "2"]),
        ('[checkpoint]\nkeep = "some"', ["checkpoint.keep", "some"]),
        ('[device]\nname = "gpu"', ["device.name"]),
        ('[model]\nmlp = "gelu"', ["model.mlp", "gelu"]),
        ("[tokenizer]\nsegments = 65001", ["tokenizer.segments"]),
        ("model = 7", ["model: expected `object`"]),
        ("sources = 7", ["sources: expected `array`"]),
        ("seed = -1", ["seed"]),
        ("[model]\nd_model = 100\nheads = 3", ["d_model 100", "heads 3"]),
        ("[model]\nd_model = 32768\nheads = 8\nlayers = 2", ["parameters do not fit", "2,147,483,647"]),
        ("[sample]\nevery = 150", ["sample.every 150", "checkpoint.every 100"]),
        ('[[sources]]\nname = "a"\n[[sources]]\nname = "a"', ["two sources have the same name"]),
        ("[policy.floors]\na = 2\n[policy.caps]\na = 1", ["a"]),
        ("[policy]\nflors = {}", ["flors"]),
    ],
)
def test_every_mistake_is_named(text: str, words: list[str]) -> None:
    message = refusal(text)
    for word in words:
        assert word in message


def test_energy_has_no_price_until_one_is_given() -> None:
    assert parse_config("", WHERE).power.price_per_kwh is None
    power = parse_config('[power]\nprice_per_kwh = 0.31\ncurrency = "EUR"', WHERE).power
    assert (power.price_per_kwh, power.currency) == (0.31, "EUR")
    assert parse_config("[power]\nprice_per_kwh = 0", WHERE).power.price_per_kwh == 0
    assert refusal("[power]\nprice_per_kwh = -1").startswith("power.price_per_kwh")
    assert refusal('[power]\ncurrency = "pounds sterling"').startswith("power.currency")


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no preset '13m'; choose one of demo, 12m, 120m, 480m"):
        parse_config('preset = "13m"', WHERE)


@pytest.mark.parametrize("every", [(100, 50), (50, 100), (7, 7), (1, 9)])
def test_cadences_that_are_multiples_are_accepted(every: tuple[int, int]) -> None:
    assert parse_config(f"[sample]\nevery = {every[0]}\n[checkpoint]\nevery = {every[1]}", WHERE).sample.every


# -- creating ---------------------------------------------------------------------------------------------------------


def test_a_new_run_holds_what_was_asked(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "runs" / "120m")
    config = create_run(directory, "120m", {"schedule": {"steps": 50}, "seed": 9}, None)
    assert load_config(directory) == config
    assert (config.preset, config.schedule.steps, config.seed, config.model.d_model) == ("120m", 50, 9, 768)
    assert config.sources[0]["name"] == "python-topics"
    assert config.parsed_policy(WHERE).floor("python-topics") == 0.5
    assert [path.name for path in directory.path.iterdir()] == ["run.toml"]
    with pytest.raises(ConfigError, match="holds a run already"):
        create_run(directory, "demo", {}, None)
    assert load_config(directory) == config


def test_own_sources_drop_the_presets_policy(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "mine")
    config = create_run(directory, "demo", {}, [{"name": "notes", "kind": "text", "path": "/x"}])
    assert [source["name"] for source in config.sources] == ["notes"]
    assert config.policy == {}
    assert load_config(directory) == config


@pytest.mark.parametrize("overrides", [{"schedule": {"batch": 0}}, {"modle": {}}, {"model": {"heads": 7}}])
def test_an_invalid_wish_leaves_nothing(tmp_path: Path, overrides: dict[str, object]) -> None:
    directory = RunDirectory(tmp_path / "run")
    with pytest.raises(ConfigError):
        create_run(directory, "demo", overrides, None)
    assert not directory.path.exists()


def test_where_no_run_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be created"):
        create_run(RunDirectory(tmp_path / "file"), "demo", {}, None)
    foreign = RunDirectory(tmp_path / "foreign")
    foreign.path.mkdir()
    (foreign.path / "model.loss.json").write_text("[]")
    with pytest.raises(ConfigError, match="files of another run"):
        create_run(foreign, "demo", {}, None)
    with pytest.raises(ConfigError, match=r"no run\.toml, so it can be looked at but not trained"):
        load_config(foreign)
    with pytest.raises(ConfigError, match="is not a run directory; create it with"):
        load_config(RunDirectory(tmp_path / "missing"))


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x" * (1024 * 1024 + 1)], ids=["not-utf8", "huge"])
def test_a_file_that_cannot_be_text_is_refused(run: RunDirectory, data: bytes) -> None:
    run.config.write_bytes(data)
    with pytest.raises(ConfigError, match=r"run\.toml cannot be read"):
        load_config(run)

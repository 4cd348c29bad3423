"""The configuration of a run: `run.toml` as asked, every default resolved.

Three layers, later ones win: the defaults below, the preset named in `run.toml`, `run.toml` itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import tomli_w

from andrea_engine.run.directory import RunDirectory
from andrea_engine.run.errors import ConfigError
from andrea_engine.run.io import atomic_write, read_regular
from andrea_engine.run.policy import Policy

PRESETS = Path(__file__).resolve().parent.parent / "presets"
CONFIG_LIMIT = 1024 * 1024

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Above0 = Annotated[float, msgspec.Meta(gt=0, le=1e300)]  # TOML has inf, and no key here means anything by it
AtLeast0 = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of run.toml: a key that is not listed is a mistake, and is named."""


class ModelTable(Table, frozen=True):
    """The model's shape; `mlp` is the activation: `relu`, or `relu2` for its square."""

    d_model: Positive = 128
    layers: Positive = 4
    heads: Positive = 4
    context: Annotated[int, msgspec.Meta(ge=2)] = 256
    mlp: Literal["relu", "relu2"] = "relu"


class TokenizerTable(Table, frozen=True):
    """`segments`: learned segments; the vocabulary is segments + 256 bytes + 1 BOS."""

    segments: Annotated[int, msgspec.Meta(ge=1, le=65_000)] = 512


class ScheduleTable(Table, frozen=True):
    """Optimisation. `batch` sequences of `context` tokens make one step; `steps` is the planned total.

    `micro_batch`: sequences in memory at a time, a divisor of `batch`; 0 for all. Their gradients are averaged.
    """

    steps: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] = 200_000  # the file header holds an int32
    batch: Positive = 8
    micro_batch: Count = 0
    peak_lr: Above0 = 3e-4
    floor_ratio: Share = 0.1
    warmup_steps: Count = 2000
    weight_decay: AtLeast0 = 0.1
    clip: Above0 = 1.0
    beta1: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.999
    eps: Above0 = 1e-8


class CheckpointTable(Table, frozen=True):
    """Cadence and keep rule: the last `keep_last`, every `keep_every`-th step and pinned ones; `keep = "all"`."""

    every: Positive = 100
    min_seconds: AtLeast0 = 0.0
    keep: Literal["rule", "all"] = "rule"
    keep_last: Annotated[int, msgspec.Meta(ge=2)] = 10
    keep_every: Count = 5000


class SampleTable(Table, frozen=True):
    """Samples for the gate. `tokens` is cut to the context. A low temperature would judge the sampler.

    `prompts` are taken in turn; only what the model adds is scored.
    """

    every: Positive = 100
    tokens: Positive = 420
    temperature: AtLeast0 = 1.0
    prompts: Annotated[list[str], msgspec.Meta(min_length=1, max_length=100)] = msgspec.field(
        default_factory=lambda: [""]
    )


class ValidationTable(Table, frozen=True):
    """Loss on the held-out end of every source. `windows` of `context` tokens each; `every` 0 switches it off."""

    every: Count = 500
    windows: Positive = 8


class GateTable(Table, frozen=True):
    """The coherence gate: halt after `consecutive` samples below `threshold`; the rest are alarms.

    `window_share` of the last `window` samples below it (which halts too with `halt_on_window`); one axis below
    `axis_share` of its range for `axis_consecutive` samples; the mean of `divergence_samples` samples falling by
    `divergence_drop` points together with the loss. `halt = false` only watches.
    """

    threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 30.0
    consecutive: Positive = 5
    window: Positive = 20
    window_share: Share = 0.6
    axis_share: Share = 0.4
    axis_consecutive: Positive = 5
    divergence_samples: Positive = 10
    divergence_drop: Annotated[float, msgspec.Meta(ge=0, le=100)] = 15.0
    halt: bool = True
    halt_on_window: bool = False


class DeviceTable(Table, frozen=True):
    """`name`: auto, cpu, cuda or cuda:N. `nproc`: processes that share each batch, on CUDA one a device. `threads`: CPU
    threads of each process, 0 for an equal share of those that may be used.

    `precision` of forward and backward; weights, gradients and moments are float32 always. auto: bf16 where the device
    multiplies it faster (CUDA from compute capability 8.0, CPUs with AMX), else fp32. `compile` the step with
    torch.compile; auto: on CUDA where a compiler is found. `cuda_graphs`; auto: for models so small that launching
    kernels takes as long as running them. `deterministic`: the same bits on every run, also on CUDA and when compiled.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    nproc: Positive = 1
    threads: Count = 0
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: Literal["auto", "on", "off"] = "auto"
    cuda_graphs: Literal["auto", "on", "off"] = "auto"
    deterministic: bool = False


class PowerTable(Table, frozen=True):
    """What energy costs: `price_per_kwh` in `currency` (at most 8 characters); without a price no cost is shown."""

    price_per_kwh: AtLeast0 | None = None
    currency: Annotated[str, msgspec.Meta(max_length=8)] = ""


class RunConfig(Table, frozen=True):
    """A whole run.toml. `policy` is validated by `Policy`, `sources` by the data package."""

    preset: str = ""
    seed: Count = 1337
    on_alarm: list[str] = []
    model: ModelTable = ModelTable()
    tokenizer: TokenizerTable = TokenizerTable()
    schedule: ScheduleTable = ScheduleTable()
    checkpoint: CheckpointTable = CheckpointTable()
    sample: SampleTable = SampleTable()
    validation: ValidationTable = ValidationTable()
    gate: GateTable = GateTable()
    device: DeviceTable = DeviceTable()
    power: PowerTable = PowerTable()
    policy: dict[str, object] = {}
    sources: list[dict[str, object]] = []

    @property
    def vocab(self) -> int:
        return self.tokenizer.segments + 256 + 1

    @property
    def n_params(self) -> int:
        """Parameters of the model: untied head, no biases, no norm parameters (12 d^2 a layer)."""
        m = self.model
        return 2 * self.vocab * m.d_model + m.context * m.d_model + m.layers * 12 * m.d_model**2

    @property
    def tokens_per_step(self) -> int:
        return self.schedule.batch * self.model.context

    def parsed_policy(self, where: str) -> Policy:
        """The policy table, validated. Raises ConfigError."""
        return Policy.from_mapping(self.policy, where)


def preset_names() -> list[str]:
    """Names of the shipped presets, smallest model first."""
    names = [path.stem for path in PRESETS.glob("*.toml")]
    return sorted(names, key=lambda name: (name != "demo", int(re.sub(r"\D", "", name) or 0)))


def suggest_preset(path: Path) -> str:
    """Preset that a directory's name suggests: `runs/120m` gives 120m, any other name gives demo."""
    name = path.name.lower()
    found = [preset for preset in preset_names() if re.search(rf"(?<![0-9a-z]){preset}(?![0-9a-z])", name)]
    return found[0] if found else "demo"


def preset_text(name: str) -> str:
    """The preset's TOML with its comments. Raises ConfigError for an unknown name."""
    if name not in preset_names():
        raise ConfigError(f"there is no preset '{name}'; choose one of {', '.join(preset_names())}")
    return (PRESETS / f"{name}.toml").read_text(encoding="utf-8")


def load_config(directory: RunDirectory) -> RunConfig:
    """Read and validate `run.toml`. Raises ConfigError with file, key and what is expected."""
    directory.require()
    try:
        text = read_regular(directory.config, CONFIG_LIMIT).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{directory.config} cannot be read: {error}") from error
    return parse_config(text, str(directory.config))


def parse_config(text: str, where: str) -> RunConfig:
    """Resolve the text of a run.toml over its preset and the defaults. Raises ConfigError."""
    try:
        asked = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise ConfigError(f"{where} is not valid TOML: {error}") from None
    preset = asked.get("preset", "")
    if not isinstance(preset, str):
        raise ConfigError(f"{where}: preset must be a name in quotes, one of {', '.join(preset_names())}")
    layers = _merged(tomllib.loads(preset_text(preset)), asked) if preset else asked
    _refuse_command_line(layers, where)
    if "devices" in layers:
        raise ConfigError(f"{where}: the table is called [device]; how many processes share a batch is nproc in it")
    try:
        config = msgspec.convert(layers, RunConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_readable(error)}") from None
    _check(config, where)
    return config


def _merged(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Tables are merged key by key. Policy and sources replace the preset's: they list, and lists do not mix."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and key != "policy":
            result[key] = _merged(below, value)
        else:
            result[key] = value
    return result


def _readable(error: msgspec.ValidationError) -> str:
    """`Expected ... - at `$.schedule.batch`` becomes `schedule.batch: expected ...`."""
    message, _, place = str(error).partition(" - at `$.")
    message = message[:1].lower() + message[1:]
    return f"{place.rstrip('`')}: {message}" if place else message


def _refuse_command_line(layers: Mapping[str, object], where: str) -> None:
    """The commonest mistake gets its own words: a command is a list, because no shell takes it apart."""
    if isinstance(layers.get("on_alarm"), str):
        raise ConfigError(
            f'{where}: on_alarm must be a list of words, as ["notify", "me"], not one string: no shell reads it'
        )


def _check(config: RunConfig, where: str) -> None:
    model = config.model
    if model.d_model % model.heads:
        raise ConfigError(f"{where}: model.d_model {model.d_model} is not a multiple of model.heads {model.heads}")
    if config.n_params > 2**31 - 1:
        raise ConfigError(
            f"{where}: {config.n_params:,} parameters do not fit the checkpoint format (at most {2**31 - 1:,}); "
            f"make the model smaller"
        )
    schedule = config.schedule
    if schedule.micro_batch and schedule.batch % schedule.micro_batch:
        raise ConfigError(
            f"{where}: schedule.micro_batch {schedule.micro_batch} does not divide schedule.batch {schedule.batch}"
        )
    if schedule.batch % config.device.nproc:
        raise ConfigError(
            f"{where}: device.nproc {config.device.nproc} does not divide schedule.batch {schedule.batch}: each "
            f"process computes its share of the batch"
        )
    if config.sample.every % config.checkpoint.every and config.checkpoint.every % config.sample.every:
        raise ConfigError(
            f"{where}: sample.every {config.sample.every} and checkpoint.every {config.checkpoint.every} must be "
            f"multiples of one another, so that checkpoints have a fresh sample"
        )
    command = config.on_alarm
    if command and (not command[0] or any("\0" in word for word in command)):
        raise ConfigError(f"{where}: on_alarm must begin with the name of a program and hold no NUL character")
    names = [source.get("name") for source in config.sources]
    if len(set(map(str, names))) != len(names):
        raise ConfigError(f"{where}: two sources have the same name; every [[sources]] needs its own")
    config.parsed_policy(where)


def create_run(
    directory: RunDirectory, preset: str, overrides: Mapping[str, object], sources: list[dict[str, object]] | None
) -> RunConfig:
    """Make a run directory with its run.toml. Raises ConfigError and leaves nothing when the result is not valid.

    `overrides` are nested tables laid over the preset; `sources` replace the preset's when given, and then the
    preset's floors and caps, which name its own sources, are left out.
    """
    if directory.exists():
        raise ConfigError(f"{directory.path} holds a run already; train it, or choose another name")
    if directory.is_foreign_run():
        raise ConfigError(f"{directory.path} holds files of another run; choose another name")
    tables = _merged(tomllib.loads(preset_text(preset)), overrides)
    if sources:
        tables["sources"] = sources
        tables["policy"] = overrides.get("policy", {})
    text = _HEADER.format(preset=preset) + tomli_w.dumps({"preset": preset, **tables})
    config = parse_config(text, str(directory.config))
    try:
        directory.path.mkdir(parents=True, exist_ok=True)
        atomic_write(directory.config, text.encode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{directory.path} cannot be created: {error.strerror}") from error
    return config


_HEADER = """\
# What was asked of this run. Every key and its meaning: README, "The run directory".
# Started from the preset {preset}; what the engine made of it stands in run.lock.json.
"""

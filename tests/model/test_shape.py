from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andrea_engine.model.shape import ModelShape

M12 = ModelShape(d_model=384, layers=6, heads=12, context=1024, vocab=2305)
M120 = ModelShape(d_model=768, layers=12, heads=12, context=1024, vocab=8449)
M480 = ModelShape(d_model=1536, layers=16, heads=24, context=1024, vocab=8449)


@pytest.mark.parametrize(
    ("shape", "n_params", "file_bytes"),
    [
        (M12, 12_780_288, 153_363_464),
        (M120, 98_698_752, 1_184_385_032),
        (M480, 480_513_024, 5_766_156_296),
    ],
)
def test_presets_have_the_published_sizes(shape: ModelShape, n_params: int, file_bytes: int) -> None:
    assert shape.n_params == n_params
    assert shape.checkpoint_bytes == file_bytes


def test_parameters_are_listed_in_file_order() -> None:
    shape = ModelShape(d_model=6, layers=2, heads=3, context=5, vocab=11)
    layer = [
        ("wq", (6, 6)),
        ("wk", (6, 6)),
        ("wv", (6, 6)),
        ("wo", (6, 6)),
        ("fc1", (24, 6)),
        ("fc2", (6, 24)),
    ]
    assert shape.parameters() == [
        ("token_embedding", (11, 6)),
        ("position_embedding", (5, 6)),
        *((f"layers.0.{name}", dims) for name, dims in layer),
        *((f"layers.1.{name}", dims) for name, dims in layer),
        ("head", (11, 6)),
    ]


@settings(deadline=None)
@given(
    width=st.integers(1, 40),
    heads=st.integers(1, 8),
    layers=st.integers(1, 12),
    context=st.integers(1, 300),
    vocab=st.integers(1, 3000),
)
def test_count_follows_the_closed_formula(width: int, heads: int, layers: int, context: int, vocab: int) -> None:
    d = width * heads
    shape = ModelShape(d_model=d, layers=layers, heads=heads, context=context, vocab=vocab)
    assert shape.n_params == 12 * layers * d * d + (2 * vocab + context) * d
    assert shape.head_dim == width


def test_flops_count_matrix_products_and_half_of_the_attention_square() -> None:
    # One layer of width 2 with vocabulary 3: weights 12 * 4 + 3 * 2 = 54, attention 12 * 2 * 10 / 2 = 120.
    tiny = ModelShape(d_model=2, layers=1, heads=1, context=10, vocab=3)
    assert tiny.flops_per_token(10) == 6 * 54 + 120
    assert M12.flops_per_token(1024) == 6 * (10_616_832 + 885_120) + 14_155_776  # 83.2 million
    assert M120.flops_per_token(1024) == 6 * (84_934_656 + 6_488_832) + 56_623_104  # 605 million


@pytest.mark.parametrize("field", ["d_model", "layers", "heads", "context", "vocab"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8"])
def test_sizes_must_be_positive_integers(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"model {field} must be a positive integer, got {value!r}"):
        replace(M12, **{field: value})  # type: ignore[arg-type]


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"d_model \(384\) must be a multiple of heads \(5\)"):
        replace(M12, heads=5)


def test_unknown_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="relu, relu2, got 'gelu'"):
        replace(M12, mlp="gelu")  # type: ignore[arg-type]


def test_the_header_limit_is_exact() -> None:
    # With d_model 1 the count is 12 + 2 * vocab + context, here 2**31 - 1 and one more.
    largest = ModelShape(d_model=1, layers=1, heads=1, context=1, vocab=2**30 - 7)
    assert largest.n_params == 2**31 - 1
    with pytest.raises(ValueError, match="2,147,483,648 parameters"):
        replace(largest, context=2)


def test_shape_needs_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, andrea_engine.model.shape as s; s.ModelShape(8, 1, 2, 4, 5).n_params; "
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

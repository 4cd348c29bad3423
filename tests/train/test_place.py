"""Which process of a run this is, and the device it takes."""

from __future__ import annotations

import pytest
import torch

from andrea_engine.run.errors import ConfigError
from andrea_engine.train import environment
from andrea_engine.train.place import Place


def test_a_place_is_what_torchrun_tells() -> None:
    assert Place.of({}) == Place(0, 1, 0, 1, 0)
    told = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1"}
    assert Place.of(told) == Place(5, 8, 1, 4, 1)
    assert not Place.of(told).leads
    assert Place.of({"RANK": "1", "WORLD_SIZE": "2"}) == Place(1, 2, 1, 2, 0), "started without torchrun"


@pytest.mark.parametrize(
    "wrong",
    [
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "x", "WORLD_SIZE": "2"},
        {"LOCAL_WORLD_SIZE": "3"},
        {"WORLD_SIZE": "0"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"},
    ],
)
def test_what_torchrun_cannot_have_set_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        Place.of(wrong)


def test_each_process_of_a_machine_takes_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    third_of_four = Place(rank=3, size=4, local_rank=1, local_size=2, node=1)
    assert environment._device("auto", third_of_four) == torch.device("cuda:1")
    assert environment._device("cuda", Place()) == torch.device("cuda")
    assert environment._device("cuda:1", Place()) == torch.device("cuda:1")
    assert environment._device("cpu", third_of_four) == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"device.name is cuda:1, but 2 processes need a device each; use auto"):
        environment._device("cuda:1", third_of_four)
    with pytest.raises(ConfigError, match=r"3 processes need a CUDA device each, and there are 2"):
        environment._device("auto", Place(rank=0, size=3, local_rank=0, local_size=3))


@pytest.mark.parametrize(
    ("asked", "rows", "size"), [(0, 8, 0), (8, 8, 0), (16, 8, 0), (4, 8, 4), (3, 8, 2), (3, 9, 3), (4, 5, 1)]
)
def test_micro_batches_divide_the_share_of_a_process(asked: int, rows: int, size: int) -> None:
    assert environment._micro_batch(asked, rows) == size

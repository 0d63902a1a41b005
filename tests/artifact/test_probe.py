"""A small fault in one number of any operation fails, in both precisions, and the numbers kept are right."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.artifact.definitions import NUMBERS, known_numbers
from torchsmith.artifact.smoke_test import PROBE

FAULT = 1e-3
OPERATIONS = (
    "matrix_product",
    "convolution",
    "normalized",
    "linear_algebra",
    "vision_ops",
    "audio_transform",
)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The probe's functions, without the run that it ends with."""
    monkeypatch.setattr(sys, "argv", ["-c", str(PROBE)])
    names: dict[str, Any] = {"__name__": "probe"}
    exec(compile(PROBE.read_text().removesuffix("main()\n"), str(PROBE), "exec"), names)
    return names


def tensor(values: list[float]) -> Any:
    return SimpleNamespace(cpu=lambda: SimpleNamespace(tolist=lambda: values))


@pytest.fixture
def references(probe: dict[str, Any]) -> dict[str, list[float]]:
    """What each operation should give, caught where it is compared."""
    found: dict[str, list[float]] = {}

    def catch(torch: Any, device: str, name: str, action: Callable[[Any], Any], want: Any) -> str:
        assert action(lambda values: MagicMock()) is not None
        found[name] = probe["flat"](want)
        return ""

    library = MagicMock()
    library.ops.nms.return_value.tolist.return_value = known_numbers()["nms"]["kept"]
    probe["in_both"] = catch
    probe["importlib"] = SimpleNamespace(import_module=lambda name: library)
    for operation in OPERATIONS:
        probe[operation](library, "cpu")
    return found


def test_a_fault_in_any_one_number_is_found_in_both_precisions(
    probe: dict[str, Any], references: dict[str, list[float]]
) -> None:
    assert references.keys() == probe["LIMITS"].keys()
    for name, numbers in references.items():
        for limit in probe["LIMITS"][name]:
            assert probe["close"](tensor(numbers), numbers, limit) == 0
            for place in range(0, len(numbers), max(1, len(numbers) // 50)):
                wrong = [*numbers[:place], numbers[place] + FAULT, *numbers[place + 1 :]]
                with pytest.raises(AssertionError, match=f"number {place} is"):
                    probe["close"](tensor(wrong), numbers, limit)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_named(value: float, probe: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=f"number 2 is {value}"):
        probe["close"](tensor([1.0, 2.0, value, 4.0]), [1.0, 2.0, 3.0, 4.0], 1e-5)


def test_the_numbers_of_operators_are_what_their_definitions_say() -> None:
    def flat(value: Any) -> list[float]:
        parts = list(value.values()) if isinstance(value, dict) else value
        return [one for part in parts for one in flat(part)] if isinstance(parts, list) else [float(parts)]

    kept = json.loads(Path(NUMBERS).read_text())
    assert flat(kept) == pytest.approx(flat(known_numbers()), rel=1e-12)


@pytest.mark.parametrize(("device", "status"), [("cuda", "passed"), ("cpu", "skipped")])
def test_the_trial_of_a_package_may_skip_a_device(device: str, status: str, probe: dict[str, Any]) -> None:
    out = StringIO()
    trial = 'assert device != "cpu" or skip("kernels for GPUs alone")'
    run = probe["own_trial"]({"module": "json", "trial": trial})
    probe["Probe"](out).step("its kernels", run, None, device)
    assert json.loads(out.getvalue().splitlines()[-1])["status"] == status


def test_a_build_is_tried_with_full_float32_precision(probe: dict[str, Any]) -> None:
    torch = MagicMock(__version__="2.10.0")
    probe["send"] = lambda *_, **facts: None
    probe["Probe"](StringIO()).facts(torch)
    assert torch.backends.cudnn.allow_tf32 is False
    assert torch.backends.cuda.matmul.allow_tf32 is False


def test_a_step_that_is_skipped_takes_no_time(probe: dict[str, Any]) -> None:
    probe["Probe"](out := StringIO()).skip("its kernels", "no GPU")
    assert json.loads(out.getvalue())["seconds"] == 0


def test_magma_is_chosen_for_its_trial_and_the_choice_before_it_is_restored(probe: dict[str, Any]) -> None:
    torch = MagicMock()
    chosen = torch.backends.cuda.preferred_linalg_library
    before = chosen.return_value
    probe["linear_algebra"] = lambda *_: str(chosen.call_args.args)
    assert probe["magma"](torch, "cuda") == "('magma',)"
    assert chosen.call_args.args == (before,)


def test_the_convolution_is_of_squares_of_one_size(probe: dict[str, Any]) -> None:
    sizes = set()

    def compared(_torch: Any, _device: str, _name: str, action: Callable[[Any], Any], want: Any) -> str:
        images, _ = action(lambda values: values)
        sizes.update(
            {(len(plane), len(row)) for image in (*images, *want) for plane in image for row in plane}
        )
        return ""

    probe["in_both"] = compared
    functional = SimpleNamespace(conv2d=lambda images, kernels, padding: (images, kernels))
    probe["convolution"](SimpleNamespace(nn=SimpleNamespace(functional=functional)), "cpu")
    assert sizes == {(16, 16)}

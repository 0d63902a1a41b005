"""Values of the axes print what they parse."""

import copy
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchsmith.catalog import CudaVersion, DriverVersion, GpuTarget, PythonVersion, Sm
from torchsmith.catalog.axes import Axis, BadValue

small = st.integers(0, 99)


@given(small, small)
def test_a_cuda_version_reads_its_own_text_and_its_slug(major: int, minor: int) -> None:
    version = CudaVersion(major, minor)
    assert CudaVersion.parse(str(version)) == CudaVersion.parse(version.slug) == version


@given(st.integers(1, 9), small)
def test_a_python_version_reads_its_own_text_and_its_slug(major: int, minor: int) -> None:
    version = PythonVersion(major, minor)
    assert PythonVersion.parse(str(version)) == PythonVersion.parse(version.slug) == version


@given(st.integers(10, 999), st.sampled_from(["", "a", "f"]))
def test_a_gpu_target_reads_every_spelling_of_itself(number: int, form: str) -> None:
    target = GpuTarget.parse(f"{number}{form}")
    assert str(target) == f"{number}{form}"
    for text in (f"sm_{number}{form}", f"sm{number}{form}", f"compute_{number}{form}"):
        assert GpuTarget.parse(text) == target
    assert Sm.parse(target.sm.capability) == target.sm


def test_gpus_sort_by_number_and_drivers_by_part() -> None:
    assert sorted([Sm(120), Sm(89), Sm(100)]) == [Sm(89), Sm(100), Sm(120)]
    assert DriverVersion.parse("525.60.13") < DriverVersion.parse("525.147") < DriverVersion.parse("580")


@pytest.mark.parametrize("text", ["", "13", "13.x", "sm120", "13.0.1", "-1.0"])
def test_a_word_that_is_no_cuda_version_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match=re.escape(repr(text))):
        CudaVersion.parse(text)


@pytest.mark.parametrize(
    "value", [CudaVersion(13, 0), PythonVersion(3, 13), Sm(90), GpuTarget(Sm(90), "a"), DriverVersion((580,))]
)
def test_there_is_one_object_of_each_value_which_nobody_can_change(value: Axis) -> None:
    assert pickle.loads(pickle.dumps(value)) is value
    assert copy.deepcopy(value) is value
    with pytest.raises(AttributeError):
        setattr(value, "major", 3)  # noqa: B010


def test_values_of_different_axes_are_never_equal_nor_ordered() -> None:
    cuda, python = CudaVersion(3, 13), PythonVersion(3, 13)
    assert len({cuda, python}) == 2
    assert GpuTarget(Sm(90)) is GpuTarget(Sm(90), "")
    with pytest.raises(TypeError):
        _ = cuda < python  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "x.y", "580.", "580.65.06.01.02", "12345"])
def test_what_cannot_be_a_driver_is_refused(text: str) -> None:
    with pytest.raises(BadValue, match="is not a driver version"):
        DriverVersion.parse(text)

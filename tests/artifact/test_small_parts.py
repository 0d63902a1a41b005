"""Small parts of reading machine code and GPU code, each by a few bytes."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchsmith.artifact import calls, interpreter
from torchsmith.artifact.elf import FUNCTION
from torchsmith.artifact.gpu import gpu_code
from torchsmith.artifact.interpreter import interpreter_for
from torchsmith.artifact.origin import _Symbols
from torchsmith.catalog import GpuTarget, builtin_catalog
from torchsmith.core.problem import NotFound

X86: Any = SimpleNamespace(machine="x86_64")
JUMP = b"\xff\x25" + struct.pack("<i", 0x10)  # through the slot 16 bytes behind it


def test_a_jump_through_a_slot_counts_as_the_last_instruction_too() -> None:
    assert list(calls.addresses_in(X86, JUMP, 0x1000)) == [0x1016]


def test_an_entry_of_the_linkage_table_is_known_by_its_slot() -> None:
    section = SimpleNamespace(name=".plt", holds_code=True, address=0x1000)
    elf: Any = SimpleNamespace(machine="x86_64", sections=[section], bytes_of=lambda _: b"\x90" + JUMP)
    assert list(calls._plt_entries(elf, {0x1017})) == [(0x1001, 0x1017)]
    assert list(calls._plt_entries(elf, {0x1018})) == []


def test_code_that_only_some_containers_hold_is_stray() -> None:
    common, rare = map(GpuTarget.parse, ("9.0", "7.5"))
    every, more = (
        SimpleNamespace(entries=[SimpleNamespace(kind="elf", target=target, size=1) for target in targets])
        for targets in ((common,), (common, rare))
    )
    containers: Any = [every] * 30 + [more]
    assert {row.target: row.stray for row in gpu_code([containers]).rows} == {common: False, rare: True}


def test_gpu_code_is_of_the_library_of_the_last_functions_too() -> None:
    strings = b"\0fatbinData\0_ZN5magma4gemmEv\0"
    rows = [(1, 1, 0, 1, 0x100, 8), (12, FUNCTION, 0, 2, 0x1000, 8)]
    sections = [SimpleNamespace(name=name) for name in ("", ".nv_fatbin", ".text")]
    elf: Any = SimpleNamespace(sections=sections)
    symbols = _Symbols(elf, strings, rows)
    assert symbols.library_of(symbols.units[0x100]) == "MAGMA"


def test_other_outputs_of_a_store_path_are_those_that_nix_has_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, other, deriver = tmp_path / "a-torch", tmp_path / "b-torch-dev", tmp_path / "c-torch.drv"
    built.mkdir()
    other.mkdir()
    deriver.touch()
    answers = {"--deriver": f"{deriver}\n", "--outputs": f"{built}\n{other}\n"}
    monkeypatch.setattr(interpreter, "find", lambda _: "nix-store")
    monkeypatch.setattr(interpreter, "run", lambda words, timeout: SimpleNamespace(stdout=answers[words[2]]))
    for store, outputs in ((tmp_path, [built, other]), (tmp_path / "elsewhere", [])):
        monkeypatch.setattr(interpreter, "_store", lambda store=store: store)
        assert list(interpreter._outputs(built)) == outputs


def test_what_is_not_there_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        interpreter_for(tmp_path / "result", builtin_catalog())

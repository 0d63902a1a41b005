"""Instructions are what GNU's tools say, and verdicts what the compiler was told."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tests.artifact import toolkit
from tests.artifact.toolkit import checked
from torchsmith.artifact.check import Check
from torchsmith.artifact.cpu import scan
from torchsmith.artifact.cpu_promise import cpu_promise
from torchsmith.artifact.elf import ElfMachine, read_elf
from torchsmith.artifact.features import LEGACY_SSE
from torchsmith.artifact.identity import compile_flags, stated
from torchsmith.artifact.inspect import inspect
from torchsmith.artifact.source import open_file
from torchsmith.artifact.units import kind_of
from torchsmith.catalog import Isa, Package, builtin_catalog
from torchsmith.edge.process import run

TRIPLES: dict[ElfMachine, str] = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
CATALOG = builtin_catalog()
EXTENSION = Path(__file__).with_name("extension")

INSTRUCTIONS: dict[ElfMachine, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("instructions.toml").read_text()
)  # type: ignore[assignment]


def assemble(machine: ElfMachine, lines: list[str], folder: Path) -> bytes:
    """The bytes of instructions, from GNU's assembler."""
    source, made, raw = folder / "a.s", folder / "a.o", folder / "a.bin"
    source.write_text("\n".join(lines) + "\n")
    options = ["-march=armv9-a+bf16+i8mm+fp16fml+sve2+sme"] if machine == "aarch64" else []
    checked(f"{TRIPLES[machine]}-as", *options, source, "-o", made)
    checked(f"{TRIPLES[machine]}-objcopy", "-O", "binary", "-j", ".text", made, raw)
    return raw.read_bytes()


def told(machine: ElfMachine, line: str, folder: Path) -> str:
    """The telling feature of one instruction."""
    uses = scan(machine, assemble(machine, [line], folder)).first.values()
    telling = next((use.features[-1] for use in uses), LEGACY_SSE)
    return "baseline" if telling == LEGACY_SSE else telling


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize(
    ("machine", "feature"), [(machine, feature) for machine, rows in INSTRUCTIONS.items() for feature in rows]
)
def test_an_instruction_needs_the_feature_it_belongs_to(
    machine: ElfMachine, feature: str, tmp_path: Path
) -> None:
    lines = INSTRUCTIONS[machine][feature].split("\n")[:-1]
    assert {line: told(machine, line, tmp_path) for line in lines} == dict.fromkeys(lines, feature)


def sets_of(machine: ElfMachine) -> list[Isa]:
    return [isa for isa in CATALOG.isas.values() if isa.platform.startswith(machine)]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("extension")


@cache
def compiled(machine: ElfMachine, flags: tuple[str, ...], work: Path) -> Path:
    """The extension's C++ unit."""
    made = work / f"{machine}{''.join(flags)}.o"
    options = ("-O2", "-std=c++17", "-fPIC", *flags)
    checked(f"{TRIPLES[machine]}-g++", *options, "-c", EXTENSION / "ops.cpp", "-o", made)
    return made


def renamed(machine: ElfMachine, unit: Path) -> Path:
    """The same code in other namespaces, of which nothing but symbols tells."""
    made, table = unit.with_suffix(".renamed.o"), unit.with_suffix(".names")
    names = checked(f"{TRIPLES[machine]}-nm", "--format=just-symbols", unit).split()
    new = {name: name.replace("6vision", "4mine").replace("2at6Tensor", "6theirs6Tensor") for name in names}
    table.write_text("".join(f"{name} {other}\n" for name, other in new.items() if name != other))
    checked(f"{TRIPLES[machine]}-objcopy", f"--redefine-syms={table}", unit, made)
    return made


def nvcc(machine: ElfMachine, *options: str | Path, flags: tuple[str, ...] = ()) -> str:
    """Run nvcc on the extension's CUDA unit; flags reach the host compiler."""
    host = (f"-ccbin={TRIPLES[machine]}-g++", f"-Xcompiler={','.join(('-fPIC', *flags))}")
    # libstdc++ 14 of x86_64 has the first, which an nvcc that runs on ARM does not know.
    known = "-D__builtin_nansq=__builtin_nan"
    words = ("-arch=sm_90", "-O2", "-std=c++17", known, *host, *options, EXTENSION / "ops.cu")
    done = run([toolkit.cuda_home() / "bin" / "nvcc", *words], timeout=120)
    assert done.ok, done.stderr
    return done.stderr


@cache
def host_half(machine: ElfMachine, work: Path) -> Path:
    """What nvcc hands to the host compiler, under such a name as it has; code for the GPU lies beside it."""
    kept = work / f"{machine}-kept"
    kept.mkdir()
    nvcc(machine, "--keep", f"--keep-dir={kept}", "-cuda", "-o", kept / "ops.ii")
    return (kept / "ops.cudafe1.cpp").rename(kept / "tmpxft_00003a48_00000000-6_ops.cudafe1.cpp")


@cache
def compiled_by_nvcc(machine: ElfMachine, flags: tuple[str, ...], work: Path) -> Path:
    """The extension's CUDA unit: nvcc's last step, with the flags; those before it do not depend on them."""
    made, half = work / f"{machine}{''.join(flags)}.cu.o", host_half(machine, work)
    steps = nvcc(machine, "--dryrun", "--keep", f"--keep-dir={half.parent}", "-c", "-o", made, flags=flags)
    last = steps.splitlines()[-1].removeprefix("#$ ")
    assert all(flag in last for flag in flags)
    checked("sh", "-c", last.replace("/ops.cudafe1.cpp", f"/{half.name}"))
    return made


def linked(machine: ElfMachine, objects: list[Path], *options: str) -> Path:
    made = objects[0].with_suffix(f".{len(objects)}{''.join(options)}.so")
    checked(f"{TRIPLES[machine]}-g++", "-shared", "-o", made, *objects, *options)
    return made


def wrong(checks: list[Check]) -> list[str]:
    return [check.text for check in checks if check.status == "wrong"]


# As PyTorch tells its build options: gcc lays such texts down as vector constants, as wide as the set allows.
OPTIONS = """\
#include <map>
#include <string>
const std::map<std::string, std::string>& options() {{
  static const std::map<std::string, std::string> kept = {{
    {{"CXX_FLAGS", "{flags} -fvisibility-inlines-hidden -DNDEBUG -DSYMBOLICATE_MOBILE_DEBUG_HANDLE -O2 -fPIC"
     " -DC10_NODEPRECATED -Wall -Wextra -Werror=return-type -Werror=non-virtual-dtor -Wno-unknown-pragmas"
     " -fdiagnostics-color=always -faligned-new -fno-math-errno -fno-trapping-math -Wno-stringop-overflow"}},
    {{"BUILD_TYPE", "Release"}}, {{"BLAS_INFO", "open"}}, {{"LAPACK_INFO", "open"}}, {{"USE_CUDA", "0"}}}};
  return kept;
}}
"""


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("level", ["-O2", "-O3"])
@pytest.mark.parametrize("isa", CATALOG.isas.values(), ids=lambda isa: isa.name)
def test_flags_are_read_however_a_compiler_lays_them_down(isa: Isa, level: str, tmp_path: Path) -> None:
    machine: ElfMachine = "aarch64" if isa.platform.startswith("aarch64") else "x86_64"
    source, made = tmp_path / "options.cpp", tmp_path / "libtorch_cpu.so"
    source.write_text(OPTIONS.format(flags=" ".join(isa.flags)))
    checked(f"{TRIPLES[machine]}-g++", level, "-fPIC", "-shared", *isa.flags, source, "-o", made)
    with open_file(made) as opened:
        said = stated(compile_flags(read_elf(opened)), machine, isa)
    assert said is not None
    assert said.names, said.text


# Code for avx2 may show nothing of it: so small an extension does not tell, which must be said.
UNTOLD = {("avx", "avx2")}


def disagreements(
    library: Path, machine: ElfMachine, built: str, package: Package | None = None
) -> list[str]:
    """Names under which a library is judged otherwise than the flags it was built with say."""
    seen, found = inspect(library, package=package), []
    for isa in sets_of(machine):
        checks = list(cpu_promise(seen, isa, CATALOG))
        alike = any(check.id == "set" and built in check.text for check in checks)
        if (built, isa.name) in UNTOLD:
            alike = any(check.id == "flags" and check.status == "note" for check in checks)
        # Where host halves of CUDA units are all that shows, it is said so, and publish refuses it as well.
        unjudged = any(check.id == "flags" and check.status == "unjudged" for check in checks)
        if (bool(wrong(checks)) or unjudged) != (isa.name != built and not alike):
            found.append(f"{library.name} built for {built}, judged as {isa.name}: {checks}")
    return found


LINKING = [(*static, *stripped) for static, stripped in product(((), ("-static-libstdc++",)), ((), ("-s",)))]


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("options", LINKING, ids=" ".join)
@pytest.mark.parametrize("built", [*CATALOG.isas, "x86_64", "aarch64"])
def test_a_build_is_accepted_under_its_own_name_alone(
    built: str, options: tuple[str, ...], work: Path
) -> None:
    isa = CATALOG.isas.get(built)
    machine: ElfMachine = "x86_64" if (isa.platform if isa else built).startswith("x86_64") else "aarch64"
    unit = compiled(machine, isa.flags if isa else (), work)
    assert not disagreements(linked(machine, [unit], *options), machine, built)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("strip", [(), ("-s",)], ids=" ".join)
@pytest.mark.parametrize("built", [*CATALOG.isas, "x86_64", "aarch64"])
def test_code_in_any_namespace_is_a_package_s_own(
    built: str, strip: tuple[str, ...], work: Path, tmp_path: Path
) -> None:
    isa = CATALOG.isas.get(built)
    machine: ElfMachine = "x86_64" if (isa.platform if isa else built).startswith("x86_64") else "aarch64"
    made = tmp_path / "site/xformers/_C.so"
    made.parent.mkdir(parents=True)
    unit = renamed(machine, compiled(machine, isa.flags if isa else (), work))
    linked(machine, [unit], *strip).rename(made)
    if not strip:
        assert not re.search("vision|2at6Tensor", checked(f"{TRIPLES[machine]}-nm", made))
    assert not disagreements(tmp_path / "site", machine, built, CATALOG.packages["xformers"])


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("options", LINKING, ids=" ".join)
@pytest.mark.parametrize("built", [*CATALOG.isas, "x86_64", "aarch64"])
def test_a_cuda_build_is_accepted_whether_or_not_nvcc_was_handed_the_flags(
    built: str, options: tuple[str, ...], work: Path
) -> None:
    isa = CATALOG.isas.get(built)
    machine: ElfMachine = "x86_64" if (isa.platform if isa else built).startswith("x86_64") else "aarch64"
    flags = isa.flags if isa else ()
    for handed in {(), flags}:
        units = [compiled(machine, flags, work), compiled_by_nvcc(machine, handed, work)]
        assert not disagreements(linked(machine, units, *options), machine, built)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("machine", TRIPLES)
def test_the_compilers_own_objects_are_known_as_such(machine: ElfMachine) -> None:
    for library in ("libstdc++.a", "libgcc.a"):
        path = checked(f"{TRIPLES[machine]}-g++", f"-print-file-name={library}").strip()
        names = checked(f"{TRIPLES[machine]}-ar", "t", path).split()
        assert {kind_of(name) for name in names} == {"runtime"}

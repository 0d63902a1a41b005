"""Instructions are what GNU's tools say, and verdicts what the compiler was told."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

from tests.artifact import toolkit
from tests.artifact.toolkit import checked
from torchsmith.artifact.check import Check
from torchsmith.artifact.cpu_promise import DECIDING_HINT, cpu_promise
from torchsmith.artifact.elf import ElfMachine, read_elf
from torchsmith.artifact.features import LEGACY_SSE
from torchsmith.artifact.identity import compile_flags, stated
from torchsmith.artifact.inspect import inspect
from torchsmith.artifact.reading import scan
from torchsmith.artifact.report import verify
from torchsmith.artifact.source import open_file
from torchsmith.artifact.units import kind_of
from torchsmith.catalog import Isa, Package, builtin_catalog
from torchsmith.core.process import find, run
from torchsmith.matrix import Variant

TRIPLES: dict[ElfMachine, str] = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
CATALOG = builtin_catalog()
LINUX = {name: isa for name, isa in CATALOG.isas.items() if isa.platform.endswith("-linux")}
# How a library may come to lie there, and what the compiler is told for it.
FORMS: dict[str, tuple[str, ...]] = {
    "as built": (),
    "strip -S": (),  # as nixpkgs strips every library
    "strip": (),
    "hidden": ("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    "LTO": ("-flto",),
    "clang": (),
    "-Os": (),
}
CLANG = {machine: ("clang++", f"--target={triple}") for machine, triple in TRIPLES.items()}
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
    features = scan(machine, assemble(machine, [line], folder))
    telling = next(reversed(features), LEGACY_SSE)
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
    return [isa for isa in LINUX.values() if isa.platform.startswith(machine)]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("extension")


def compiled(machine: ElfMachine, flags: tuple[str, ...], work: Path, form: str = "as built") -> Path:
    """The extension's C++ unit; stripping comes after linking."""
    if form.startswith("strip"):
        form = "as built"
    made = work / f"{machine}{''.join(flags)}{form}.o"
    if made.exists():
        return made
    compiler = CLANG[machine] if form == "clang" else (f"{TRIPLES[machine]}-g++",)
    options = ("-Os" if form == "-Os" else "-O2", "-std=c++17", "-fPIC", *FORMS[form], *flags)
    checked(*compiler, *options, "-c", EXTENSION / "ops.cpp", "-o", made)
    if form == "LTO":  # its code is made here, once, and not by each of the links that follow
        early = made.rename(made.with_suffix(".early.o"))
        checked(*compiler, *options, "-r", "-flinker-output=nolto-rel", early, "-o", made)
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


def linked(machine: ElfMachine, objects: list[Path], *options: str, form: str = "as built") -> Path:
    parts = [part.stem for part in objects[:4]]
    made = objects[0].with_name("".join([*parts, *options, form, ".so"]))
    if form.startswith("strip"):
        whole = linked(machine, objects, *options)
        checked(f"{TRIPLES[machine]}-strip", *form.split()[1:], "-o", made, whole)
    elif not made.exists():
        checked(f"{TRIPLES[machine]}-g++", "-shared", *FORMS[form], "-O2", "-o", made, *objects, *options)
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
@pytest.mark.parametrize("isa", LINUX.values(), ids=lambda isa: isa.name)
def test_flags_are_read_however_a_compiler_lays_them_down(isa: Isa, level: str, tmp_path: Path) -> None:
    machine: ElfMachine = "aarch64" if isa.platform.startswith("aarch64") else "x86_64"
    source, made = tmp_path / "options.cpp", tmp_path / "libtorch_cpu.so"
    source.write_text(OPTIONS.format(flags=" ".join(isa.flags)))
    checked(f"{TRIPLES[machine]}-g++", level, "-fPIC", "-shared", *isa.flags, source, "-o", made)
    with open_file(made) as opened:
        said = stated(compile_flags(read_elf(opened)), "embedded flags", machine, isa)
    assert said is not None
    assert said.names, said.text


Outcome = Literal["accepted", "alike", "rejected", "untold"]
BUILT = [*LINUX, "x86_64", "aarch64"]  # the last two without flags
AVX512 = ("avx512", "avx512vnni", "avx512bf16")
# What instructions do not tell, as (built for, judged as): code for avx2 or SVE may hold none of it.
UNTOLD = {("avx", "avx2"), ("armv8_2", "armv9")}
# Code for size shows hardly anything of AVX-512 and no SVE, so neither a right nor a wrong name can be told.
UNTOLD_FOR_SIZE = {
    *((built, name) for built in ("avx", "avx2", *AVX512) for name in AVX512),
    ("armv9", "armv9"),
}


def machine_of(built: str) -> ElfMachine:
    isa = LINUX.get(built)
    return "x86_64" if (isa.platform if isa else built).startswith("x86_64") else "aarch64"


def flags_of(built: str) -> tuple[str, ...]:
    isa = LINUX.get(built)
    return isa.flags if isa else ()


def outcomes(
    library: Path, machine: ElfMachine, built: str, package: Package | None = None
) -> dict[str, Outcome]:
    """How a library is judged under each name; "alike" is accepted with a note that it may be `built`."""
    seen, found = inspect(library, package=package), dict[str, Outcome]()
    for isa in sets_of(machine):
        checks = list(cpu_promise(seen, isa, CATALOG))
        statuses = {check.status for check in checks}
        assert all(check.hint == DECIDING_HINT for check in checks if check.status == "unjudged")
        noted = any(check.id == "set" and built in check.text for check in checks)
        found[isa.name] = (
            "rejected"
            if "wrong" in statuses
            else "untold"
            if "unjudged" in statuses
            else "alike"
            if noted
            else "accepted"
        )
    return found


def faults(found: dict[str, Outcome], built: str, form: str = "as built") -> dict[str, Outcome]:
    """Names under which a build is judged otherwise than the flags it was built with say."""
    untold = UNTOLD | (UNTOLD_FOR_SIZE if form == "-Os" else set())
    return {
        name: outcome
        for name, outcome in found.items()
        if outcome
        not in (
            ("untold", "alike", "accepted" if name == built else "rejected")
            if (built, name) in untold
            else ("accepted", "alike")
            if name == built
            else ("rejected", "alike")
            if built in LINUX
            else ("rejected", "untold")  # nothing but host halves may show that there were no flags
        )
    }


def test_what_cannot_be_told_stays_below_a_tenth() -> None:
    """Of sets x forms x names, right and wrong ones; another architecture always tells."""
    cells = len(LINUX) ** 2 * len(FORMS)
    untold = len(UNTOLD) * len(FORMS) + len(UNTOLD_FOR_SIZE - UNTOLD)
    assert untold / cells < 0.1


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("built", BUILT)
def test_a_build_is_accepted_under_its_own_name_alone(built: str, form: str, work: Path) -> None:
    """As C++ extension, and with a CUDA unit, whether or not nvcc was handed the flags."""
    if form == "clang" and find("clang++") is None:
        pytest.skip("clang++ is not installed")
    machine, flags = machine_of(built), flags_of(built)
    units = [compiled(machine, flags, work, form)]
    found = {"C++": faults(outcomes(linked(machine, units, form=form), machine, built), built, form)}
    for handed in {(), flags}:
        library = linked(machine, [*units, compiled_by_nvcc(machine, handed, work)], form=form)
        found[f"CUDA {handed}"] = faults(outcomes(library, machine, built), built, form)
    assert not any(found.values()), found


@pytest.mark.needs("cross-gcc")
def test_a_library_for_linux_is_none_for_a_mac(work: Path) -> None:
    library = linked("aarch64", [compiled("aarch64", (), work)])
    mac = Variant.parse("torchvision-python313-darwin-mps", CATALOG)
    assert "machine" in {
        check.id for check in verify(library, mac, CATALOG).checks if check.status == "wrong"
    }


@cache
def numbered(built: str, number: int, work: Path) -> Path:
    """The extension's C++ unit in a namespace of its own, as one of many."""
    unit = compiled("x86_64", flags_of(built), work)
    made, table = work / f"{built}{number}.o", work / f"{built}{number}.names"
    names = checked("x86_64-linux-gnu-nm", "--format=just-symbols", unit).split()
    new = {
        name: name.replace("3ops", f"5ops{number:02}").replace("PyInit__C", f"PyInit_C{number}")
        for name in names
    }
    table.write_text("".join(f"{name} {other}\n" for name, other in new.items() if name != other))
    checked("x86_64-linux-gnu-objcopy", f"--redefine-syms={table}", unit, made)
    return made


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("form", ["as built", "strip -S", "strip"])
@pytest.mark.parametrize(
    ("older", "count"), [("avx2", 8), ("avx", 8), ("avx2", 2), ("avx2", 19), ("avx512", 20)]
)
def test_flags_that_reached_some_of_twenty_units_did_not_arrive(
    older: str, count: int, form: str, work: Path
) -> None:
    """Also where no symbol tells units apart: functions show what their compiler was told."""
    builds = [older] * count + ["avx512"] * (20 - count)
    units = [numbered(built, number, work) for number, built in enumerate(builds)]
    library = linked("x86_64", units, f"-Wl,-soname={older}{count}", form=form)
    expected = {20: ("accepted", "alike"), 2: ("untold",)}.get(count, ("rejected",))
    assert outcomes(library, "x86_64", "avx512")["avx512"] in expected


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("strip", [(), ("-s",)], ids=" ".join)
@pytest.mark.parametrize("built", BUILT)
def test_the_compilers_run_time_linked_in_does_not_change_a_verdict(
    built: str, strip: tuple[str, ...], work: Path
) -> None:
    machine, flags = machine_of(built), flags_of(built)
    units = [compiled(machine, flags, work), compiled_by_nvcc(machine, (), work)]
    streams = "-Wl,--undefined=_ZNSt8ios_base4InitC1Ev"  # with all that std::cout brings
    library = linked(machine, units, "-static-libstdc++", streams, *strip)
    assert not faults(outcomes(library, machine, built), built)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("strip", [(), ("-s",)], ids=" ".join)
@pytest.mark.parametrize("built", BUILT)
def test_code_in_any_namespace_is_a_package_s_own(
    built: str, strip: tuple[str, ...], work: Path, tmp_path: Path
) -> None:
    machine = machine_of(built)
    made = tmp_path / "site/xformers/_C.so"
    made.parent.mkdir(parents=True)
    unit = renamed(machine, compiled(machine, flags_of(built), work))
    linked(machine, [unit], *strip).rename(made)
    if not strip:
        assert not re.search("vision|2at6Tensor", checked(f"{TRIPLES[machine]}-nm", made))
    found = outcomes(tmp_path / "site", machine, built, CATALOG.packages["xformers"])
    assert not faults(found, built)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize(
    ("way", "form"),
    [
        (way, form)
        for way in ("BY_RESOLVER", "BY_CPUID", "BY_ITSELF", "ALWAYS")
        for form in ("as built", "strip -S", "strip")
        if (way, form) != ("BY_ITSELF", "strip")  # gcc's place for what the CPU said has no name then
    ],
)
def test_code_that_is_reached_only_where_the_cpu_has_it_is_dispatch(way: str, form: str, work: Path) -> None:
    unit, made = EXTENSION / "dispatch.cpp", work / f"{way}{form}.o"
    flags = flags_of("avx2")
    checked("x86_64-linux-gnu-g++", "-O2", "-fPIC", f"-D{way}", *flags, "-c", unit, "-o", made)
    library = linked("x86_64", [compiled("x86_64", flags, work), made], form=form)
    checks = cpu_promise(inspect(library), CATALOG.isas["avx2"], CATALOG)
    within = next(check for check in checks if check.id == "within")
    assert within.status == ("wrong" if way == "ALWAYS" else "right"), within.text


@cache
def linked_for_device(work: Path) -> list[Path]:
    """The CUDA unit for a device link, as NCCL's are, and what that link adds."""
    made, link = work / "nccl.rdc.o", work / "nccl.link.o"
    nvcc("x86_64", "-rdc=true", "-c", "-o", made)
    program, host = toolkit.cuda_home() / "bin" / "nvcc", f"-ccbin={TRIPLES['x86_64']}-g++"
    checked(program, "-arch=sm_90", host, "-Xcompiler=-fPIC", "-cudadevrt=none", "-dlink", made, "-o", link)
    return [made, link]


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("form", ["as built", "strip -S"])
@pytest.mark.parametrize(("library", "containers"), [("MAGMA", 1), ("NCCL", 2)])
def test_gpu_code_of_a_library_that_is_linked_in_is_named_and_counted(
    library: str, containers: int, form: str, work: Path
) -> None:
    """Units like MAGMA's, and such as went through a device link like NCCL's, beside the package's own."""
    own = compiled_by_nvcc("x86_64", (), work)
    units = linked_for_device(work) if library == "NCCL" else [own]
    theirs = work / f"{library}.cu.o"
    names = checked("x86_64-linux-gnu-nm", "--format=just-symbols", units[0]).split()
    space = f"{len(library)}{library.lower()}"
    new = {
        name: name.replace("6vision3ops", f"{space}3ops").replace("2at6Tensor", f"{space}6Tensor")
        for name in names
    }
    table = work / f"{library}.names"
    table.write_text("".join(f"{name} {other}\n" for name, other in new.items() if name != other))
    checked("x86_64-linux-gnu-objcopy", f"--redefine-syms={table}", units[0], theirs)
    path = linked("x86_64", [compiled("x86_64", (), work), own, theirs, *units[1:]], form=form)
    variant = Variant.parse("torchvision-python313-cuda13_0-sm120-avx2", CATALOG)
    waste = next(check for check in verify(path, variant, CATALOG).checks if check.id == "waste")
    assert re.search(rf"{library} \d+ \w+ in {containers} containers", waste.text), waste.text
    assert re.search(r"TorchVision itself \d+ \w+ in 1 containers", waste.text)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("machine", TRIPLES)
def test_the_compilers_own_objects_are_known_as_such(machine: ElfMachine) -> None:
    for library in ("libstdc++.a", "libgcc.a"):
        path = checked(f"{TRIPLES[machine]}-g++", f"-print-file-name={library}").strip()
        names = checked(f"{TRIPLES[machine]}-ar", "t", path).split()
        assert {kind_of(name) for name in names} == {"runtime"}

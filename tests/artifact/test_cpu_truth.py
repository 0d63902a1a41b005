"""Instructions are what GNU's tools say, and verdicts what the compiler was told."""

from __future__ import annotations

import hashlib
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

from tests.artifact import toolkit
from tests.artifact.toolkit import EXTENSION, checked, made_once, release_of
from torchsmith.artifact import iced
from torchsmith.artifact.cpu import needs_of_code
from torchsmith.artifact.elf import ElfMachine, functions_of, place_of, read_elf
from torchsmith.artifact.features import aarch64_needs
from torchsmith.artifact.report import verify
from torchsmith.artifact.source import open_file
from torchsmith.catalog import Isa, builtin_catalog
from torchsmith.catalog.recorded import CXX_MARK, HOST_MARK, RECORD
from torchsmith.core.process import find, run
from torchsmith.matrix import Variant

TRIPLES: dict[ElfMachine, str] = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}
CATALOG = builtin_catalog()
LINUX = {name: isa for name, isa in CATALOG.isas.items() if isa.platform.endswith("-linux")}
# How a library may get there, and the compiler's options for it.
FORMS: dict[str, tuple[str, ...]] = {
    "as built": (),
    "strip -S": (),  # as nixpkgs strips every library
    "strip": (),
    "hidden": ("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    "LTO": ("-flto",),
    "clang": (),
    "-Os": (),
}
STRIPPED = ("as built", "strip -S", "strip")
CLANG = {machine: ("clang++", f"--target={triple}") for machine, triple in TRIPLES.items()}
ALL = f"{CXX_MARK} {RECORD}"  # what a recipe adds beside the flags, and by the compiler wrapper

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
    code = assemble(machine, [line], folder)
    if machine == "x86_64":
        features = [feature for one in iced.iced_x86.Decoder(64, code) for feature in iced.needs(one.code)]
    else:
        words = (int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4))
        features = [feature for word in words for feature in aarch64_needs(word)]
    return features[-1] if features else "baseline"


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


def compiled(
    machine: ElfMachine,
    flags: tuple[str, ...],
    work: Path,
    form: str = "as built",
    marks: str = ALL,
    source: str = "ops",
) -> Path:
    """A C++ unit of the extension as a recipe compiles it; stripping comes after linking."""
    if form.startswith("strip"):
        form = "as built"
    made = work / f"{source}{machine}{''.join(flags)}{form}{marks}.o"
    if made.exists():
        return made
    compiler = CLANG[machine] if form == "clang" else (f"{TRIPLES[machine]}-g++",)
    marks = "" if form == "clang" else marks
    options = ("-Os" if form == "-Os" else "-O2", "-std=c++17", "-fPIC", *FORMS[form], *flags, *marks.split())

    def make() -> None:
        checked(*compiler, *options, "-c", EXTENSION / f"{source}.cpp", "-o", made)
        if form == "LTO":  # its code is made here, once, and not by each of the links that follow
            early = made.rename(made.with_suffix(".early.o"))
            checked(*compiler, *options, "-r", "-flinker-output=nolto-rel", early, "-o", made)

    made_once(made, [release_of(compiler[0]), *compiler, *options, source], make)
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
    """What nvcc hands to the host compiler, under such a name as it has; code for the GPU is beside it."""
    kept = work / f"{machine}-kept"
    kept.mkdir()
    nvcc(machine, "--keep", f"--keep-dir={kept}", "-cuda", "-o", kept / "ops.ii")
    return (kept / "ops.cudafe1.cpp").rename(kept / "tmpxft_00003a48_00000000-6_ops.cudafe1.cpp")


@cache
def compiled_by_nvcc(machine: ElfMachine, flags: tuple[str, ...], work: Path) -> Path:
    """The extension's CUDA unit: nvcc's last step, with the flags; those before it do not depend on them."""
    made = work / f"{machine}{''.join(flags)}.cu.o"

    def make() -> None:
        half = host_half(machine, work)
        kept = f"--keep-dir={half.parent}"
        steps = nvcc(machine, "--dryrun", "--keep", kept, "-c", "-o", made, flags=flags)
        last = steps.splitlines()[-1].removeprefix("#$ ")
        assert all(flag in last for flag in flags)
        checked("sh", "-c", last.replace("/ops.cudafe1.cpp", f"/{half.name}"))

    made_once(made, [release_of(f"{TRIPLES[machine]}-g++"), *toolkit.COMPILER, *flags], make)
    return made


def linked(machine: ElfMachine, objects: list[Path], *options: str, form: str = "as built") -> Path:
    parts = " ".join([*(part.name for part in objects), *options, form])
    made = objects[0].with_name(f"{hashlib.sha256(parts.encode()).hexdigest()}.so")
    if form.startswith("strip"):
        whole = linked(machine, objects, *options)
        checked(f"{TRIPLES[machine]}-strip", *form.split()[1:], "-o", made, whole)
    elif not made.exists():
        checked(f"{TRIPLES[machine]}-g++", "-shared", *FORMS[form], "-O2", "-o", made, *objects, *options)
    return made


Outcome = Literal["accepted", "rejected", "untold"]
BUILT = [*LINUX, "x86_64", "aarch64"]  # the last two without flags
WIDEST = ["avx512bf16", "armv9"]
EXTREMES = ["avx", *WIDEST]  # the narrowest set, and the widest of each machine
# Stripping is tried with every set; what else the compiler is told does not depend on the set.
CASES = [(built, form) for form in FORMS for built in (BUILT if form in STRIPPED else WIDEST)]


def machine_of(built: str) -> ElfMachine:
    isa = LINUX.get(built)
    return "x86_64" if (isa.platform if isa else built).startswith("x86_64") else "aarch64"


def flags_of(built: str) -> tuple[str, ...]:
    isa = LINUX.get(built)
    return isa.flags if isa else ()


def outcomes(
    library: Path, machine: ElfMachine, package: str = "torchvision", target: str = "cpu"
) -> dict[str, Outcome]:
    """How a library is judged under each name."""
    found: dict[str, Outcome] = {}
    for isa in sets_of(machine):
        variant = Variant.parse(f"{package}-python313-{target}-{isa.name}", CATALOG)
        checks = [check for check in verify(library, variant, CATALOG).checks if check.id in JUDGING]
        statuses = {check.status for check in checks}
        found[isa.name] = (
            "rejected" if "wrong" in statuses else "untold" if "unjudged" in statuses else "accepted"
        )
    return found


JUDGING = ("flags", "within", "machine", "system", "library")


def expected(built: str, machine: ElfMachine, *, accepted: bool = True) -> dict[str, Outcome]:
    """Accepted under its own name, if it is right, and rejected under every other."""
    return {
        isa.name: "accepted" if accepted and isa.name == built else "rejected" for isa in sets_of(machine)
    }


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize(("built", "form"), CASES)
def test_a_build_is_accepted_under_its_own_name_alone(built: str, form: str, work: Path) -> None:
    """Also an avx512 build under the name avx512bf16. Without a record no build is accepted."""
    if form == "clang" and find("clang++") is None:
        pytest.skip("clang++ is not installed")
    machine = machine_of(built)
    library = linked(machine, [compiled(machine, flags_of(built), work, form)], form=form)
    found = outcomes(library, machine)
    if form == "clang":
        assert "accepted" not in found.values()
        assert found[built] == "untold"
    else:
        assert found == expected(built, machine)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("form", STRIPPED)
@pytest.mark.parametrize("built", EXTREMES)
def test_host_halves_of_torch_may_lack_the_flags_and_those_of_a_companion_may_not(
    built: str, form: str, work: Path
) -> None:
    machine, flags = machine_of(built), flags_of(built)
    unit = compiled(machine, flags, work)
    for handed in ((), flags):
        half = compiled_by_nvcc(machine, (*handed, HOST_MARK, RECORD), work)
        library = linked(machine, [unit, half], form=form)
        for package in ("pytorch", "torchvision"):
            right = bool(handed) or package == "pytorch"
            found = outcomes(library, machine, package, "cuda13_0-sm90")
            assert found == expected(built, machine, accepted=right), (package, handed)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("form", ["as built", "strip"])
@pytest.mark.parametrize(
    ("built", "how"),
    [
        *(("avx512", how) for how in ("without flags", "without a mark", "not recorded", "its own flags")),
        *(("armv9", how) for how in ("without flags", "its own flags")),
    ],
)
def test_one_unit_of_ten_without_the_flags_is_found(built: str, how: str, form: str, work: Path) -> None:
    machine, flags = machine_of(built), flags_of(built)
    options = {
        "without flags": ((), RECORD),
        "without a mark": (flags, RECORD),
        "not recorded": ((), ""),
        "its own flags": ((*flags, *OVERRIDES[machine]), ALL),
    }[how]
    units = [numbered(machine, options[0], options[1], 0, work)]
    units += [numbered(machine, flags, ALL, number, work) for number in range(1, 10)]
    library = linked(machine, units, form=form)
    # A unit that records nothing is as assembly is: nothing speaks for it, and it runs everywhere.
    right = how in ("its own flags", "not recorded")
    assert outcomes(library, machine) == expected(built, machine, accepted=right)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("form", ["as built", "strip"])
@pytest.mark.parametrize("built", WIDEST)
def test_a_build_that_does_not_record_its_flags_is_not_verified(built: str, form: str, work: Path) -> None:
    machine = machine_of(built)
    unit = compiled(machine, flags_of(built), work, marks=CXX_MARK, source="part")
    library = linked(machine, [unit], form=form)
    found = outcomes(library, machine)
    assert found[built] == "untold"
    assert "accepted" not in found.values()


@pytest.mark.needs("cross-gcc")
def test_a_library_for_linux_is_not_one_for_a_mac(work: Path) -> None:
    library = linked("aarch64", [compiled("aarch64", (), work)])
    mac = Variant.parse("torchvision-python313-darwin-mps", CATALOG)
    assert "system" in {check.id for check in verify(library, mac, CATALOG).checks if check.status == "wrong"}


# As XNNPACK and SLEEF override the set for units that ask the CPU first; here with less.
OVERRIDES: dict[ElfMachine, tuple[str, ...]] = {
    "x86_64": ("-mavx", "-mno-avx2", "-mno-fma"),
    "aarch64": ("-march=armv8-a+sve",),
}


def numbered(machine: ElfMachine, flags: tuple[str, ...], marks: str, number: int, work: Path) -> Path:
    """The extension's small unit in a namespace of its own, as one of many."""
    unit = compiled(machine, flags, work, marks=marks, source="part")
    made = work / f"{unit.stem}{number}.o"
    if made.exists():
        return made
    table = made.with_suffix(".names")
    names = checked(f"{TRIPLES[machine]}-nm", "--format=just-symbols", unit).split()
    new = {
        name: name.replace("3ops", f"5ops{number:02}").replace("PyInit__C", f"PyInit_C{number}")
        for name in names
    }
    table.write_text("".join(f"{name} {other}\n" for name, other in new.items() if name != other))
    checked(f"{TRIPLES[machine]}-objcopy", f"--redefine-syms={table}", unit, made)
    return made


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("strip", [(), ("-s",)], ids=" ".join)
@pytest.mark.parametrize("built", [*EXTREMES, "x86_64", "aarch64"])
def test_the_compilers_run_time_linked_in_does_not_change_a_verdict(
    built: str, strip: tuple[str, ...], work: Path
) -> None:
    machine, flags = machine_of(built), flags_of(built)
    units = [compiled(machine, flags, work), compiled_by_nvcc(machine, (*flags, HOST_MARK, RECORD), work)]
    streams = "-Wl,--undefined=_ZNSt8ios_base4InitC1Ev"  # with all that std::cout brings
    library = linked(machine, units, "-static-libstdc++", streams, *strip)
    found = outcomes(library, machine, target="cuda13_0-sm90")
    own, other = {found.pop(built, "accepted")}, set(found.values())
    assert (own, other) == ({"accepted"}, {"rejected"})


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("strip", [(), ("-s",)], ids=" ".join)
@pytest.mark.parametrize("built", [*EXTREMES, "x86_64", "aarch64"])
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
    assert outcomes(tmp_path / "site", machine, "xformers", "cuda13_0-sm90") == expected(built, machine)


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("form", ["as built", "strip -S"])
@pytest.mark.parametrize(
    ("attribute", "status"),
    [('target_clones("avx512f", "default")', "right"), ('target("avx512f")', "wrong")],
)
def test_copies_that_the_compiler_made_of_a_function_are_dispatch(
    attribute: str, status: str, form: str, work: Path
) -> None:
    made = work / f"{status}.o"
    source = made.with_suffix(".cpp")
    loop = "for (int i = 0; i < 64; ++i) a[i] += b[i];"
    body = f"void run(float *a, const float *b) {{ {loop} }}"
    source.write_text(f"namespace vision {{ __attribute__(({attribute})) {body} }}\n")
    flags = flags_of("avx2")
    checked("x86_64-linux-gnu-g++", "-O3", "-fPIC", *flags, "-c", source, "-o", made)
    library = linked("x86_64", [compiled("x86_64", flags, work), made], form=form)
    checks = verify(library, Variant.parse("torchvision-python313-cpu-avx2", CATALOG), CATALOG).checks
    within = next(check for check in checks if check.id == "within")
    assert within.status == status, within.text


@pytest.mark.needs("cross-gcc")
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_a_function_is_read_up_to_what_is_no_instruction(isa: str, work: Path) -> None:
    with open_file(linked("x86_64", [compiled("x86_64", flags_of(isa), work)])) as file:
        elf = read_elf(file)
        codes = [file.read(*place_of(elf, row)) for row in functions_of(elf).rows]
    assert len(codes) > 20
    for code in (*codes, *(code[:-1] + b"\x06" for code in codes)):  # 06 is not an instruction
        undecoded = any(instruction.code == iced.INVALID for instruction in iced.iced_x86.Decoder(64, code))
        features, found = needs_of_code("x86_64", code)
        assert found is undecoded
        assert undecoded or features == tuple(sorted(features))

"""Compiles C and (pretended) CUDA code with the flags of the environment, for torch and its companions."""

import os
import re
import shlex
import subprocess
from pathlib import Path

from fatbin import container, section


def run(argv: list[str], step: tuple[int, int] | None = None) -> None:
    """Run a compiler, announced as ninja would."""
    counter = f"[{step[0]}/{step[1]}] " if step else ""
    print(counter + shlex.join(argv), flush=True)
    subprocess.run(argv, check=True)


def compile(
    source: str,
    more: list[str],
    target: str = "",
    step: tuple[int, int] | None = None,
    flags: str = "CXXFLAGS",
) -> str:
    """One object file. What is C++ in PyTorch is C here, for a plain gcc, and takes CXXFLAGS all the same."""
    made = target or Path(source).name + ".o"
    given = os.environ.get(flags, "").split()
    run([os.environ["CC"], "-O3", "-fPIC", *given, *more, "-c", source, "-o", made], step)
    return made


def command(source: str, more: list[str], output: str, flags: str = "CXXFLAGS") -> list[str]:
    """How one object below build/ is compiled."""
    given = os.environ.get(flags, "").split()
    made = Path.cwd() / "build" / output
    compiler = [*launcher("C"), os.environ["CC"]]
    return [*compiler, "-O3", "-fPIC", *given, *more, "-c", source, "-o", str(made)]


def launcher(language: str) -> list[str]:
    """What CMake runs a compiler by, as its variable says."""
    return os.environ.get(f"CMAKE_{language}_COMPILER_LAUNCHER", "").split()


def nvcc(source: str, arch_list: str, output: str, number: int) -> list[str]:
    """How one CUDA object is compiled: by a program that takes nvcc's words and writes fat binaries."""
    program = Path(__file__).with_name("nvcc").resolve()
    if not os.access(program, os.X_OK):
        program.chmod(0o755)
    codes = []
    for major, minor, form, ptx in targets(arch_list):
        sm = f"{major * 10 + minor}{form}"
        codes += ["-gencode", f"arch=compute_{sm},code=sm_{sm}"]
        codes += ["-gencode", f"arch=compute_{sm},code=compute_{sm}"] if ptx else []
    made = Path.cwd() / "build" / output
    return [
        *launcher("CUDA"),
        str(program),
        *codes,
        "-Xcompiler",
        "-fPIC",
        "-O3",
        f"-DNUMBER={number}",
        "-c",
        source,
        "-o",
        str(made),
    ]


def write_tree(tree: Path, objects: dict[str, list[str]]) -> None:
    """A tree of ninja's, as CMake and BuildExtension leave it: each object can be compiled on its own."""
    lines = ["rule object", "  command = $line", "  description = object $out", ""]
    for output, words in objects.items():
        (tree / output).parent.mkdir(parents=True, exist_ok=True)
        line = f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join(words)}".replace("$", "$$")
        source = words[words.index("-c") + 1]
        lines += [f"build {output}: object {Path.cwd() / source}", f"  line = {line}", ""]
    (tree / "build.ninja").write_text("\n".join(lines))


def link(
    target: Path, objects: list[str], more: tuple[str, ...] = (), step: tuple[int, int] | None = None
) -> None:
    """One shared library."""
    run([os.environ["CC"], "-shared", f"-Wl,-soname,{target.name}", *objects, *more, "-o", str(target)], step)


def targets(arch_list: str) -> list[tuple[int, int, str, bool]]:
    """(major, minor, form, with PTX) for each entry of TORCH_CUDA_ARCH_LIST."""
    found = []
    for name in re.split("[; ]+", arch_list.strip()) if arch_list.strip() else []:
        match = re.fullmatch(r"(\d+)\.(\d)([af]?)(\+PTX)?", name)
        if match is None:
            raise SystemExit(
                f"CMake Error: Unknown CUDA Architecture Name {name} in CUDA_SELECT_NVCC_ARCH_FLAGS"
            )
        found.append((int(match[1]), int(match[2]), match[3], bool(match[4])))
    return found


def arch_names(arch_list: str) -> list[str]:
    """As torch.cuda.get_arch_list() spells them."""
    return [f"sm_{major}{minor}{form}" for major, minor, form, _ in targets(arch_list)]


def fatbin(arch_list: str, containers: int = 4) -> str:
    """An object file whose .nv_fatbin section holds one entry per target in every container."""
    data = b"".join(container(targets(arch_list), number) for number in range(containers))
    Path("fatbin.bin").write_bytes(data)
    Path("fatbin.S").write_text(section("fatbin.bin"))
    run([os.environ["CC"], "-c", "fatbin.S", "-o", "fatbin.o"])
    return "fatbin.o"

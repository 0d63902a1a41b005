"""NVIDIA's own tools for the tests, from the PyPI wheels, kept in torchsmith's cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tools.proof.readings import download_wheel
from torchsmith.artifact.container import Container
from torchsmith.catalog import CudaToolkit, GpuTarget, builtin_catalog
from torchsmith.core.files import cache_dir, exclusive
from torchsmith.core.problem import Problem
from torchsmith.core.process import run

EXTENSION = Path(__file__).with_name("extension")
NVCC = "nvidia-cuda-nvcc==13.4.92"
COMPILER = (NVCC, "nvidia-nvvm==13.4.92", "nvidia-cuda-crt==13.4.92", "nvidia-cuda-runtime==13.4.92")
CUOBJDUMP = "nvidia-cuda-cuobjdump==13.4.92"
PTX = """.version {version}
.target sm_{target}
.address_size 64
.visible .entry kernel(.param .u64 out)
{{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, {value};
  st.global.u32 [%rd1], %r1;
  ret;
}}
"""


def wheel(requirement: str) -> Path:
    """The folder of an unpacked wheel; the test is skipped if it cannot be had."""
    found = _wheel(requirement)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def _wheel(requirement: str) -> Path | str:
    """The folder, or why there is none: asked once, as a machine without a network takes long to say so."""
    folder = cache_dir() / "wheels" / requirement.replace("==", "-")
    try:
        with exclusive(folder.with_suffix(".lock"), what=requirement, wait_seconds=300):
            if not (folder / ".complete").exists():
                with tempfile.TemporaryDirectory() as fetched:
                    zipfile.ZipFile(download_wheel(requirement, Path(fetched))).extractall(folder)
                (folder / ".complete").touch()
    except Problem as problem:
        return problem.message
    return folder


@cache
def cuda_home() -> Path:
    """A tree with all that nvcc needs to compile, out of several wheels."""
    folder = cache_dir() / "wheels" / COMPILER[0].replace("==", "-home-")
    parts = [wheel(requirement) for requirement in COMPILER]
    with exclusive(folder.with_suffix(".lock"), what="CUDA's compiler", wait_seconds=300):
        for part in parts if not (folder / ".complete").exists() else ():
            shutil.copytree(part / "nvidia" / "cu13", folder, dirs_exist_ok=True)
        for program in (*folder.glob("bin/*"), *folder.glob("nvvm/bin/*")):
            if program.is_file():
                program.chmod(0o755)
        (folder / ".complete").touch()
    return folder


@cache
def tool(requirement: str, name: str) -> Path:
    """A program of a wheel."""
    found = next(path for path in sorted(wheel(requirement).rglob(f"bin/{name}")) if path.is_file())
    found.chmod(0o755)
    return found


def checked(*argv: str | Path) -> str:
    """Run a tool that must succeed; what it printed."""
    done = run(argv, timeout=120)
    assert done.ok, f"{done.line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def made_once(made: Path, words: Sequence[str], make: Callable[[], object]) -> None:
    """Make a file, unless the same words and sources (tests/artifact/extension) made it in an earlier run."""
    sources = [path.read_text() for path in sorted(EXTENSION.iterdir())]
    digest = hashlib.sha256("\0".join([*words, *sources]).encode()).hexdigest()
    kept = cache_dir() / "objects" / digest
    if not kept.exists():
        make()
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(f".{os.getpid()}")
        shutil.copy(made, draft)
        draft.rename(kept)
    shutil.copy(kept, made)


@cache
def release_of(compiler: str) -> str:
    """What a compiler says that it is."""
    return checked(compiler, "--version")


@dataclass(frozen=True)
class Image:
    """One piece of GPU code as fatbinary takes it."""

    kind: str  # elf or ptx
    target: GpuTarget
    file: Path


def toolkits() -> list[CudaToolkit]:
    """The two toolkits that together know every target: the last of CUDA 12 and the newest."""
    known = builtin_catalog().cuda.values()
    return [
        max((kit for kit in known if kit.version.major == major), key=lambda kit: kit.version)
        for major in (12, 13)
    ]


def cubin(kit: CudaToolkit, target: GpuTarget, folder: Path, value: int = 1) -> Image:
    """A kernel compiled by the toolkit's ptxas for a target."""
    source = ptx(kit, target, folder, value).file
    made = folder / f"{kit.version}-{target}-{value}.cubin"
    checked(tool(kit.wheel, "ptxas"), f"-arch=sm_{target}", source, "-o", made)
    return Image("elf", target, made)


def ptx(kit: CudaToolkit, target: GpuTarget, folder: Path, value: int = 1) -> Image:
    """The same kernel as PTX for a target."""
    version = "8.8" if kit.version.major == 12 else f"9.{kit.version.minor}"
    made = folder / f"{kit.version}-{target}-{value}.ptx"
    made.write_text(PTX.format(version=version, target=target, value=value))
    return Image("ptx", target, made)


def fatbin(images: list[Image], made: Path, *options: str) -> Path:
    """Several images in one container, by NVIDIA's fatbinary."""
    words = [f"--image3=kind={image.kind},sm={image.target},file={image.file}" for image in images]
    checked(tool(NVCC, "fatbinary"), "-64", *options, f"--create={made}", *words)
    return made


def library(made: Path, containers: list[Path], relocatable: list[Path], gap: int = 8) -> Path:
    """A shared library that carries containers as nvcc's output does."""
    lines = ['.section .nv_fatbin,"a"']
    lines += [f'.balign {gap}\n.incbin "{path}"' for path in containers]
    lines += ['.section __nv_relfatbin,"a"'] if relocatable else []
    lines += [f'.balign {gap}\n.incbin "{path}"' for path in relocatable]
    source = made.with_suffix(".s")
    source.write_text("\n".join(lines) + "\n")
    checked("gcc", "-shared", "-nostdlib", "-o", made, source)
    return made


def cuobjdump(path: Path) -> list[tuple[str, str]]:
    """What NVIDIA's cuobjdump lists: kind and target of each entry, cubins without an f first."""
    rows = []
    for option, kind in (("-lelf", "cubin"), ("-lptx", "ptx")):
        done = run([tool(CUOBJDUMP, "cuobjdump"), "-all", option, path], timeout=300)
        assert done.ok or "does not contain device code" in done.stderr, done.stderr
        rows += [
            (kind, target)
            for target in re.findall(r"\.sm_(\d+[af]?)\.(?:cubin|ptx)$", done.stdout, re.MULTILINE)
        ]
    return rows


def listed(containers: Iterable[Container]) -> list[tuple[str, str]]:
    """Entries as cuobjdump lists them: cubins, an f target without its f, then PTX."""
    entries = [entry for container in containers for entry in container.entries]
    return [
        (kind, str(entry.target).removesuffix("f" if kind == "cubin" else ""))
        for kind in ("cubin", "ptx")
        for entry in entries
        if entry.kind == kind
    ]

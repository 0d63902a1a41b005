"""Mistakes that people make: each met in a real recipe, or one edit away from one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tools.mutations.mistake import Mistake, Right, config_decides
from torchsmith.catalog import builtin_catalog
from torchsmith.matrix import Variant

CATALOG = builtin_catalog()
Edit = Callable[[str, Variant], Iterator[tuple[str, str]]]  # what, text
_known: list[tuple[str, frozenset[str], Edit]] = []


def mistake(kind: str, *rules: str) -> Callable[[Edit], Edit]:
    """Make a function one of the catalogue."""

    def known(edit: Edit) -> Edit:
        _known.append((kind, frozenset(rules), edit))
        return edit

    return known


def realistic(right: Right) -> Iterator[Mistake]:
    """Every mistake of the catalogue that this recipe can have."""
    variant = Variant.parse(right.name, CATALOG)
    for kind, rules, edit in _known:
        for what, text in edit(right.text, variant):
            if text != right.text:
                yield Mistake(kind, what, right, right.name, text, rules)
    yield from _renamed(right, variant)


def _renamed(right: Right, variant: Variant) -> Iterator[Mistake]:
    """The right text under a wrong name."""
    for what, name, rules in (
        ("-magma", f"{right.name}-magma", {"TS102"}),
        ("a dot", right.name.replace("_", ".", 1), {"TS103", "TS102", "TS101"}),
        ("no Python", right.name.replace("python313-", ""), {"TS101"}),
        ("sm_", right.name.replace("-sm", "-sm_"), {"TS101"}),
        ("a typo", right.name.replace("py", "pi", 1), {"TS101"}),
    ):
        if name != right.name and not (variant.flavor and what == "-magma"):
            yield Mistake("file name", what, right, name, right.text, frozenset(rules))
    others = [isa for isa in CATALOG.isas if isa != variant.isa]
    for isa in others[:3]:
        name = right.name.replace(f"-{variant.isa}", f"-{isa}")
        yield Mistake("copied under the name of another ISA", isa, right, name, right.text,
                      frozenset({"TS501", "TS105", "TS206", "TS505", "TS504"}))  # fmt: skip
    for sm in [sm for sm in CATALOG.gpus if variant.sm and sm != variant.sm][4:9]:
        name = right.name.replace(f"-{variant.sm}-", f"-{sm}-")
        yield Mistake("copied under the name of another GPU", str(sm), right, name, right.text,
                      frozenset({"TS401", "TS403", "TS105"}))  # fmt: skip


def _sub(pattern: str, by: str, text: str, count: int = 1) -> str:
    return re.sub(pattern, by, text, count=count, flags=re.DOTALL | re.MULTILINE)


@mistake("wrong pin", "TS201")
def wrong_pin(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    for pin in CATALOG.pins.values():
        yield pin.name, _sub(r"archive/[0-9a-f]{40}", f"archive/{pin.rev}", text)


@mistake("unpinned nixpkgs", "TS205")
def unpinned(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    yield "a branch", _sub(r"archive/[0-9a-f]{40}", "archive/nixos-unstable", text)
    yield "<nixpkgs>", text.replace("import torchsmithNixpkgs {", "import <nixpkgs> {", 1)


@mistake("missing overlay", "TS301", "TS306", "TS405")
def missing_overlay(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    natural = any(pin.rev in text and pin.default_cuda == variant.cuda for pin in CATALOG.pins.values())
    if not natural:  # if it is the pin's default, the overlay changes nothing
        yield "CUDA", _sub(r"^ +\(final: prev: \{ cudaPackages = [^\n]*\n", "", text)
    yield "MAGMA", _sub(r"^ +\(final: prev: \{\n +magma =.*?^ {6}\}\)\n", "", text)
    yield "torch", _sub(r"^ +\(final: prev: \{\n +python\d*Packages =.*?^ {6}\}\)\n", "", text)
    if not natural or "torch = pprev" in text:
        yield "all", _sub(r"overlays = \[.*?^ {4}\];", "overlays = [ ];", text)


@mistake("overlay that is not needed", "TS303", "TS304")
def extra_overlay(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    magma = "(final: prev: { magma = prev.magma.overrideAttrs (o: { patches = [ ]; }); })"
    yield "MAGMA", text.replace("overlays = [", f"overlays = [\n      {magma}", 1)
    if variant.cuda:
        twice = f"(final: prev: {{ cudaPackages = final.cudaPackages_{variant.cuda.slug}; }})"
        yield "CUDA twice", text.replace("overlays = [", f"overlays = [\n      {twice}", 1)


@mistake("CUDA of another release", "TS304", "TS804", "TS408")
def other_cuda(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    for cuda in ("12_6", "12_8", "12_9", "13_0", "13_1"):
        if variant.cuda and cuda != variant.cuda.slug:
            yield cuda, _sub(r"cudaPackages_\d+(_\d+)?\b", f"cudaPackages_{cuda}", text)
            yield (
                f"assert {cuda}",
                _sub(
                    r'cudaMajorMinorVersion == "[\d.]+"',
                    f'cudaMajorMinorVersion == "{cuda.replace("_", ".")}"',
                    text,
                ),
            )


@mistake("MAGMA disabled", "TS305")
def no_magma(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.cuda is None:
        return
    yield "USE_MAGMA=0", _sub(r"^( +)export CFLAGS", r"\1export USE_MAGMA=0\n\1export CFLAGS", text)
    yield "USE_MAGMA=OFF", _sub(r'"-DCUDA_VERSION', '"-DUSE_MAGMA=OFF"\n      "-DCUDA_VERSION', text)
    yield (
        "filterMagma",
        _sub(r"^( +)pname =", r"\1buildInputs = filterMagma oldAttrs.buildInputs;\n\1pname =", text),
    )


@mistake("the attribute pytorch", "TS406", "TS808", "TS407", "TS405")
def old_attribute(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    yield "in the override", _sub(r"(python3\d*Packages)\.torch\.override \{", r"\1.pytorch.override {", text)


@mistake("gpu target in the wrong notation", "TS402")
def notation(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.sm is None:
        return
    number = variant.sm.number
    for spelled in (f"sm_{number}", f"sm{number}", str(number), f"compute_{number}"):
        yield spelled, _sub(r'(gpuArch(?:SM)?) = "[\d.]+"', rf'\1 = "{spelled}"', text)
        yield f"list {spelled}", _sub(r"gpuTargets = \[ \w+ \]", f'gpuTargets = [ "{spelled}" ]', text)


@mistake("gpu target of another GPU", "TS401")
def other_target(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    for sm in CATALOG.gpus:
        if variant.sm and sm != variant.sm:
            yield str(sm), _sub(r'(gpuArch(?:SM)?) = "[\d.]+"', rf'\1 = "{sm.capability}"', text)
            yield f"list {sm}", _sub(r"gpuTargets = \[ \w+ \]", f'gpuTargets = [ "{sm.capability}" ]', text)


@mistake("no gpu target", "TS405")
def no_target(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    if not config_decides(text, variant):
        yield "gone", _sub(r"^ +gpuTargets = [^\n]*\n", "", text)
        yield "empty", _sub(r"gpuTargets = \[ \w+ \]", "gpuTargets = [ ]", text)
    yield "several", _sub(r"gpuTargets = \[ (\w+) \]", r'gpuTargets = [ \1 "8.0" ]', text)


@mistake("flags that are not the ISA's", "TS501", "TS502")
def wrong_flags(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    own = CATALOG.isas[variant.isa]
    listed = re.search(r"cpuFlags = \[(.*?)\]", text, re.DOTALL)
    if listed is None:
        return
    for isa in CATALOG.isas.values():
        if isa.name != own.name:
            flags = " ".join(f'"{flag}"' for flag in isa.flags)
            yield f"of {isa.name}", text.replace(listed[0], f"cpuFlags = [ {flags} ]")
    for flag in own.flags:
        yield f"without {flag}", text.replace(f'"{flag}"', "", 1)
    for flag in ("-mavx512fp16", "-mamx-tile", "-mfma4", "-march=x86-64-v4"):
        yield f"with {flag}", text.replace("cpuFlags = [", f'cpuFlags = [ "{flag}"', 1)
    if variant.isa == "avx":
        for flag in ("-mfma", "-mf16c"):
            yield f"with {flag}", text.replace("cpuFlags = [", f'cpuFlags = [ "{flag}"', 1)


@mistake("flags that have no effect", "TS502", "TS503")
def lost_flags(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    yield "no CXXFLAGS", _sub(r"^ +export CXXFLAGS=[^\n]*\n", "", text)
    yield "no CFLAGS", _sub(r"^ +export CFLAGS=[^\n]*\n", "", text)
    yield "native", text.replace("${toString cpuFlags}", "-march=native")


@mistake("parts that the ISA lacks", "TS504")
def torch_parts(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    for name in CATALOG.isas[variant.isa].torch_off:
        yield f"{name} on", _sub(rf"^ +{name} = 0;\n", "", text)
    if not CATALOG.isas[variant.isa].torch_off:
        yield "USE_FBGEMM off", _sub(r"^( +)pname =", r"\1USE_FBGEMM = 0;\n\1pname =", text)


@mistake("pname off the convention", "TS105", "TS106")
def wrong_pname(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    said = re.findall(r'pname = "([^"]+)"', text)
    for pname in said:
        yield "another ISA", text.replace(f'pname = "{pname}"', f'pname = "{pname}x"', 1)
        yield "dots", text.replace(f'pname = "{pname}"', f'pname = "{pname.replace("_", ".")}"', 1)
        if pname.startswith("pytorch2"):
            bare = re.sub(r"^pytorch\d+", "pytorch", pname)
            yield "no release", text.replace(f'pname = "{pname}"', f'pname = "{bare}"', 1)
        yield "gone", _sub(rf'^ +pname = "{re.escape(pname)}";\n', "", text)


@mistake("platform of another machine", "TS505", "TS206")
def wrong_platform(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    here = CATALOG.isas[variant.isa].platform
    there = "aarch64-linux" if here == "x86_64-linux" else "x86_64-linux"
    yield "platforms", text.replace(f'platforms = [ "{here}" ]', f'platforms = [ "{there}" ]')
    yield "both", text.replace(f'platforms = [ "{here}" ]', f'platforms = [ "{here}" "{there}" ]')
    yield "system", text.replace(f'system = "{here}"', f'system = "{there}"')
    yield "no system", _sub(r"^ +system = [^\n]*\n", "", text)


@mistake("companion that is not the pair", "TS701", "TS905")
def wrong_pair(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    for other in ("0.22.1", "0.23.0", "0.24.0"):
        yield other, _sub(r'version = "0\.\d+\.\d+"', f'version = "{other}"', text)
        yield f"tag {other}", _sub(r'rev = "v0\.\d+\.\d+"', f'rev = "v{other}"', text)


@mistake("companion without its torch", "TS702", "TS703")
def without_torch(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    yield "not told", _sub(r"^ +torch = customPytorch;\n", "", text)
    yield "not propagated", _sub(r"^ +propagatedBuildInputs = [^\n]*\n", "", text)
    yield (
        "dev only",
        text.replace("++ [ customPytorch.out ];\n\n  preConf", "++ [ customPytorch ];\n\n  preConf"),
    )


@mistake("companion for other architectures", "TS409")
def other_architectures(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.package.needs_torch and not config_decides(text, variant):
        yield "no passthru", _sub(r"^ +cudaCapabilities = \[ gpuArchSM \];\n", "", text)


@mistake("CUDA inside a CPU recipe", "TS408", "TS407")
def cuda_in_cpu(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.toolkit is None:
        yield "cudaSupport", text.replace("cudaSupport = false", "cudaSupport = true")
        yield "a target", text.replace("cudaSupport = false;", 'cudaSupport = false; gpuTargets = [ "9.0" ];')
        yield (
            "an overlay",
            text.replace(
                "overlays = [", "overlays = [ (final: prev: { cudaPackages = final.cudaPackages_13; })"
            ),
        )
        yield "USE_CUDA", _sub(r"^( +)export CFLAGS", r"\1export USE_CUDA=1\n\1export CFLAGS", text)


@mistake("hashes", "TS901", "TS902", "TS903", "TS904")
def wrong_hashes(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    for hashed in dict.fromkeys(re.findall(r"sha256-[A-Za-z0-9+/]{43}=", text)):
        yield "empty", text.replace(hashed, "", 1)
        yield "fake", text.replace(f'"{hashed}"', "lib.fakeHash", 1)
        yield "zeros", text.replace(hashed, "sha256-" + "A" * 43 + "=", 1)
        yield "short", text.replace(hashed, hashed[:-3], 1)
        yield "another's", text.replace(hashed, "sha256-" + hashed[7:49][::-1] + "E=", 1)


@mistake("version stated otherwise", "TS803", "TS905")
def wrong_version(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    yield "torch", text.replace('version = "2.10.0"', 'version = "2.9.1"', 1)
    yield "build version", text.replace("PYTORCH_BUILD_VERSION=2.10.0", "PYTORCH_BUILD_VERSION=2.9.1", 1)
    yield "file", text.replace('echo "2.10.0" > version.txt', 'echo "2.9.1" > version.txt', 1)
    yield "tag", text.replace('rev = "v${version}"', 'rev = "v2.9.1"', 1)


@mistake("missing fix", "TS306", "TS308", "TS906", "TS803")
def missing_fix(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    yield "the stub", _sub(r"^ +postPatch = .*?^ +'';\n", "", text) if "FindCUDA" in text else text
    yield "not broken", _sub(r"^ +broken = false;[^\n]*\n", "", text)
    yield "patches", _sub(r"^ +patches = \[ \];\n", "", text)
    yield "submodules", _sub(r"^ +fetchSubmodules = true;\n", "", text)
    yield "OpenCV", _sub(r"^ +ffmpeg_6-full = ffmpegForCuda13;\n", "", text)


@mistake("false claim", "TS601")
def false_claims(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    own = {str(variant.sm)} if variant.sm else set()
    for gpu in CATALOG.gpus.values():
        if gpu.name in own:
            continue
        for part in gpu.parts[:2]:
            yield f"description {part}", _sub(r'description = "', f'description = "{part}: ', text)
    for isa in CATALOG.isas.values():
        if isa.name != variant.isa:
            yield f"description {isa.title}", _sub(r'description = "', f'description = "{isa.title}: ', text)
    for cuda in CATALOG.cuda:
        if cuda != variant.cuda:
            yield f"description CUDA {cuda}", _sub(r'description = "', f'description = "CUDA {cuda}: ', text)


@mistake("undefined name", "TS805")
def undefined(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    yield "a typo", text.replace("gpuTargets = [ gpuArchSM ]", "gpuTargets = [ gpuArch120 ]")
    yield "flags", text.replace("${toString cpuFlags}", "${toString cpuFlag}", 1)


@mistake("settings", "TS208", "TS209", "TS407", "TS506", "TS410")
def settings(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.cuda is None:
        return
    yield "unfree", _sub(r"^ +allowUnfree = true;[^\n]*\n", "", text)
    yield "no CUDA", text.replace("cudaSupport = true;", "cudaSupport = false;")
    yield "no cuDNN", _sub(r"^( +)export CFLAGS", r"\1export USE_CUDNN=0\n\1export CFLAGS", text)
    yield "no CUDA part", _sub(r"^( +)export CFLAGS", r"\1export USE_CUDA=0\n\1export CFLAGS", text)
    yield "no GPU", _sub(r"^ +cudaCapabilities = \[ \"[^\n]*\n", "", text)


@mistake("from scratch", "TS807")
def from_scratch(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    if not variant.flavor:
        attr = variant.package.attr
        yield (
            "buildPythonPackage",
            _sub(
                rf"\(pkgs\.(python\w+)\.{attr}\.override \{{", r"(pkgs.\1.buildPythonPackage.override {", text
            ),
        )


@mistake("another Python", "TS207")
def other_python(text: str, variant: Variant) -> Iterator[tuple[str, str]]:
    for python in ("python311Packages", "python312Packages"):
        if CATALOG.pythons[variant.python].attr != python:
            yield python, re.sub(r"\bpython3\d*Packages\b", python, text, count=1)

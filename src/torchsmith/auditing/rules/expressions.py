"""What can be said of any Nix file: overlays, flakes, modules and shells as well as recipes. What its text
alone does not decide is not reported."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchsmith.auditing.finding import FindingFix
from torchsmith.auditing.rule import LIKELY, NOTE, WARNING, Defect, rule
from torchsmith.core.problem import nearest
from torchsmith.core.text import listed
from torchsmith.recipe.read import Edit, Located, Override, Value
from torchsmith.workspace.subject import Subject

TORCH = re.compile(r"\(*\s*([\w.'-]+)\.torch(?=\.override|\)*$)")
PYTHON_SET = re.compile(r"(?:[\w.'-]+\.)?python3\d*(?:Packages|\.pkgs)")
PYTHON_OVERLAY = re.compile(r"\b(?:pythonPackagesExtensions|packageOverrides)\b[^;:]*?(\w+)\s*:\s*(\w+)\s*:")

WITH_PACKAGES = re.compile(r"\bpython3\d*\.withPackages\s*\(\s*(\w+)\s*:")


def in_nixpkgs_python(subject: Subject, owner: str) -> bool:
    """Whether an expression is a set of Python packages of nixpkgs: by its name, or because it is an argument
    of an overlay for one or of `withPackages`. Sets of uv2nix or poetry2nix have other attributes."""
    texts = [owner, *subject.body.bound_texts(owner)]
    if any(PYTHON_SET.fullmatch(text) for text in texts):
        return True
    patterns = (PYTHON_OVERLAY, WITH_PACKAGES)
    return any(owner in match.groups() for one in patterns for match in one.finditer(subject.code))


def torch_overrides(subject: Subject) -> Iterator[Override]:
    """The overrides of nixpkgs' own torch."""
    for override in subject.body.overrides:
        match = TORCH.match(override.of)
        if match and in_nixpkgs_python(subject, match[1]):
            yield override


@rule("TS212", "nixpkgs that is not locked", NOTE, anywhere=True)
def nixpkgs_is_locked(subject: Subject) -> Iterator[Defect]:
    """`<nixpkgs>`, the tarball of a branch, or a flake without flake.lock is whatever it is on the day of
    the build: another torch, another CUDA, hours of compiling."""
    if subject.variant is not None:
        return  # which TS205 is about
    for span in subject.body.search_paths("nixpkgs"):
        yield Defect("imports <nixpkgs>, which differs from machine to machine", span)
    for pin in subject.body.pins:
        if pin.rev is None and re.search(r"nixpkgs/(?:archive|tarball)/|channels\.nixos", pin.url.value):
            yield Defect("the tarball's address names no revision", pin.url.span)
    path = subject.recipe.path
    if path.name == "flake.nix" and path.is_file() and not (path.parent / "flake.lock").is_file():
        yield Defect("the flake has no flake.lock", hint="nix flake lock")


# What torch's derivation cannot do without, and what is lost with it.
NEEDED = {
    "passthru": "cudaSupport and cudaPackages, which companions ask torch for",
    "buildInputs": "the libraries that torch links",
    "nativeBuildInputs": "the tools that build it",
    "propagatedBuildInputs": "the packages that torch imports",
    "dependencies": "the packages that torch imports",
    "preConfigure": "TORCH_CUDA_ARCH_LIST and the paths of CUDA",
    "postPatch": "what makes its sources build in Nix",
    "env": "its compiler flags and variables",
    "patches": "what makes its sources build in Nix",
}


@rule("TS810", "attribute of torch that is replaced", anywhere=True)
def attributes_are_extended(subject: Subject) -> Iterator[Defect]:
    """`overrideAttrs (old: { passthru = { ... }; })` drops what nixpkgs' torch had there, and so does
    `passthru.x = ...`; `old.passthru // { ... }` and `old.buildInputs ++ [ ... ]` keep it. Without its `env`
    or `patches` torch may still build: that is a warning. A torch with a source of its own may mean to, but
    without nixpkgs' `preConfigure` it is compiled for GPUs that nothing names. `--unsafe-fixes` adds
    the old `preConfigure`; a recipe that sets TORCH_CUDA_ARCH_LIST itself loses only the paths of CUDA, which
    is a warning."""
    own = subject.variant is not None
    named = [*(subject.overrides_of("torch", "pytorch") if own else torch_overrides(subject))]
    sources = ["src" in override.arguments for override in subject.overrides_of("torch", "pytorch")]
    for override in named:
        for path in override.arguments if override.kind != "override" else ():
            name = path.partition(".")[0]
            if name not in NEEDED:
                continue
            value = override.arguments[path]
            extended = re.search(rf"\.{name}\b", subject.body.text_at(value.span))
            if path == name and (extended or (value.value in ([], "") and name != "patches")):
                continue
            if own and name == "preConfigure":
                yield from _phase_replaced(subject, override, value)
            elif "src" not in override.arguments and not (name == "patches" and any(sources)):
                message = f"{name} of torch is replaced: it loses {NEEDED[name]}"
                sure = LIKELY if name in ("env", "patches") else None  # it may build without
                yield Defect(message, value.span, hint=_extend(override, name), sure=sure)


def _phase_replaced(subject: Subject, override: Override, value: Located[Value]) -> Iterator[Defect]:
    """The preConfigure of a recipe for CUDA, without that of nixpkgs; for the CPU nixpkgs has none."""
    if subject.gpu is None or subject.style == "scratch":
        return
    kept = "TORCH_CUDA_ARCH_LIST" in subject.body.text_at(value.span)
    lost = "the paths of CUPTI and cuDNN" if kept else NEEDED["preConfigure"]
    fix = None
    data = subject.body.syntax.data
    if override.old and data.startswith(b"''", value.span.start):
        text = f'({override.old}.preConfigure or "") + '
        fix = FindingFix("extend it", (Edit(value.span.start, value.span.start, text),), safe=False)
    message = f"preConfigure of torch is replaced: it loses {lost}"
    hint = _extend(override, "preConfigure")
    yield Defect(message, value.span, hint=hint, fix=fix, severity=WARNING if kept else None)


def _extend(override: Override, name: str) -> str:
    """What to do, by the name that the override gives to the attributes from before."""
    return f"extend {override.old or 'old'}.{name}"


SETTINGS = ("cudaSupport", "cudaCapabilities", "cudaForwardCompat", "rocmSupport")  # that nixpkgs reads
SPELLING = 0.85  # how alike a name and a setting are if it is a misspelling
SETTING = re.compile(r"(?:[\w-]+\.)*(?:(?:cuda|cudnn|rocm)\w*|gpuTargets)")


@rule("TS811", "setting that nixpkgs does not have", WARNING, anywhere=True)
def settings_exist(subject: Subject) -> Iterator[Defect]:
    """nixpkgs accepts any name in `config` but reads only `cudaSupport`, `cudaCapabilities`,
    `cudaForwardCompat` and `rocmSupport`. Another name, such as `cudaVersion`, or one of these in a set of
    its own (`config.torch.cudaSupport`), has no effect, without an error."""
    settings = list(subject.body.nixpkgs_settings(SETTING))
    unset = [name for name in SETTINGS if name not in dict(settings)]
    for name, setting in settings:
        if name not in SETTINGS:
            right = nearest(name.rpartition(".")[2], unset, cutoff=SPELLING)
            hint = f"nixpkgs reads config.{right}" if right else f"nixpkgs reads {listed(SETTINGS)}"
            sure = None if subject.pin_has_torch else LIKELY  # older nixpkgs may have read others
            yield Defect(f"config.{name} does nothing", setting.span, hint=hint, sure=sure)

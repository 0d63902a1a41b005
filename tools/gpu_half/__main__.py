"""`python -m tools.gpu_half VERB`: prepare, pack, compile, link, install, same or models."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tools.gpu_half import __doc__ as manual
from tools.gpu_half.compiling import compile_units, link
from tools.gpu_half.install import install
from tools.gpu_half.models import compare_models
from tools.gpu_half.pack import pack
from tools.gpu_half.prepare import prepare
from tools.gpu_half.same import compare
from tools.gpu_half.toolkit import lay_out
from tools.gpu_half.work import Work
from torchsmith.catalog import builtin_catalog
from torchsmith.core.problem import Problem
from torchsmith.matrix.variant import Variant


def main(arguments: Sequence[str]) -> int:
    """Run one verb and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(Work(options.work), options))
    except Problem as problem:
        print(problem, file=sys.stderr)
        return int(problem.exit)


def _folder(text: str) -> Path:
    return Path(text).absolute()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_half",
        description=manual,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: object, line: str, *, site: bool = True) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=line, description=line)
        added.add_argument("work", type=_folder, metavar="WORK")
        if site:
            added.add_argument("site", type=_folder, metavar="SITE")
        added.set_defaults(run=run)
        return added

    verb("prepare", _prepare, "Configure WORK/source, and write the plan.").add_argument("variant")
    archive = verb("pack", _pack, "Write all files that compiling reads into a .tar.xz.", site=False)
    archive.add_argument("archive", type=Path)
    archive.add_argument("--objects", action="store_true", help="and the units that are compiled")
    units = verb("compile", _compile, "Compile the units that have no object yet.")
    units.add_argument("--jobs", type=int, default=1)
    units.add_argument("--limit-seconds", type=float, default=86_400.0)
    units.add_argument("--only", default="", metavar="PATTERN", help="units whose object's name has this")
    units.add_argument("--nvcc", type=Path, metavar="FOLDER", help="the CUDA toolkit, if SITE has no nvcc")
    verb("link", _link, "Link libtorch_cuda.so and libc10_cuda.so against the wheel's CPU half.")
    hybrid = verb("install", _install, "Make a site-packages FOLDER with that torch.")
    hybrid.add_argument("folder", type=Path)
    code = verb("same", _same, "Compare the machine code of kernels with the wheel's.")
    code.add_argument(
        "--names", type=Path, metavar="FILE", help="write the kernels that differ or are absent"
    )
    models = verb("models", _models, "Time steps of three models with the torch in FOLDER beside SITE's.")
    models.add_argument("folder", type=_folder)
    models.add_argument("--rounds", type=int, default=8)
    models.add_argument("--python", type=Path, default=Path(sys.executable))
    return parser


def _prepare(work: Work, options: argparse.Namespace) -> int:
    plan = prepare(work, options.site, options.variant)
    print(f"{len(plan.units)} units, of which {sum(unit.attention for unit in plan.units)} are attention")
    return 0


def _pack(work: Work, options: argparse.Namespace) -> int:
    files = pack(work, options.archive, objects=options.objects)
    print(f"{files} files, {options.archive.stat().st_size / 1e6:.1f} MB")
    return 0


def _compile(work: Work, options: argparse.Namespace) -> int:
    lay_out(work, options.site, options.nvcc)
    done, failed = compile_units(work, options.jobs, options.limit_seconds, options.only)
    print(f"{done} of {len(work.plan().units)} units are compiled, {failed} failed")
    return 1 if failed else 0


def _link(work: Work, options: argparse.Namespace) -> int:
    link(work, options.site)
    return 0


def _install(work: Work, options: argparse.Namespace) -> int:
    install(work, options.site, options.folder)
    return 0


def _same(work: Work, options: argparse.Namespace) -> int:
    variant = Variant.parse(work.plan().variant, builtin_catalog())
    total, code, units, names = Counter[str](), Counter[str](), 0, []
    for found in compare(work, options.site, f"sm_{variant.sm and variant.sm.number}"):
        units += 1
        total.update(same=found.same, different=len(found.different), absent=len(found.absent))
        code.update(found.bytes)
        names += [f"{kind}\t{name}" for kind in ("different", "absent") for name in getattr(found, kind)]
        print(f"{found.same} of {found.kernels} the same  {Path(found.unit.object).name}", flush=True)
    print(
        f"{total['same']} of {total.total()} kernels in {units} units have the wheel's machine code"
        f" ({code['same'] / 1e6:.1f} of {code.total() / 1e6:.1f} MB);"
        f" {total['different']} differ, {total['absent']} are not in the wheel"
    )
    if options.names:
        options.names.write_text("\n".join(names) + "\n")
    return 0


def _models(_: Work, options: argparse.Namespace) -> int:
    sites = (options.folder, options.site)
    for name, ours, wheels, ratio in compare_models(options.python, sites, options.rounds):
        times = [f"{statistics.median(seconds) * 1e3:.2f} ms" for seconds in (ours, wheels)]
        print(
            f"{name}: {times[0]}, wheel {times[1]}: {ratio.ratio:.4f} ({ratio.low:.4f} to {ratio.high:.4f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

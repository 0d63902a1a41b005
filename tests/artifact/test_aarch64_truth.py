"""Every AArch64 word that GNU's assembler takes only with an extension needs that extension's feature."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from tests.artifact.toolkit import checked
from torchsmith.artifact.features import aarch64_needs

TOOLS = "aarch64-linux-gnu-"
# An extension as GNU's assembler spells it, with the features of which one is needed for it.
EXTENSIONS = {
    "lse": {"atomics"},
    "rcpc": {"lrcpc"},
    "crc": {"crc32"},
    "dotprod": {"asimddp"},
    "rdma": {"asimdrdm"},
    "i8mm": {"i8mm"},
    "bf16": {"bf16"},
    "fp16fml": {"asimdfhm", "fphp", "asimdhp"},
    "compnum": {"fcma", "fphp", "asimdhp"},
    "fp16": {"fphp", "asimdhp"},
    "aes": {"aes", "pmull"},
    "sha2": {"sha1", "sha2", "sha512"},
    "sha3": {"sha3", "sha512", "sha1", "sha2"},
    "sm4": {"sm3", "sm4"},
    "sve": {"sve", "fphp", "asimdhp", "fcma"},
    "sve2": {"sve", "sve2", "fphp", "asimdhp", "fcma"},
    "sme": {"sme", "sve", "sve2", "bf16", "fphp", "asimdhp", "fcma"},
}
# Branches and literals are written as places, which cannot be assembled again.
PLACES = r"b|b\.\w+|bc\.\w+|bl|cbn?z|tbn?z|adrp?|udf|prfm|ldr|ldrsw"
# Left out on purpose: no compiler emits them for C++ unless it is asked to.
UNASKED = r"ldra[ab]|(ld|st)ll?[ao]r[bh]?|rmif|(cpy|set)[fg]?[pme]\w*|msr"
TAGS = r"(st|ld)z?2?gm?|stgp|addg|subg|gmi|irg|subps?"
OPERANDS = 0x1E000000  # what kind of instruction a word is
# FMLAL and FMLSL of vectors with sz = 1: undefined to Arm, yet GNU's disassembler shows them.
UNDEFINED = (0x0E60EC00, 0x2E60CC00)


def words(count: int) -> list[int]:
    """Words at random, most of them of scalar and vector arithmetic, SVE and SME."""
    source = random.Random(2026)
    kinds = (0x0E000000, 0x0E000000, 0x1E000000, 0x1E000000, 0x04000000, 0x00000000, None)
    drawn = [(source.getrandbits(32), source.choice(kinds)) for _ in range(count)]
    return [word if kind is None else word & ~OPERANDS | kind for word, kind in drawn]


def disassembled(found: list[int], folder: Path) -> dict[int, str]:
    """The words that are instructions, as text that can be assembled again."""
    source, made = folder / "words.s", folder / "words.o"
    source.write_text("".join(f".inst {word:#x}\n" for word in found))
    checked(f"{TOOLS}as", source, "-o", made)
    rows = re.findall(
        r"^\s+(\w+):\t(\w[^/<\n]*)",
        checked(f"{TOOLS}objdump", "-dz", "--no-show-raw-insn", made),
        re.MULTILINE,
    )
    return {
        found[int(at, 16) // 4]: text.strip()
        for at, text in rows
        if not re.fullmatch(f"({PLACES}|{UNASKED}|{TAGS})", text.split()[0])
        and found[int(at, 16) // 4] & 0xBF60FC00 not in UNDEFINED
    }


def taken(march: str, texts: list[str], folder: Path) -> set[str]:
    """The instructions that the assembler takes for an architecture."""
    source = folder / "texts.s"
    source.write_text("\n".join(texts) + "\n")
    command = [f"{TOOLS}as", f"-march={march}", str(source), "-o", "/dev/null"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    refused = {int(line) for line in re.findall(r"texts\.s:(\d+): Error", said)}
    return {text for line, text in enumerate(texts, 1) if line not in refused}


@pytest.mark.needs("cross-gcc")
def test_every_word_needs_what_the_assembler_must_be_told_of(tmp_path: Path) -> None:
    found = disassembled(words(30000), tmp_path)
    plain = taken("armv8-a", list(found.values()), tmp_path)
    more = [text for text in found.values() if text not in plain]
    by = {name: taken(f"armv8-a+{name}", more, tmp_path) for name in EXTENSIONS}
    wrong = []
    for word, text in found.items():
        needs = set(aarch64_needs(word))
        names = [name for name, texts in by.items() if text in texts]
        right = not needs if text in plain else all(needs & EXTENSIONS[name] for name in names)
        wrong += [] if right else [(hex(word), text, needs, names)]
    assert not wrong
    assert len(found) > 5000
    assert len(more) > 3000

"""What docs/catalog/index.md tells people to write is taken, and does what it says."""

from __future__ import annotations

import re
from pathlib import Path

from torchsmith.catalog import Sm, load_catalog
from torchsmith.catalog.gpu_names import gpu_of_name
from torchsmith.catalog.names import cpu_of_name
from torchsmith.matrix import Accepted, Variant, assess

PAGE = Path(__file__).parents[2] / "docs" / "catalog" / "index.md"


def test_the_examples_of_the_page_are_a_catalog(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n# catalog/(\w+\.toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert [name for name, _ in blocks] == ["gpus.toml", "cpus.toml", "cuda.toml", "pins.toml", "lines.toml"]
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    catalog = load_catalog(tmp_path)
    assert gpu_of_name("NVIDIA R200", catalog) == catalog.gpus[Sm(130)]
    assert gpu_of_name("NVIDIA H900", catalog) == gpu_of_name("NVIDIA H100", catalog) == catalog.gpus[Sm(90)]
    cpu = cpu_of_name("Intel(R) Xeon(R) 7 7980P", catalog)
    assert cpu is not None
    assert cpu.name == "diamondrapids"
    for name, line in (
        ("pytorch-python313-cuda14_0-sm130-avx512", "3.0"),
        ("pytorch213-python313-cuda13_0-sm90-avx512", "2.13"),
        ("pytorch-python313-cuda13_0-sm90-avx512", "2.10"),
    ):
        decision = assess(Variant.parse(name, catalog), catalog)
        assert isinstance(decision, Accepted), decision
        assert decision.line.name == line

"""Reports about other machines: cut, translated, without headers, contradictory, or of no tool we know."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.host.machines import corpus
from torchsmith.catalog import builtin_catalog, load_catalog
from torchsmith.catalog.axes import DriverVersion, Sm
from torchsmith.catalog.gpu_names import gpu_of_name
from torchsmith.core.problem import Empty, Invalid, Problem, TooLarge
from torchsmith.host.facts import HostFacts, merge
from torchsmith.host.normalise import normalise, without_repeats
from torchsmith.host.read_cpu import read_cpu, read_cpuinfo
from torchsmith.host.read_report import machine_of, read_report, read_report_file
from torchsmith.host.resolve import capability_of, known_isas, resolve

CATALOG = builtin_catalog()
ICELAKE = next(report.text for report in corpus()["icelake-a100"].reports if report.tool == "cpuinfo")
TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:0B:00.0 Off |                  N/A |
| 30%   41C    P8             25W /  350W |     123MiB /  24576MiB |      0%      Default |
|   1  NVIDIA RTX PRO 6000 Blac...    Off |   00000000:0C:00.0 Off |                  N/A |
+-----------------------------------------------------------------------------------------+
"""


def notes(facts: HostFacts) -> str:
    return "\n".join(map(str, facts.notes))


def test_a_cut_list_of_features_is_not_used() -> None:
    at = ICELAKE.index("avx512_vnni") + len("avx512_vn")
    facts = read_cpuinfo(ICELAKE[:at])
    assert facts.features is None
    assert capability_of(facts).system == "x86_64-linux"
    assert "cut" in notes(facts)


def test_a_cut_second_core_does_not_take_features_from_the_first() -> None:
    cut = ICELAKE + "\n" + ICELAKE[: ICELAKE.index("avx512f")]
    facts = read_cpuinfo(cut)
    assert facts.features == read_cpuinfo(ICELAKE).features
    assert "cut" in notes(facts)


def test_a_report_that_ends_with_the_features_of_equal_cores_is_complete() -> None:
    one = ICELAKE.rstrip()
    assert read_cpuinfo(one).features is None
    assert read_cpuinfo(f"{one}\n\n{one}").features == read_cpuinfo(ICELAKE).features


def test_a_cpu_that_was_read_without_features_is_not_given_those_of_its_kind() -> None:
    facts = resolve(read_cpuinfo(ICELAKE[: ICELAKE.index("flags")]), CATALOG)
    assert facts.features is None
    assert "features" in notes(facts)


def test_only_what_every_core_has_counts() -> None:
    facts = read_cpuinfo(ICELAKE + "\n" + ICELAKE.replace(" avx512f", ""))
    assert "avx512" not in known_isas(capability_of(facts).features, "x86_64-linux", CATALOG)
    assert "differ" in notes(facts)


@given(st.integers(0, len(ICELAKE)))
@settings(max_examples=200)
def test_a_report_cut_anywhere_never_promises_more_than_the_whole(at: int) -> None:
    whole = read_cpuinfo(ICELAKE).features
    part = read_cpuinfo(ICELAKE[:at]).features
    assert whole is not None
    if part is not None:
        able = set(known_isas(part.value, "x86_64-linux", CATALOG))
        assert able <= set(known_isas(whole.value, "x86_64-linux", CATALOG))


def test_lscpu_as_json_says_the_same() -> None:
    flags = ICELAKE.rsplit("flags\t\t: ", 1)[1].strip()
    plain = f"Architecture: x86_64\nModel name: Some Xeon\nFlags: {flags}\n"
    rows = [("Architecture:", "x86_64"), ("Model name:", "Some Xeon"), ("Flags:", flags)]
    table = ", ".join(f'{{"field": "{label}", "data": "{value}"}}' for label, value in rows)
    assert read_cpu(f'{{"lscpu": [{table}]}}', "lscpu") == read_cpu(plain, "lscpu")


def test_an_lscpu_without_features_says_so() -> None:
    facts = read_cpu("Architecture: x86_64\nCPU(s): 4\n", "lscpu")
    assert facts is not None
    assert facts.system is not None
    assert facts.system.value == "x86_64-linux"
    assert facts.features is None
    assert len(facts.notes) == 1
    assert "features" in notes(facts)


def test_csv_without_header_is_known_by_the_form_of_its_cells() -> None:
    facts = read_report("NVIDIA L4, 8.9, 535.183.01, 23034 MiB\n", "smi.csv")
    assert facts.driver is not None
    assert str(facts.driver.value) == "535.183.01"
    assert capability_of(facts).sms == tuple(sm for sm in CATALOG.gpus if sm.number == 89)


def test_the_table_of_nvidia_smi_is_read_and_a_cut_name_is_not_guessed() -> None:
    facts = resolve(read_report(TABLE, "table"), CATALOG)
    host = capability_of(facts)
    assert str(host.driver) == "570.133.20"
    assert [str(sm) for sm in host.sms or ()] == ["sm86", "sm120"]
    assert "'NVIDIA RTX PRO 6000 Blac...'" in notes(facts)


def test_a_cut_name_that_could_be_two_parts_stays_unknown() -> None:
    facts = resolve(
        read_report(TABLE.replace("RTX PRO 6000 Blac...", "Quadro RTX 600...   "), "table"), CATALOG
    )
    assert capability_of(facts).unknown_gpus


@pytest.mark.parametrize(
    ("printed", "sm"),
    [
        ("A100-SXM...", "sm80"),
        ("NVIDIA A100-SXM...", "sm80"),
        ("Tesla V100-SXM2...", "sm70"),
        ("NVIDIA H100 80G...", "sm90"),
        ("GeForce RTX 208...", None),
        ("Quadro RTX 600...", None),
        ("NVIDIA Jetson AG...", None),
        ("NVIDIA A10...", None),
    ],
)
def test_a_name_that_the_table_cuts_counts_word_by_word(printed: str, sm: str | None) -> None:
    row = f"|   0  {printed:<20} Off  | 00000000:0B:00.0 Off |                  N/A |"
    facts = resolve(
        read_report(f"| NVIDIA-SMI 450.51.06    Driver Version: 450.51.06 |\n{row}\n", "t"), CATALOG
    )
    host = capability_of(facts)
    assert [str(one) for one in host.sms or ()] == ([sm] if sm else [])
    assert host.unknown_gpus == (() if sm else (printed,))


def test_a_cut_name_is_not_taken_for_a_part_that_a_longer_one_begins_with(tmp_path: Path) -> None:
    (tmp_path / "gpus.toml").write_text('[sm89]\nparts = ["RTX 3050 A Laptop"]\n')
    catalog = load_catalog(tmp_path)
    assert gpu_of_name("NVIDIA GeForce RTX 3050 A...", catalog) is None
    assert gpu_of_name("NVIDIA GeForce RTX 3050 ...", catalog) is None
    assert gpu_of_name("NVIDIA GeForce RTX 3050 T...", catalog) == catalog.gpus[Sm(86)]
    assert gpu_of_name("NVIDIA GeForce RTX 3050 A Laptop GPU", catalog) == catalog.gpus[Sm(89)]


@pytest.mark.parametrize(
    "text",
    [
        "bash: nvidia-smi: command not found",
        "sh: 1: nvidia-smi: not found",
        "zsh: command not found: nvidia-smi",
        "fish: Unknown command: nvidia-smi",
    ],
)
def test_a_report_of_a_missing_nvidia_smi_does_not_tell_of_gpus(text: str) -> None:
    host = capability_of(resolve(read_report(f"$ nvidia-smi\n{text}\n", "smi.txt"), CATALOG))
    assert host.sms is None
    assert capability_of(resolve(read_report(f"{ICELAKE}\n{text}\n", "all.txt"), CATALOG)).sms is None


def test_a_note_stands_once_however_often_facts_are_resolved() -> None:
    facts = read_report("name, driver_version\nNVIDIA X1, 535.183.01\n", "smi.csv")
    twice = resolve(resolve(facts, CATALOG), CATALOG)
    assert len(twice.notes) == len(set(twice.notes)) == 1


@pytest.mark.parametrize("text", ["540.4.0", "580.65.06", "525.60.13", "470.1", "580"])
def test_a_driver_prints_as_nvidia_writes_it(text: str) -> None:
    assert str(DriverVersion.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "loaded"),
        ("Failed to initialize NVML: Driver/library version mismatch", "restart"),
        ("Failed to initialize NVML: Unknown Error", "NVML"),
        ("No devices were found", "lspci"),
    ],
)
def test_a_failed_nvidia_smi_is_explained(text: str, said: str) -> None:
    facts = read_report(text, "smi.txt")
    assert said in notes(facts)
    assert capability_of(machine_of([facts])).unknown_gpus


def test_a_name_that_contradicts_the_capability_is_reported() -> None:
    facts = resolve(read_report("name, compute_cap\nNVIDIA H100 PCIe, 8.9\n", "smi.csv"), CATALOG)
    assert [str(sm) for sm in capability_of(facts).sms or ()] == ["sm89"]
    assert "sm90" in notes(facts)


def test_reports_of_two_machines_are_not_mixed_in_silence() -> None:
    graviton = next(report.text for report in corpus()["graviton3"].reports)
    facts = merge([read_report(ICELAKE, "a"), read_report(graviton, "b")])
    assert facts.system is not None
    assert facts.system.value == "x86_64-linux"
    assert {note.source for note in facts.notes} == {"b"}


def read_lscpu_line(cpuinfo: str) -> str:
    return "Flags: " + cpuinfo.rsplit("flags\t\t: ", 1)[1]


@pytest.mark.parametrize("name", list(corpus()))
def test_our_json_carries_every_fact_both_ways(name: str, tmp_path: Path) -> None:
    facts = resolve(corpus()[name].facts(), CATALOG)
    text = msgspec.json.encode(facts, enc_hook=str).decode()
    (tmp_path / "host.json").write_text(text)
    assert read_report_file(tmp_path / "host.json") == facts


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("hello\n", Invalid, "lscpu"),
        ("", Empty, "report.txt"),
        ('{"format": 1, "kind": "machine"}', Invalid, "format 1"),
        ('{"kind": "machine", "driver": {"value": "new", "source": "x"}}', Invalid, "'new'"),
        ('{"kind": "machine", "system": ', Invalid, "report.txt:1"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(
    text: str, kind: type[Problem], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "report.txt"
    file.write_text(text)
    with pytest.raises(kind) as caught:
        read_report_file(file)
    assert said in str(caught.value)


@given(st.sampled_from(list(corpus())), st.data())
@settings(max_examples=150)
def test_any_cut_of_any_report_is_read_or_refused(name: str, data: st.DataObject) -> None:
    for report in corpus()[name].reports:
        text = report.text[: data.draw(st.integers(0, len(report.text)))]
        with contextlib.suppress(Problem):
            facts = resolve(read_report(text, report.tool), CATALOG)
            assert facts.notes or facts != HostFacts()


@pytest.mark.long
@given(st.text(max_size=200))
@settings(max_examples=300)
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Problem):
        facts = resolve(read_report(text, "text"), CATALOG)
        assert facts.notes or facts != HostFacts()


def test_a_table_that_is_cut_before_its_gpus_says_that_they_are_unknown() -> None:
    text = "| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0 |\n|-----+------|\n"
    facts = read_report(text, "cut")
    assert capability_of(machine_of([facts])).unknown_gpus
    assert str(facts.driver and facts.driver.value) == "580.65.06"


def test_an_arm_core_without_features_is_no_x86_machine() -> None:
    text = "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd4f\n"
    system = read_report(text, "cut").system
    assert system is not None
    assert system.value == "aarch64-linux"
    assert read_report(text + "CPU architecture: 7\n", "cut").system is None


@pytest.mark.parametrize(
    ("line", "sm"),
    [
        ("07:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)", "sm90"),
        (
            "0000:01:00.0 VGA compatible controller [0300]: NVIDIA A [GeForce RTX 4090] [10de:2684]",
            "sm89",
        ),
        ("65:00.0 3D controller: NVIDIA Corporation TU102GL [Quadro RTX 6000/8000] (rev a1)", "sm75"),
        ("01:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2b85] (rev a1)", None),
    ],
)
def test_lspci_tells_nvidias_gpus_by_the_name_in_brackets(line: str, sm: str | None) -> None:
    host = capability_of(resolve(read_report(line + "\n", "lspci.txt"), CATALOG))
    assert [str(one) for one in host.sms or ()] == ([sm] if sm else [])
    assert bool(host.unknown_gpus) is (sm is None)


@pytest.mark.parametrize(
    "text",
    [
        "c1:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] MI200 [Instinct MI250X]\n",
        "00:02.0 VGA compatible controller: Intel Corporation GT1 [UHD Graphics 770] (rev 04)\n",
        "============ ROCm System Management Interface ============\nGPU[0] : Card series: Instinct MI300X\n",
    ],
)
def test_gpus_of_other_makers_are_named_and_not_used(text: str) -> None:
    facts = read_report(text, "other")
    assert facts.gpus is not None
    assert facts.gpus.value == ()


def test_colours_of_a_terminal_are_not_part_of_a_report() -> None:
    facts = read_report("\x1b[1mGPU 0: NVIDIA H100 PCIe (UUID: b)\x1b[0m\n", "log")
    assert [str(sm) for sm in capability_of(resolve(facts, CATALOG)).sms or ()] == ["sm90"]


def test_a_machine_of_another_kind_is_told_apart_and_not_unreadable() -> None:
    for machine in ("riscv64", "s390x", "loongarch64", "armv7l"):
        system = read_report(f"Architecture:  {machine}\nCPU(s):  4\n", "lscpu.txt").system
        assert system is not None
        assert system.value == f"{machine}-linux"


@pytest.mark.parametrize(
    ("name", "data", "says", "hint"),
    [
        ("x.whl", b"PK\x03\x04" + bytes(range(256)) * 9, "is not text", "nvidia-smi"),
        ("libtorch.so", b"\x7fELF" + bytes(range(256)) * 9, "is not text", "nvidia-smi"),
        ("bug.log.gz", b"\x1f\x8bRTX 4090", "is not text", "nvidia-smi"),
        ("a.zip", b"PK\x03\x04RTX 4090", "is not text", "nvidia-smi"),
        ("core", b"RTX 4090 \0 rest of a dump", "is not text", "nvidia-smi"),
    ],
)
def test_a_binary_file_is_not_a_report(tmp_path: Path, name: str, data: bytes, says: str, hint: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(Invalid, match=says) as error:
        read_report_file(tmp_path / name)
    assert hint in error.value.hint


def test_a_long_log_is_read_without_lines_that_are_alike() -> None:
    log = "".join(f"{at}: step {at} of 50000, loss 0.{at}, /usr/lib\n" for at in range(50_000))
    table = "|   0  NVIDIA GeForce RTX 4090        On  |\n| 1  NVIDIA GeForce RTX 3090   On  |\n"
    short = without_repeats(log + table)
    assert len(short.splitlines()) < 200
    assert short.endswith(table)
    named = "".join(f"[rank0] step {at} NVIDIA mem {at % 80} GB\n" for at in range(50_000))
    assert len(without_repeats(table + named).splitlines()) < 200
    flags = "flags : fpu sse2 sse4_1\nflags : fpu sse2 sse4_2\n"
    assert without_repeats(log + flags).endswith(flags)
    assert without_repeats(table) == table
    blank = normalise("NVIDIA GeForce RTX 4090" + "\r \r\n" * 50_000)
    assert len(blank) < 100


def test_a_row_of_nvidia_smi_is_a_gpu_and_its_list_names_the_same_ones() -> None:
    rows = "name, compute_cap, driver_version\n" + "NVIDIA A100-SXM4-80GB, 8.0, 535.104.05\n" * 8
    listed = "".join(f"GPU {at}: NVIDIA A100-SXM4-80GB (UUID: GPU-{at})\n" for at in range(8))
    for text in (rows, rows + listed):
        gpus = read_report(text, "gpus.csv").gpus
        assert gpus is not None
        assert len(gpus.value) == 8


def test_a_document_with_too_many_brackets_is_refused() -> None:
    with pytest.raises(TooLarge):
        read_report('{"kind": "machine", "gpus": ' + "[" * 100_000, "m.json")


def test_a_note_on_a_report_names_the_report() -> None:
    facts = read_report("GPU 0: NVIDIA L4\nDriver Version: 550.54\nDriver Version: 560.35", "smi.txt")
    assert [note.source for note in facts.notes] == ["smi.txt"]

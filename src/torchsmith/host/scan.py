"""One pass over a text: what its lines say of a machine, whichever tool or person wrote them.

A line of a tool, and the value of a known key (tokens.toml), is a fact. Anything else is what a person wrote:
it counts if no line says better, and as a condition. Different things of one kind are candidates, among which
a person chooses; a GPU that is shown and not named is unknown, never absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from torchsmith.catalog import Catalog, PythonVersion, builtin_catalog
from torchsmith.catalog.axes import DriverVersion
from torchsmith.catalog.facts import Gfx, SystemRelease
from torchsmith.catalog.names import cpu_of_name
from torchsmith.catalog.ranges import latest_of, version_key
from torchsmith.core.text import listed
from torchsmith.host.facts import (
    Fact,
    GpuFacts,
    HostFacts,
    Note,
    driver_fact,
    fact_of,
    merge,
    same_name,
    sm_fact,
)
from torchsmith.host.gpu_mentions import AMD, add_mentions, find_gpus
from torchsmith.host.tokens import SERVED, compiled, field, matching, table, words

# Windows' own number of NVIDIA's driver: 32.0.15.8180 is 581.80. Intel's begin otherwise: 20.19.15.4531.
DXDIAG = re.compile(r"\b(?:(?:[89]|10)\.1[78]\.0*1(?=3)|(?:2\d\.21|3\d\.0)\.0*1)(\d)\.(\d{4})\b")


def scan(
    text: str,
    source: str,
    catalog: Catalog | None = None,
    known: HostFacts = HostFacts(),
) -> HostFacts:
    """All that a text says of one machine, added to what is known of it."""
    return _Scan(text, source, catalog or builtin_catalog(), known).facts()


class _Scan:
    """The tokens of a text, and what they come to."""

    def __init__(self, text: str, source: str, catalog: Catalog, known: HostFacts) -> None:
        self.text, self.source, self.catalog, self.known = text, source, catalog, known
        self.spoken = f"{source}, what a person wrote"
        self.notes: dict[Note, None] = {}
        self.lacking: dict[Note, None] = {}  # notes that count on machines that may have NVIDIA's GPUs
        self.gpus: dict[str, dict[str, str]] = {}  # by number or name
        self.amd_gpus: dict[str, str] = {}  # by target or name
        self.amd_chips: dict[str, None] = {}  # that count if no other GPU is known
        self.first: dict[str, str] = {}  # facts of which the first counts
        self.rows = 0  # of GPUs in a table of nvidia-smi's, which has one for each
        self.drivers: dict[str, None] = {}
        self.l4ts: set[str] = set()  # releases of Linux for Tegra
        self.by_jetpack: set[str] = set()  # those of the JetPacks that are named
        self.systems: list[str] = []  # values of keys that name a system
        self.used: set[int] = set()  # where lines begin whose GPUs are known

    def facts(self) -> HostFacts:
        lowered = self.text.lower()
        for word, pattern in table()["lines"]:
            for match in compiled(pattern).finditer(self.text) if word in lowered else ():
                self._line(match)
        for match in field().finditer(self.text):
            self._field(match)
        for major, minor in (match.groups() for match in DXDIAG.finditer(self.text)):
            self.drivers[f"{(major + minor)[:3]}.{(major + minor)[3:]}"] = None
        flags = matching("flags", [self.text])
        for note in matching("notes", [self.text]):
            self._note(note)
        if not (self.gpus or self.amd_gpus):
            self.amd_gpus = dict(zip(self.amd_chips, self.amd_chips, strict=True))
        if "amd" in flags and not self.amd_gpus:
            self.amd_gpus[AMD] = AMD
        if "pci" in flags and not ("no_gpu" in flags or self.gpus or self.amd_gpus):
            self._note("lists PCI devices and no display among them: --gpu none if that is all of it", "gpu")
        jetson = self._jetson("tegra" in flags)
        driver, system = self._driver(), self._system(bool(jetson))
        mac = system is not None and system.value.endswith("-darwin")
        releases = releases_in(self.text, self.catalog, mac=mac)
        if len(releases) > 1:
            self._note(f"names {listed(one.name for one in releases)}: the release is unknown")
        release = releases[0] if len(releases) == 1 else SystemRelease(name="", pattern="", source="")
        python = self.first.get("python")
        windows = "windows" in flags or _in_wsl(driver, self.first.get("smi", ""))
        facts = HostFacts(
            system=system,
            cpu_name=self._cpu(),
            driver=driver,
            non_nvidia_gpus=fact_of(tuple(self.amd_gpus.values()), self.source),
            glibc=fact_of(self.first.get("glibc"), self.source) or fact_of(release.glibc, self.source),
            macos=fact_of(release.macos, self.source),
            release=fact_of(release.name, self.source),
            python=Fact(PythonVersion.parse(python), self.source) if python else None,
            windows=Fact(True, self.source) if windows else None,
            l4t=fact_of(jetson, self.source),
            instance=fact_of(self.first.get("instance"), self.source),
        )
        gpus = tuple(self._named_gpus())
        gpus = gpus[:1] if jetson else gpus  # its board, and the module on that, name one
        facts = replace(facts, gpus=Fact(gpus, self.source) if gpus or "no_gpu" in flags else None)
        facts = replace(facts, notes=tuple(self.notes if mac else self.notes | self.lacking))
        known = self.known
        if known.system and facts.system and known.system.value != facts.system.value:
            known = replace(known, system=None)  # features alone say Linux
        return add_mentions(merge([known, facts]), self.text, self.spoken, self.catalog)

    def _note(self, text: str, code: str = "") -> None:
        self.notes[Note(self.source, text, code)] = None

    def _line(self, match: re.Match[str]) -> None:
        fields = {key: value.strip() for key, value in match.groupdict().items() if value}
        fields = {key: value for key, value in fields.items() if not words("nothing").fullmatch(value)}
        for key in ("smi", "instance"):
            if key in fields:
                self.first.setdefault(key, fields[key])
        l4ts = (re.findall(r"\d+", fields[key]) for key in ("l4t", "l4t_file") if key in fields)
        self.l4ts |= {".".join(numbers) for numbers in l4ts}
        if jetpack := fields.get("jetpack"):
            packs = {name: pack.jetpack for name, pack in self.catalog.jetpacks.items()}
            same = (name for name, text in packs.items() if text == jetpack)
            self.by_jetpack.add(max(same, default="") or latest_of(packs, jetpack) or "?")
        if driver := fields.get("driver"):
            self.drivers[driver] = None
        if cpu := fields.get("host_cpu"):
            self.first.setdefault("cpu", cpu)
            self.systems.append("Linux x86_64")
        if chip := fields.get("amd_chip"):
            self.amd_chips[f"AMD {chip}"] = None
        if fields.keys() & {"amd", "gfx"}:
            self._amd_gpu(fields.get("amd", ""), fields.get("gfx", ""))
        elif fields.keys() & {"gpu", "cap", "chip"}:
            if "row" in match.re.groupindex:
                fields["n"] = str(self.rows)
                self.rows += 1
            self._gpu({key: fields[key] for key in ("n", "gpu", "cap", "chip") if key in fields})
        else:
            return
        self.used.add(self.text.rfind("\n", 0, match.start()) + 1)

    def _amd_gpu(self, label: str, target: str = "") -> None:
        if not target and any(label in name for name in self.amd_gpus.values()):
            return
        name = f"{label} ({target})" if label and target else label or target
        self.amd_gpus.setdefault(target or label, name)

    def _gpu(self, fields: dict[str, str]) -> None:
        """A GPU by its number, else by its name: the same name with more to it is the same GPU."""
        name = fields.get("gpu", "").replace("_", " ").strip(" |\"'`*")
        if words("amd_gpu").search(name) and "nvidia" not in name.lower():
            self._amd_gpu(name)
            return
        if words("graphics").search(name):
            return
        if words("other_maker").search(name):
            self.amd_gpus.setdefault(name, name)
            return
        if name and "nvidia".startswith(name.lower()) and self.gpus:
            self._note(f"cuts a name off: {name}")
            return
        fields = fields | ({"gpu": name} if name else {})
        for number in re.split(r", ?", fields.get("n", "")):
            same = (
                key
                for key, gpu in self.gpus.items()
                if ("gpu" in gpu or "chip" not in gpu) and same_name(gpu.get("gpu", ""), name)
            )
            chip = fields.get("chip", "") if not name else ""
            key = number or chip or next(same, f"#{name}")
            known = self.gpus.setdefault(key, {})
            if "gpu" in known and not same_name(known["gpu"], name or known["gpu"]):
                known = self.gpus.setdefault(f"{key}#{name}", {})  # of another machine, or of two lists
            for label, value in fields.items():
                known.setdefault(label, value)

    def _field(self, match: re.Match[str]) -> None:
        value = match["value"].strip().strip("|\"'`*,;").strip()
        groups = match.groupdict().items()
        kind = next(kind for kind, found in groups if found is not None and kind != "value")
        begin = self.text.rfind("\n", 0, match.start()) + 1
        if not value or words("nothing").fullmatch(value):
            if value and kind in ("gpu", "driver"):
                self.lacking[Note(self.source, f"has no {match[kind].lower()}")] = None
            return
        if kind == "gpu_perhaps" and (cpu := words("cpu").search(value)):
            self.first.setdefault("cpu", cpu[0])
            return
        if kind in ("gpu", "gpu_perhaps"):
            if begin not in self.used:
                self._gpu_field(value, begin, certain=kind == "gpu")
        elif kind == "driver":
            self._driver_field(value)
        elif kind == "system":
            self.systems.append(value)
        elif kind == "cpu":
            if words("cpu").search(value) or words("cpu_maker").search(value):
                self.first.setdefault("cpu", value)
        elif number := re.search(r"\b\d\.\d{1,2}\b", value):
            self.first.setdefault(kind, number[0])

    def _driver_field(self, value: str) -> None:
        number = re.match(r"[^\d]{0,30}(\d{3}\.\d+(?:\.\d+)?)\b", value)
        if number and not words("not_this_driver").search(value):
            self.drivers[number[1]] = None

    def _gpu_field(self, value: str, begin: int, *, certain: bool) -> None:
        value = words("in_cpu").sub("", value)
        found = find_gpus(value, self.catalog, field=certain)
        if words("graphics").search(value):
            self._note(f"shows graphics that no build uses: {value[:60]}")
        if not certain and not any(named.product for named in found):
            return
        capability = words("capability").search(value)
        for named in found:
            if isinstance(named.product, Gfx):
                self._amd_gpu(named.name)
            else:
                cap = {"cap": capability[1]} if capability and len(found) == 1 else {}
                self._gpu({"gpu": named.name} | cap)
            self.used.add(begin)
        if found or words("not_gpu").search(value):
            return
        if re.search(r"(?i)\b(?:nvidia|geforce|tesla|quadro)\b", value):
            self._gpu({"gpu": re.split(r"[,(|]", value)[0]})
            self.used.add(begin)
        elif words("amd_gpu").search(value):
            self._amd_gpu(re.split(r" (?=[a-z][\w-]*: )", value)[0][:80])  # inxi goes on: vendor: Lenovo
            self.used.add(begin)

    def _jetson(self, tegra: bool) -> str:
        """The release of Linux for Tegra, by itself, its JetPack or its kernel; `?` if that is not clear."""
        kernel = re.search(r"\b(\d+\.\d+)\.[\w.+-]*-tegra\b", self.text)
        packs = self.catalog.jetpacks.items()
        stated = self.l4ts or self.by_jetpack
        stated = stated or {name for name, pack in packs if kernel and pack.kernel == kernel[1]}
        exact = {name for name in stated if "." in name} or stated
        series = {name.partition(".")[0] for name in stated}
        return min(exact, key=version_key) if len(series) == 1 else "?" if stated or tegra else ""

    def _driver(self) -> Fact[DriverVersion] | None:
        """The driver; of several the oldest."""
        notes: list[Note] = []
        texts = [text for text in self.drivers if not any(f"{text}." in other for other in self.drivers)]
        drivers = [fact for text in texts if (fact := driver_fact(text, self.source, notes))]
        if len(drivers) > 1:
            names = ", ".join(str(fact.value) for fact in drivers)
            self._note(f"names the drivers {names}: the oldest is used")
        self.notes.update(dict.fromkeys(notes))
        return min(drivers, key=lambda fact: fact.value, default=None)

    def _system(self, tegra: bool) -> Fact[str] | None:
        """What keys and the kernel state; else what only one system shows, or a word for a CPU."""
        known = self.known.system.value.partition("-")[0] if self.known.system else ""
        values = [*self.systems, *words("uname").findall(self.text)]
        kernels, machines = matching("systems", values), matching("machines", [*values, known])
        shown = ["android"] if words("android", "written").search(self.text) else []
        shown = shown if kernels else matching("written", [self.text])
        if tegra:
            kernels, machines = ["linux"], ["aarch64"]
        elif "android" in shown and {*kernels, *machines} <= {"linux", "android", "aarch64"}:
            kernels = ["android"]
        elif not kernels and self.known.features:
            kernels = ["linux"]  # its names of features are Linux' own
        prose = not kernels and (not machines or shown not in ([], ["linux"]))
        if not kernels:
            in_wsl = shown == ["windows", "linux"]
            kernels = ["linux"] if in_wsl or (machines and not shown) else shown
        if not machines and kernels == ["darwin"] and "intel" in self.first.get("cpu", "").lower():
            machines = ["x86_64"]
        if not machines:
            machines = matching("machines", [self.text])
            foreign = [machine for machine in machines if machine not in SERVED]
            machines = foreign[:1] if foreign and "x86_64" not in machines else machines
            prose = prose or (bool(machines) and kernels != ["windows"])  # Windows is taken for x86_64
        system = _system_of(kernels, machines)
        if system == "x86_64-windows" and words("arm_windows").search(self.text):
            system = "aarch64-windows"
        if system is None and len(kernels) + len(machines) > 1:
            self._note(f"names {listed([*kernels, *machines])}: the system is unknown")
        return Fact(system, self.spoken if prose else self.source, prose) if system else None

    def _cpu(self) -> Fact[str] | None:
        if "cpu" in self.first:
            return Fact(self.first["cpu"], self.source)
        lines = "\n".join(line for line in self.text.splitlines() if not words("not_this_cpu").search(line))
        # 8845HS without Ryzen: a number that begins a name is AMD's.
        names = (re.sub(r"^(?=\d)", "Ryzen ", match[0]) for match in words("cpu").finditer(lines))
        named = {name: cpu_of_name(name, self.catalog) for name in names}
        kinds = {cpu.isas for cpu in named.values() if cpu}
        name = next((name for name, cpu in named.items() if cpu), "")
        return Fact(name, self.spoken, True) if len(kinds) == 1 else None

    def _named_gpus(self) -> Iterator[GpuFacts]:
        notes: list[Note] = []
        listed = any(key.isdigit() for key in self.gpus)
        for fields in self.gpus.values():
            if listed and not fields.keys() & {"gpu", "cap"}:
                continue  # lspci knows the chip of one that nvidia-smi names
            name = re.sub(r"\s+", " ", fields.get("gpu", ""))
            counted = re.fullmatch(r"(\d{1,2}) ?[x×*] ?(.+)", name)
            if name.endswith("..."):
                self._note(f"cuts the name {name!r}: nvidia-smi -q has all of it")
            yield GpuFacts(
                name=fact_of(counted[2] if counted else name, self.source),
                sm=sm_fact(fields.get("cap", ""), self.source, notes),
                chip=fact_of(fields.get("chip"), self.source),
            )
        self.notes.update(dict.fromkeys(notes))


def releases_in(text: str, catalog: Catalog, *, mac: bool = False) -> list[SystemRelease]:
    """The releases of a system that a text names."""
    known = (one for one in catalog.systems.values() if bool(one.macos) is mac)
    return [one for one in known if compiled(one.pattern).search(text)]


def _system_of(kernels: list[str], machines: list[str]) -> str | None:
    """A system as Nix writes it; None if the words are of several, or of none."""
    kernel = kernels[0] if kernels else "linux" if machines else ""
    if len(kernels) > 1 or not kernel:
        return None
    if kernel == "linux":
        return f"{machines[0]}-linux" if len(machines) == 1 else None
    usual = {"darwin": "any", "android": "aarch64"}.get(kernel, "x86_64")
    known = machines[0] if len(machines) == 1 and kernel == "darwin" else usual
    return f"{known}-{kernel}"


def _in_wsl(driver: Fact[DriverVersion] | None, smi: str) -> bool:
    """Whether nvidia-smi is Linux' and the driver Windows': newer, and numbered in two parts (560.94)."""
    parts = tuple(map(int, re.findall(r"\d+", smi)))
    return driver is not None and bool(parts) and len(driver.value.parts) == 2 and driver.value.parts > parts

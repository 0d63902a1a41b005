"""One pass over a text: what its lines say of a machine, whichever tool or person wrote them.

A line of a tool, and the value of a key that is known (tokens.toml), is a fact. What stands elsewhere is what
somebody wrote: it counts where no line says better, and as a condition. Different things of one kind are
candidates, among which a person chooses; a GPU that is shown and not named is unknown, never absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from torchsmith.catalog import Catalog, builtin_catalog
from torchsmith.catalog.axes import BadValue, DriverVersion, Sm
from torchsmith.catalog.facts import Gfx
from torchsmith.catalog.gpu_names import OR, instance_of, product_of_name
from torchsmith.catalog.names import cpu_of_name
from torchsmith.core.toml import read_cached
from torchsmith.host.facts import Fact, GpuFacts, HostFacts, Note, driver_fact, fact_of, merge, sm_fact

AMD = "an AMD GPU"  # of which nothing else is known
SERVED = ("x86_64", "aarch64")
MAKERS = ("nvidia", "other", "cuda", "amd")
# Windows' own number of NVIDIA's driver: 32.0.15.8180 is 581.80.
DXDIAG = re.compile(r"\b\d{2}\.\d{1,2}\.0*1(\d)\.(\d{4})\b")


@cache
def _table() -> dict[str, Any]:
    return read_cached(Path(__file__).with_name("tokens.toml"))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


@cache
def words(kind: str, section: str = "words") -> re.Pattern[str]:
    """A pattern of tokens.toml, compiled when it is first asked for."""
    value = _table()[section][kind]
    return _compiled(value if isinstance(value, str) else "|".join(value))


@cache
def _field() -> re.Pattern[str]:
    """A key that is known, and its value."""
    keys = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _table()["keys"].items())
    return _compiled(
        rf"(?:^|(?<=[\s|>*\"'`{{,(\[+-]))(?:{keys})[\"'*`)]*\s*(?:[:=：|]+|\s{{2,}})"
        r"[ \t]*[\"'*`\[]*(?P<value>[^\n]*)"
    )


@cache
def _sign() -> re.Pattern[str]:
    """All that shows a GPU, by a name or otherwise."""
    signs, names = _table()["signs"].values(), _table()["names"]
    named = rf"(?<![a-z0-9.])(?:{names['brand']}|{names['model']})(?![a-z0-9.]*[a-z]{{4}})"
    return _compiled("|".join([*(sign for kind in signs for sign in kind), named]))


FoundName = tuple[int, int, str, Any]  # where a name begins and ends, it, and what it is of


def find_gpus(line: str, catalog: Catalog, *, field: bool) -> list[FoundName]:
    """The names of GPUs in a line, the longest that the catalog knows; a brand with a number that it does not
    know has None. Short names and bare numbers count only with a brand, in a field or beside another name."""
    line = re.sub(r"\((?:R|TM|C)\)|[®™]", lambda mark: " " * len(mark[0]), line, flags=re.IGNORECASE)
    tokens = list(re.finditer(r"[A-Za-z0-9]+", line))
    found: list[FoundName] = []
    at = 0
    while at < len(tokens):
        length = _length(line, tokens[at:])
        named = _known(line, tokens[at : at + length], catalog) if length else None
        at += 1
        if named is not None:
            found.append(named)
            at += sum(1 for token in tokens[at:] if token.start() < named[1])
    sure = [_counts(line, begin, name, product, field=field) for begin, _, name, product in found]
    beside = any(sure)
    return [named for named, own in zip(found, sure, strict=True) if own or (beside and named[3])]


def _length(line: str, tokens: list[re.Match[str]]) -> int:
    """How many words a name may have that begins here: brands, one model, and what may follow."""
    brand, model, suffix = (words(kind, "names") for kind in ("brand", "model", "suffix"))
    models = brands = 0
    for at, token in enumerate(tokens):
        gap = line[tokens[at - 1].end() : token.start()] if at else ""
        size = re.fullmatch(r"(?i)\d+g(i?b)?|gb", token[0])
        if not re.fullmatch(r"[ _(-]{0,3}|\) ?", gap):
            break
        if not size and brand.fullmatch(token[0]) and (not models or token[0].lower() == "rtx"):
            brands += 1
        elif not size and model.fullmatch(token[0]) and not models:
            models += 1
        elif not ((models or brands) and (size or suffix.fullmatch(token[0]))):
            break
    else:
        at = len(tokens)
    return at if models or at > 1 else 0


def _known(line: str, tokens: list[re.Match[str]], catalog: Catalog) -> FoundName | None:
    for length in range(len(tokens), 0, -1):
        begin, end = tokens[0].start(), tokens[length - 1].end()
        name = line[begin:end]
        product = product_of_name(name.replace("(", " ").replace(")", " "), catalog)
        if product is not None:
            return begin, end, name + (")" if "(" in name else ""), product
    whole = line[tokens[0].start() : tokens[-1].end()]
    return (tokens[0].start(), tokens[-1].end(), whole, None) if re.search(r"\d{3}", whole) else None


def _counts(line: str, begin: int, name: str, product: Any, *, field: bool) -> bool:
    """Whether a name is that of a GPU, and not a word or number that merely looks like one."""
    branded = words("brand", "names").match(name) is not None
    if product is None:
        return (
            re.match(r"(?i)(?:nvidia[ -])?(?:geforce|gtx|rtx|quadro|tesla|radeon rx|rx)[ -]?\w*\d{3}", name)
            is not None
        )
    if re.match(r"(?i)apple ", line[max(begin - 6, 0) : begin]):
        return False  # an Apple M4 is no Tesla M4
    if field or branded:
        return True
    if name.isdigit():
        before = re.search(rf"(?i)(?:^|\s|\()(?:{_table()['names']['counted']})$", line[:begin])
        after = re.match(r"(?i)s?\b[ -]*(?:gpus?|laptop|cards?|24 ?gb|\()", line[begin + len(name) :])
        return len(name) == 4 and bool(before or after)
    return len(name) >= 4 or bool(re.match(r"(?i)\s*(?:gpus?|cards?)\b", line[begin + len(name) :]))


def scan(
    text: str,
    name: str,
    catalog: Catalog | None = None,
    known: HostFacts = HostFacts(),  # noqa: B008
) -> HostFacts:
    """All that a text says of one machine, beside what readers of single forms know of it."""
    return _Scan(text, name, catalog or builtin_catalog(), known).facts()


class _Scan:
    """The tokens of a text, and what they come to."""

    def __init__(self, text: str, name: str, catalog: Catalog, known: HostFacts) -> None:
        self.text, self.name, self.catalog, self.known = text, name, catalog, known
        self.machine = known.system.value.partition("-")[0] if known.system else ""
        self.source, self.spoken = name, f"{name}, what somebody wrote"
        self.notes: dict[Note, None] = {}
        self.gpus: dict[str, dict[str, str]] = {}
        self.others: dict[str, str] = {}  # AMD's, by target or name
        self.first: dict[str, str] = {}  # facts of which the first counts
        self.drivers: dict[str, None] = {}
        self.l4ts: set[str] = set()  # releases of Linux for Tegra
        self.systems: list[str] = []  # values of keys that name a system
        self.used: set[int] = set()  # where lines begin whose GPUs are known

    def facts(self) -> HostFacts:
        small = self.text.lower()
        for word, pattern in _table()["lines"]:
            for match in _compiled(pattern).finditer(self.text) if word in small else ():
                self._line(match)
        for match in _field().finditer(self.text):
            self._field(match)
        flags = {kind for kind in _table()["flags"] if words(kind, "flags").search(self.text)}
        for note in _table()["notes"]:
            if words(note, "notes").search(self.text):
                self.notes[Note(f"{self.name} (nvidia-smi)", note)] = None
        if "amd" in flags and not self.others:
            self.others[AMD] = AMD
        jetson = self._jetson("tegra" in flags)
        driver = self._driver()
        facts = HostFacts(
            system=self._system(bool(jetson)),
            cpu_name=self._cpu(),
            driver=driver,
            others=fact_of(tuple(self.others.values()), self.source),
            os=fact_of(self.first.get("os"), self.source),
            glibc=fact_of(self.first.get("glibc"), self.source),
            windows=Fact(True, self.source)
            if "windows" in flags or _in_wsl(driver, self.first.get("smi", ""))
            else None,
            l4t=fact_of(jetson, self.source),
            instance=self._instance(),
        )
        gpus = tuple(self._named_gpus())
        facts = replace(facts, gpus=Fact(gpus, self.source) if gpus or "no_gpu" in flags else None)
        facts = replace(facts, notes=tuple(self.notes))
        known = self.known
        if known.system and facts.system and known.system.value != facts.system.value:
            known = replace(known, system=None)  # its reader takes Linux for granted
        if driver and driver.prose and known.driver:
            facts = replace(facts, driver=None)
        return _Mentions(self, merge([known, facts]), looked="looked" in flags).facts()

    def _line(self, match: re.Match[str]) -> None:
        fields = {key: value.strip() for key, value in match.groupdict().items() if value}
        fields = {key: value for key, value in fields.items() if not words("nothing").fullmatch(value)}
        if smi := fields.pop("smi", ""):
            self.first.setdefault("smi", smi)
        self.l4ts |= {fields.pop(key) for key in ("l4t", "l4t_file") if key in fields}
        if jetpack := fields.pop("jetpack", ""):
            packs = self.catalog.jetpacks.items()
            self.l4ts |= {next((name for name, pack in packs if pack.jetpack == jetpack), "?")}
        if driver := fields.pop("driver", ""):
            self.drivers[driver] = None
        if cpu := fields.pop("host_cpu", ""):
            self.first.setdefault("cpu", cpu)
            self.systems.append("Linux x86_64")
        if fields.keys() & {"amd", "gfx"}:
            self._other(fields.get("amd", ""), fields.get("gfx", ""))
        elif fields.keys() & {"gpu", "cap", "chip"}:
            self._gpu(fields)
        else:
            return
        self.used.add(self.text.rfind("\n", 0, match.start()) + 1)

    def _other(self, label: str, target: str) -> None:
        name = f"{label} ({target})" if label and target else label or target
        self.others.setdefault(target or label, name)

    def _gpu(self, fields: dict[str, str]) -> None:
        """A GPU by its number, else by its name: the same name with more to it is the same GPU."""
        name = fields.get("gpu", "").replace("_", " ").strip(" |\"'`*")
        if words("amd_gpu").search(name) and "nvidia" not in name.lower():
            self._other(name, "")
            return
        if words("graphics").search(name) or words("other_maker").search(name):
            if words("other_maker").search(name) and not words("graphics").search(name):
                self.others.setdefault(name, name)
            return
        if name and "nvidia".startswith(name.lower()) and self.gpus:
            self.notes[Note(self.source, f"cuts a name off: {name}")] = None
            return
        fields = fields | ({"gpu": name} if name else {})
        for number in re.split(r", ?", fields.get("n", "")):
            key = number
            if not number:
                address = fields.get("address", "")
                same = (
                    key
                    for key, gpu in self.gpus.items()
                    if gpu.get("address", address) == address and _same_name(gpu.get("gpu", ""), name)
                )
                key = next(same, f"#{name}#{address}")
            known = self.gpus.setdefault(key, {})
            if "gpu" in known and not _same_name(known["gpu"], name or known["gpu"]):
                known = self.gpus.setdefault(f"{key}#{name}", {})  # of another machine, or of two lists
            for field, value in fields.items():
                known.setdefault(field, value)

    def _field(self, match: re.Match[str]) -> None:
        value = match["value"].strip().strip("|\"'`*,;").strip()
        kind = next(
            kind for kind, found in match.groupdict().items() if found is not None and kind != "value"
        )
        begin = self.text.rfind("\n", 0, match.start()) + 1
        if not value or words("nothing").fullmatch(value):
            if value and kind in ("gpu", "driver"):
                self.notes[Note(self.source, f"has no {match[kind].lower()}")] = None
            return
        if kind == "gpu_perhaps" and (cpu := words("cpu").search(value)):
            self.first.setdefault("cpu", cpu[0])
        if kind in ("gpu", "gpu_perhaps"):
            if begin not in self.used:
                self._gpu_field(value, begin, sure=kind == "gpu")
        elif kind == "driver":
            number = re.match(r"[^\d]{0,30}(\d{3}\.\d+(?:\.\d+)?)\b", value)
            windows = DXDIAG.search(value)
            if windows:
                digits = windows[1] + windows[2]
                self.drivers[f"{digits[:3]}.{digits[3:]}"] = None
            elif number and not words("not_this_driver").search(value):
                self.drivers[number[1]] = None
        elif kind == "system":
            self.systems.append(value)
            if match["system"].lower() in ("os", "operating system") and value not in ("nt", "posix"):
                self.first.setdefault("os", re.sub(r"\s*\((?:x86_64|aarch64|arm64)\)$", "", value))
        elif kind == "cpu":
            if words("cpu").search(value) or re.search(
                r"\b(?:Intel|AMD|Apple|Snapdragon|ARM|Neoverse|Cortex)\b", value
            ):
                self.first.setdefault("cpu", value)
        elif number := re.search(r"\d+\.\d+", value):
            self.first.setdefault(kind, number[0])

    def _gpu_field(self, value: str, begin: int, *, sure: bool) -> None:
        value = words("in_cpu").sub("", value)
        found = list(find_gpus(value, self.catalog, field=True))
        if words("graphics").search(value):
            self.notes[Note(self.source, f"shows graphics that no build uses: {value[:60]}")] = None
        if not sure and not any(product for *_, product in found):
            return
        capability = words("capability").search(value)
        for *_, name, product in found:
            if isinstance(product, Gfx):
                self._other(name, "")
            else:
                self._gpu({"gpu": name} | ({"cap": capability[1]} if capability and len(found) == 1 else {}))
            self.used.add(begin)
        if words("not_gpu").search(value):
            return
        if not found and re.search(r"(?i)\b(?:nvidia|geforce|tesla|quadro)\b", value):
            self._gpu({"gpu": re.split(r"[,(|]", value)[0]})
            self.used.add(begin)
        elif not found and words("amd_gpu").search(value):
            self._other(value[:80], "")
            self.used.add(begin)

    def _jetson(self, tegra: bool) -> str:
        """The release of Linux for Tegra, by itself, its JetPack or its kernel; `?` if that is not clear."""
        kernel = re.search(r"\b(\d+\.\d+)\.[\w.+-]*-tegra\b", self.text)
        packs = self.catalog.jetpacks.items()
        stated = self.l4ts or {name for name, pack in packs if kernel and pack.kernel == kernel[1]}
        jetpacks = {self.catalog.jetpacks[name].jetpack for name in stated if name in self.catalog.jetpacks}
        return max(stated) if len(jetpacks) == 1 else "?" if stated or tegra else ""

    def _driver(self) -> Fact[DriverVersion] | None:
        """The driver; of several the oldest. Without a line of a tool the one that sentences name."""
        notes: list[Note] = []
        drivers = [fact for text in self.drivers if (fact := driver_fact(text, self.source, notes))]
        if len(drivers) > 1:
            names = ", ".join(str(fact.value) for fact in drivers)
            notes.append(Note(self.source, f"names the drivers {names}: the oldest is used"))
        if not drivers:
            drivers = self._written_driver(notes)
        self.notes.update(dict.fromkeys(notes))
        return min(drivers, key=lambda fact: fact.value, default=None)

    def _written_driver(self, notes: list[Note]) -> list[Fact[DriverVersion]]:
        found: dict[str, None] = {}
        for line in self.text.splitlines():
            for sentence in re.split(r"(?<=[.;])\s+", line):
                for match in words("driver").finditer(sentence):
                    if not words("not_this_driver").search(sentence):
                        found[match[1]] = None
        if len(found) > 1:
            text = f"names the drivers {', '.join(found)}: give the machine's own by --driver"
            notes.append(Note(self.spoken, text))
            return []
        facts = [driver_fact(text, self.spoken, notes) for text in found]
        return [replace(fact, prose=True) for fact in facts if fact]

    def _system(self, tegra: bool) -> Fact[str] | None:
        """What keys and the kernel state; else what only one system shows, or a word for a words("cpu")."""
        values = [*self.systems, *words("uname").findall(self.text)]
        kernels, machines = _matching("systems", values), _matching("machines", [*values, self.machine])
        shown = ["android"] if words("android", "written").search(self.text) else []
        shown = shown if kernels else _matching("written", [self.text])
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
            machines = _matching("machines", [self.text])
            foreign = [machine for machine in machines if machine not in SERVED]
            machines = foreign[:1] if foreign and "x86_64" not in machines else machines
            prose = prose or bool(machines)
        system = _system_of(kernels, machines)
        if system is None and len(kernels) + len(machines) > 1:
            listed = " and ".join([*kernels, *machines])
            self.notes[Note(self.source, f"names {listed}: the system is unknown")] = None
        return Fact(system, self.spoken if prose else self.source, prose) if system else None

    def _cpu(self) -> Fact[str] | None:
        if "cpu" in self.first:
            return Fact(self.first["cpu"], self.source)
        named = {match[0]: cpu_of_name(match[0], self.catalog) for match in words("cpu").finditer(self.text)}
        kinds = {cpu.isas for cpu in named.values() if cpu}
        name = next((name for name, cpu in named.items() if cpu), "")
        return Fact(name, self.spoken, True) if len(kinds) == 1 else None

    def _instance(self) -> Fact[str] | None:
        found = dict.fromkeys(words("instance").findall(self.text))
        if len(found) > 1:
            self.notes[Note(self.spoken, f"names {OR.join(found)}: choose by --gpu", gpu=True)] = None
            if not self.gpus and not self.others:
                self.gpus["#"] = {}
        return Fact(next(iter(found)), self.spoken, True) if len(found) == 1 else None

    def _named_gpus(self) -> Iterator[GpuFacts]:
        notes: list[Note] = []
        for fields in self.gpus.values():
            name = re.sub(r"\s+", " ", fields.get("gpu", ""))
            counted = re.fullmatch(r"(\d{1,2}) ?[x×*] ?(.+)", name)
            if name.endswith("..."):
                notes.append(Note(self.source, f"cuts the name {name!r}: nvidia-smi -q has it whole"))
            yield GpuFacts(
                name=fact_of(counted[2] if counted else name, self.source),
                sm=sm_fact(fields.get("cap", ""), self.source, notes),
                chip=fact_of(fields.get("chip"), self.source),
                address=fields.get("address", "").lower(),
            )
        self.notes.update(dict.fromkeys(notes))


def _matching(kind: str, values: Iterable[str]) -> list[str]:
    """The words of a table that values hold."""
    texts = list(values)
    return [word for word in _table()[kind] if any(words(word, kind).search(text) for text in texts)]


def _system_of(kernels: list[str], machines: list[str]) -> str | None:
    """A system as Nix writes it; None where the words are of several, or of none."""
    kernel = kernels[0] if kernels else "linux" if machines else ""
    if len(kernels) > 1 or not kernel:
        return None
    if kernel == "linux":
        return f"{machines[0]}-linux" if len(machines) == 1 else None
    usual = {"darwin": "any", "android": "aarch64"}.get(kernel, "x86_64")
    known = machines[0] if len(machines) == 1 and kernel == "darwin" else usual
    return f"{known}-{kernel}"


def unserved_system(text: str) -> str:
    """A system that no build is for, by the words that only it has; empty where there are none."""
    machine = next((word for word in _matching("machines", [text]) if word not in SERVED), "")
    return f"{machine}-linux" if machine else ""


def _same_name(name: str, other: str) -> bool:
    short, long = sorted((name.rstrip(". ").lower(), other.rstrip(". ").lower()), key=len)
    return short in long


def _in_wsl(driver: Fact[DriverVersion] | None, smi: str) -> bool:
    """Whether nvidia-smi is Linux' and the driver Windows': newer, and numbered in two parts (560.94)."""
    parts = tuple(map(int, re.findall(r"\d+", smi)))
    return driver is not None and bool(parts) and len(driver.value.parts) == 2 and driver.value.parts > parts


class _Mentions:
    """GPUs that a text names outside of fields, or shows without naming them."""

    def __init__(self, tokens: _Scan, facts: HostFacts, *, looked: bool) -> None:
        self.tokens, self.known, self.looked = tokens, facts, looked

    def facts(self) -> HostFacts:
        facts, tokens = self.known, self.tokens
        named = facts.gpus is not None and any(gpu.name or gpu.sm for gpu in facts.gpus.value)
        mac = facts.system is not None and facts.system.value.endswith("-darwin")
        others = facts.others is not None and facts.others.value != (AMD,)
        if named or mac or others or not (lines := list(self._lines())):
            return facts
        written = self._written(lines)
        if written:
            return self._candidates(written)
        if facts.instance is not None and instance_of(facts.instance.value, tokens.catalog):
            return facts
        if sm := self._capability(lines):
            gpu = GpuFacts(sm=Fact(sm, tokens.spoken, True))
            return replace(facts, gpus=Fact((gpu,), tokens.spoken))
        return self._signs(lines)

    def _lines(self) -> Iterator[str]:
        for line in self.tokens.text.splitlines():
            line = words("in_cpu").sub("", line).strip()
            judged = words("no_sign").search(line) or words("graphics").search(line)
            if not judged and _sign().search(line):
                yield line

    def _written(self, lines: list[str]) -> dict[str, tuple[Any, str]]:
        found: dict[str, tuple[Any, str]] = {}
        for line in sorted(lines, key=lambda line: not line.startswith("NVRM: The ")):
            sure = words("capability").search(line) is not None and not words("supported").search(line)
            for *_, name, product in find_gpus(line, self.tokens.catalog, field=sure):
                found.setdefault(name, (product, line))
            if found and line.startswith("NVRM: The "):
                break
        return found

    def _candidates(self, written: dict[str, tuple[Any, str]]) -> HostFacts:
        """One architecture is a condition; several are candidates, listed with the option that chooses."""
        facts, tokens = self.known, self.tokens
        by_product: dict[str, str] = {}  # the first name of each architecture, and all that nobody knows
        for name, (product, _) in written.items():
            known = product and (product.name if isinstance(product, Gfx) else str(product.sm))
            by_product.setdefault(known or name, name)
        gpu = GpuFacts(name=Fact(OR.join(by_product.values()), tokens.spoken, True))
        count = len(facts.gpus.value) if facts.gpus and facts.gpus.value else 1
        line = next(iter(written.values()))[1]
        facts = replace(facts, gpus=Fact((gpu,) * count, tokens.spoken), others=None)
        return facts.noting(tokens.spoken, f"names the GPU: {line[:100]!r}", gpu=True)

    def _capability(self, lines: list[str]) -> Sm | None:
        found = {
            match[1]
            for line in lines
            if not words("supported").search(line)
            for match in words("capability").finditer(line)
        }
        try:
            return Sm.parse(found.pop()) if len(found) == 1 else None
        except BadValue:
            return None

    def _signs(self, lines: list[str]) -> HostFacts:
        facts, name = self.known, self.tokens.name
        signs = {kind: words(kind, "signs") for kind in _table()["signs"]}
        makers = [maker for maker in MAKERS if maker != "cuda" or facts.others is None]
        first = {maker: next(filter(signs[maker].search, lines), "") for maker in makers}
        first = {maker: line for maker, line in first.items() if line}
        looked = self.looked or (facts.gpus is not None and not facts.gpus.value)
        if not first and not looked and facts.others is None:
            denial: Callable[[str], Any] = words("denial").search
            line = next((line for line in lines if signs["word"].search(line) and not denial(line)), "")
            first = {"word": line} if line else {}
        amd, other = first.pop("amd", ""), first.pop("other", "")
        if (amd or other) and facts.others is None:
            match = signs["other"].search(other)
            label = AMD if amd else match[0] if match else other
            label = "an Intel GPU" if "xpu" in label.lower() else label
            facts = replace(facts, others=Fact((label,), name))
            shown = f"shows {'an AMD' if amd else 'a'} GPU: {(amd or other)[:100]!r}"
            facts = facts.noting(name, shown, gpu=True)
            first.pop("cuda", "")
        if not first or (facts.gpus is not None and facts.gpus.value):
            return facts
        maker, line = next(iter(first.items()))
        cut = (
            "its table is cut before the GPUs"
            if re.search(r"(Driver|KMD) Version:", self.tokens.text)
            else "not which"
        )
        facts = replace(facts, gpus=Fact((GpuFacts(),), name))
        return facts.noting(
            name, f"shows {'an NVIDIA' if maker == 'nvidia' else 'a'} GPU, {cut}: {line[:100]!r}", gpu=True
        )

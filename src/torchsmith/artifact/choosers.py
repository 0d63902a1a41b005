"""Code that is chosen at run time: functions reached only through ones that query the CPU's features."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

from torchsmith.artifact import iced
from torchsmith.artifact.calls import (
    addresses_in,
    call_sites,
    defined,
    in_tables,
    resolvers_of,
    stand_ins,
    targets_of,
)
from torchsmith.artifact.elf import Elf, Function, code_of

MOST_RARE = 64  # functions that need a feature; what more need was compiled so on purpose
# gcc's variables for the features of the CPU.
CPU_VARIABLES = ("__cpu_model", "__cpu_features2", "__aarch64_cpu_features")
CPU_VARIABLE_SIZE = 16
CPU_QUERIES = ("getauxval", "__cpu_indicator_init", "__init_cpu_features_resolver")


class _References:
    """Who refers to which function: by calling it, by handing it on, or from a table."""

    def __init__(self, elf: Elf, rows: Sequence[Function]) -> None:
        self.elf, self.rows = elf, rows
        self.resolvers = resolvers_of(elf)
        self.queries = call_sites(elf, CPU_QUERIES)
        variables = defined(elf, CPU_VARIABLES)
        self.cpu_variables = {start + at for start in variables for at in range(CPU_VARIABLE_SIZE)}
        self.judged: dict[int, bool] = {}

    def to(self, wanted: set[int]) -> dict[int, set[int]]:
        """For each of these functions, by their place among the rows, the functions that refer to it."""
        index_of = {self.rows[index].address: index for index in wanted}
        places = {place: index_of[target] for place, target in stand_ins(self.elf, index_of).items()}
        referring: dict[int, set[int]] = {index: set() for index in wanted}
        for index, row in enumerate(self.rows):
            code = code_of(self.elf, row)
            hits = places.keys() & {
                *targets_of(self.elf, code, row.address),
                *addresses_in(self.elf, code, row.address),
            }
            for place in hits:
                if places[place] != index:
                    referring[places[place]].add(index)
        for address in in_tables(self.elf, index_of):
            referring[index_of[address]].add(-1)  # the table's readers are not known
        return referring

    def chooses(self, index: int) -> bool:
        """Whether a function queries the CPU's features, or calls one that does."""
        if index < 0:
            return False
        if index not in self.judged:
            self.judged[index] = self.asks(index) or self._calls_one_that_asks(index)
        return self.judged[index]

    def asks(self, index: int) -> bool:
        """Whether a function queries the CPU's features itself, or the loader calls it to choose."""
        row = self.rows[index]
        first = bisect_left(self.queries, row.address)
        if row.address in self.resolvers or first < bisect_left(self.queries, row.address + row.size):
            return True
        if self.elf.machine != "x86_64":
            return False
        return iced.asks(code_of(self.elf, row), row.address, self.cpu_variables)

    def _calls_one_that_asks(self, index: int) -> bool:
        row = self.rows[index]
        called = set(targets_of(self.elf, code_of(self.elf, row), row.address))
        return any(other.address in called and self.asks(at) for at, other in enumerate(self.rows))


def chosen_at_run_time(
    elf: Elf, rows: Sequence[Function], needs: Mapping[int, tuple[str, ...]]
) -> frozenset[int]:
    """Of functions with what they need, by their place among the rows: those that need something rare and ask
    the CPU first, or are reached only through functions that do."""
    counts = Counter(feature for features in needs.values() for feature in features)
    most = min(MOST_RARE, len(needs) // 2)
    rare = {index for index, features in needs.items() if any(counts[name] <= most for name in features)}
    if not rare:
        return frozenset()
    references = _References(elf, rows)
    referring = references.to(rare)
    chosen = {index for index in rare if references.asks(index)}
    while True:
        more = {
            index
            for index in rare - chosen
            if referring[index] and all(at in chosen or references.chooses(at) for at in referring[index])
        }
        if not more:
            return frozenset(chosen)
        chosen |= more

"""The bill of materials of recipes as CycloneDX, from Nix's derivations; and the licence terms that apply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import msgspec

from torchsmith import __version__
from torchsmith.nix.derivation import name_of
from torchsmith.nix.graph import Inventory
from torchsmith.nix.worker import Component, License

UNKNOWN = License(full_name="no licence stated")
# NVIDIA's CUDA EULA, section 1.1 and Attachment A; cuDNN's and others of its libraries have their own.
CUDA_TERMS = (
    "CUDA's EULA lets you hand on the runtime and math libraries that its Attachment A names, as part of an"
    " application and under its terms; not the compiler, the driver or the toolkit as such"
)


class Named(msgspec.Struct, frozen=True):
    """A property: a name and its value."""

    name: str
    value: str


class BomLicense(msgspec.Struct, frozen=True, omit_defaults=True):
    """A licence by its SPDX identifier, or by name where it has none."""

    id: str | None = None
    name: str | None = None
    url: str | None = None


class LicenseChoice(msgspec.Struct, frozen=True):
    """CycloneDX' place of a licence."""

    license: BomLicense


class Reference(msgspec.Struct, frozen=True):
    """An address outside."""

    type: str
    url: str


class BomComponent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A package."""

    type: str
    name: str
    ref: str = msgspec.field(name="bom-ref")
    version: str | None = None
    purl: str | None = None
    licenses: list[LicenseChoice] = []
    externalReferences: list[Reference] = []
    properties: list[Named] = []


class Tools(msgspec.Struct, frozen=True):
    """What wrote the document."""

    components: list[BomComponent]


class Metadata(msgspec.Struct, frozen=True):
    """What the document is about, and how its contents were found."""

    tools: Tools
    component: BomComponent
    properties: list[Named]


class Dependency(msgspec.Struct, frozen=True):
    """What a component is made of."""

    ref: str
    dependsOn: list[str]


class Bom(msgspec.Struct, frozen=True):
    """A CycloneDX document; its specVersion is its format."""

    bomFormat: str
    specVersion: str
    serialNumber: str
    version: int
    metadata: Metadata
    components: list[BomComponent]
    dependencies: list[Dependency]


@dataclass(frozen=True, slots=True)
class Terms:
    """A licence and the packages under it."""

    license: License
    packages: tuple[str, ...]

    @property
    def bound(self) -> bool:
        """Whether handing results on needs a look at the terms."""
        return self.license.free is False


def terms(inventory: Inventory) -> list[Terms]:
    """Every licence with its packages: terms that bind first, then the most used."""
    packages: dict[License, set[str]] = defaultdict(set)
    for component in inventory.components:
        for license in component.licenses or (UNKNOWN,):
            packages[license].add(_title(component))
    for path in inventory.strangers:
        packages[UNKNOWN].add(name_of(path))
    listed = [Terms(license, tuple(sorted(names))) for license, names in packages.items()]
    return sorted(listed, key=lambda entry: (not entry.bound, -len(entry.packages), entry.license.title))


def holds_cuda(listed: Sequence[Terms]) -> bool:
    """Whether NVIDIA's terms are among them."""
    return any("cuda" in entry.license.title.lower() for entry in listed)


def cyclonedx(inventory: Inventory, title: str) -> Bom:
    """The document. It holds no clock: the same derivations give the same bytes."""
    roots = dict(inventory.roots)
    by_drv = {component.drv_path: component for component in inventory.components}
    about = BomComponent("application", title, f"torchsmith:{title}")
    packages = [_component(component) for component in inventory.components]
    packages += [BomComponent("library", name_of(path), path) for path in inventory.strangers]
    basis = "what built results hold" if inventory.built else "inputs for the host, by evaluation"
    return Bom(
        bomFormat="CycloneDX",
        specVersion="1.5",
        serialNumber=f"urn:uuid:{uuid5(NAMESPACE_URL, ' '.join((basis, *sorted(roots.values()))))}",
        version=1,
        metadata=Metadata(
            Tools([BomComponent("application", "torchsmith", "torchsmith", __version__)]),
            about,
            [
                Named("torchsmith:basis", basis),
                *([Named("torchsmith:cuda_terms", CUDA_TERMS)] if holds_cuda(terms(inventory)) else []),
            ],
        ),
        components=packages,
        dependencies=[
            Dependency(about.ref, sorted(set(roots.values()) & by_drv.keys())),
            *(Dependency(drv, sorted(by_drv.keys() & package.inputs)) for drv, package in by_drv.items()),
        ],
    )


def _component(component: Component) -> BomComponent:
    name, version, drv = component.pname or component.name, component.version, component.drv_path
    purl = f"pkg:nix/{quote(name, safe='')}" + (f"@{quote(version, safe='')}" if version else "")
    return BomComponent(
        "library",
        name,
        drv,
        version,
        purl,
        [LicenseChoice(_license(license)) for license in component.licenses or ()],
        [Reference("website", component.homepage)] if component.homepage else [],
        [Named("nix:drv_path", drv), *(Named("nix:output_path", path) for path in component.outputs)],
    )


def _license(license: License) -> BomLicense:
    return BomLicense(license.spdx, None if license.spdx else license.title, license.url)


def _title(component: Component) -> str:
    pname, version = component.pname, component.version
    return f"{pname} {version}" if pname and version else component.name

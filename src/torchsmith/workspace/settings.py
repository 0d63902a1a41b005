"""torchsmith.toml as typed values, and its JSON Schema for editors."""

# No `from __future__ import annotations`: the decoder would have to compile the text of every type.
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec

from torchsmith.catalog import Catalog, CudaVersion, Gpu, PythonVersion, Sm, builtin_catalog
from torchsmith.catalog.axes import BadValue, Platform
from torchsmith.catalog.gpu_names import gpu_by_name
from torchsmith.catalog.package import GitHubName
from torchsmith.core.files import read_text
from torchsmith.core.text import anchored, written_as
from torchsmith.core.toml import read_table

ABOUT = Path(__file__).with_name("about.toml")
Narrow = Literal["all", "torch"]


class CudaChoice:
    """A CUDA release, or `cpu` for builds without GPU code."""

    def __init__(self, version: CudaVersion | None) -> None:
        self.version = version

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(None if text == "cpu" else CudaVersion.parse(text))


class MatrixBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A product of axes: every Python with every CUDA, GPU and instruction set listed here."""

    line: str | None = None
    packages: tuple[str, ...] | None = None
    python: tuple[PythonVersion, ...]
    cuda: tuple[CudaChoice, ...] = ()
    target: tuple[str, ...] = ()  # of other backends, as names write them: rocm6_4-gfx942
    sm: tuple[Sm, ...] = ()
    isa: tuple[str, ...] = ()  # may be left out if the target has its own
    prefix: bool = False  # names state the release, pytorch28-..., so that two lines can have one cell


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named matrix."""

    about: str = ""
    extends: str | tuple[str, ...] = ()
    usable: bool = False  # leave out the cells that no machine can use
    matrix: tuple[MatrixBlock, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


Revision = Annotated[
    str, written_as(r"[0-9A-Za-z][0-9A-Za-z._/-]*", "a revision: letters, digits, . _ / and -")
]
SourceHash = Annotated[
    str,
    written_as(r"(sha256-[A-Za-z0-9+/]{43}=)?", "a hash, sha256- and 44 characters of base64, or nothing"),
]  # empty: to be learned


OrgName = Annotated[str, written_as(r"([0-9A-Za-z][0-9A-Za-z_-]*)?", "a name: letters, digits, _ and -")]
FetchAddress = Annotated[
    str, written_as(r"(https?|file)://[^\s@]+", "an https, http or file address without a space or @")
]


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A revision of a source, the version it is to state, and its hash."""

    rev: Revision
    version: str
    hash: SourceHash = ""


class ToolkitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The revision of a published build-cudatoolkit that the nightly's wrapper fetches."""

    owner: GitHubName
    rev: Revision
    repo: GitHubName = "build-cudatoolkit"
    hash: SourceHash = ""

    @property
    def address(self) -> str:
        return f"https://github.com/{self.owner}/{self.repo}/archive/{self.rev}.tar.gz"


class NightlySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sources of the nightly cells; `self_contained` puts the CUDA recipes beside them."""

    pytorch: SourceSettings
    torchvision: SourceSettings | None = None
    cudatoolkit: ToolkitSettings | None = None
    self_contained: bool = False


# Nix separates machines by lines and `;`, what it knows of each by spaces, and these by commas.
FeatureName = Annotated[
    str, written_as(r"[0-9A-Za-z][0-9A-Za-z._+:-]*", "a feature of Nix: letters, digits, . _ + : and -")
]


class BuilderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A machine that Nix may build on, reached over ssh."""

    address: Annotated[
        str,
        written_as(
            r"(ssh(-ng)?://)?[0-9A-Za-z@._:\[\]-]+",
            "a machine as ssh takes it: USER@HOST, ssh://HOST or ssh-ng://HOST",
        ),
    ]
    systems: tuple[Platform, ...]
    max_jobs: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    speed: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    features: tuple[FeatureName, ...] = ("big-parallel",)
    isa: tuple[str, ...] | None = None  # instruction sets that its CPU runs; left out: it is asked
    ssh_key: Annotated[str, written_as(r"[0-9A-Za-z._/~+@=:%-]*", "the path of a key, without spaces")] = ""


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rules of the audit count here, and what recipes do not say themselves."""

    select: tuple[str, ...] = ()  # only these rules: TS401, or TS4
    ignore: tuple[str, ...] = ()
    per_path: dict[str, tuple[str, ...]] = {}  # rules to ignore in files that a pattern matches
    line: str | None = None  # of recipes whose line nothing else states
    strict: bool = False  # hold recipes of others to our own conventions too


class CiSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `torchsmith ci` writes into a workflow."""

    # What pip installs there. A name alone would be asked of an index.
    torchsmith: Annotated[
        str,
        written_as(
            r"((?=[0-9A-Za-z./])[0-9A-Za-z@:/._+=~-]*(/[0-9A-Za-z@:/._+=~-]+|\.whl))?",
            "a wheel in the workspace, or an address such as git+https://github.com/YOU/torchsmith@COMMIT",
        ),
    ] = ""


ADDRESS = r"(https?|ssh|file)://\S+"
Address = Annotated[str, written_as(f"({ADDRESS})?", "an https, http, ssh or file address, or nothing")]


class SourceAddresses(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mirrors to ask instead of the public servers; recipes keep the canonical addresses."""

    nixpkgs: Address = ""  # the git remote whose branches are the channels
    archive: Address = ""  # of a revision, for which {rev} is written


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    # Keys that were settings once, and what to do about them.
    REMOVED: ClassVar[dict[str, str]] = {"layout": "remove it: every recipe is complete in itself"}

    format: Literal[1]
    profile: str = ""
    line: str | None = None  # for blocks and includes that name none; else the newest that fits
    packages: tuple[str, ...] | None = None  # None: those of the catalog that every workspace has
    narrow: Narrow = "all"  # what is compiled for the cell's GPU alone: all below it, or torch and companions
    max_jobs: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 32  # compilers at once, whatever the builder has
    ccache: Annotated[
        str, written_as(r"(/[0-9A-Za-z._-]+)*", "an absolute path of letters, digits, . _ and -, or nothing")
    ] = ""  # compile cache of all cells
    org: OrgName = ""  # the Flox organisation under which packages are published
    cudatoolkit: tuple[CudaVersion, ...] = ()  # the CUDA releases of build-cudatoolkit
    pages: bool = True  # write README, BUILD_MATRIX, ALIGNMENT and build notes beside the recipes
    nightly: NightlySettings | None = None
    builder: tuple[BuilderSettings, ...] = ()
    ci: CiSettings = CiSettings()
    audit: AuditSettings = AuditSettings()
    sources: SourceAddresses = SourceAddresses()
    fetch: tuple[FetchAddress, ...] = ()  # tarballs besides nixpkgs that evaluating may download
    usable: bool = False
    matrix: tuple[MatrixBlock, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    profiles: dict[str, Profile] = {}


_PARSED = (CudaChoice, CudaVersion, PythonVersion, Sm)


def decode(kind: type, value: object) -> object:
    """msgspec's way to our own value types. Raises BadValue."""
    if kind not in _PARSED or not isinstance(value, str):
        raise BadValue(f"expected text in quotes, got {value!r}")
    try:
        parsed: object = kind.parse(value)
    except BadValue:
        gpu = gpu_by_name(value, builtin_catalog()) if kind is Sm else None
        if isinstance(gpu, Gpu):
            raise BadValue(f"{value!r} is not a GPU architecture: use {gpu.sm}") from None
        raise
    return parsed


def schema(catalog: Catalog) -> dict[str, Any]:
    """A JSON Schema that offers the catalog's values and accepts those of a workspace's own catalog."""
    choices = {
        CudaChoice: (["cpu", *map(str, catalog.cuda)], anchored(r"(cpu|\d+[._]\d+)")),
        CudaVersion: ([*map(str, catalog.cuda)], anchored(r"\d+[._]\d+")),
        PythonVersion: ([*map(str, catalog.pythons)], anchored(r"\d\.\d+")),
        Sm: ([*map(str, catalog.gpus)], anchored(r"sm_?\d+")),
    }

    def hook(kind: type) -> dict[str, Any]:
        known, pattern = choices[kind]
        return {"anyOf": [{"enum": known}, {"type": "string", "pattern": pattern}]}

    made = msgspec.json.schema(Settings, schema_hook=hook)
    packages = {
        "anyOf": [{"enum": [*catalog.packages]}, {"type": "string", "pattern": anchored(r"[a-z][a-z0-9_-]*")}]
    }
    for kind in ("Settings", "MatrixBlock"):
        made["$defs"][kind]["properties"]["packages"]["anyOf"][0]["items"] = packages
    for kind, fields in read_table(read_text(ABOUT), ABOUT.name).items():
        for field, description in fields.items():
            made["$defs"][kind]["properties"][field]["description"] = description
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "torchsmith.toml", **made}

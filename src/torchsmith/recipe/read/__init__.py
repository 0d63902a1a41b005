"""What a recipe says: its text as a tree, with positions, and nothing evaluated."""

from torchsmith.recipe.read.open import read_recipe, read_text_as_recipe
from torchsmith.recipe.read.recipe import Recipe
from torchsmith.recipe.read.said import (
    Argument,
    Bound,
    BuildPhase,
    Export,
    FetchedSource,
    FlagList,
    GpuMention,
    NixpkgsImport,
    Overlay,
    OverlayChange,
    Override,
    RecipePin,
    Said,
    Unknown,
    Value,
    Wrapper,
)
from torchsmith.recipe.read.syntax import Span, Unreadable, parse

__all__ = [
    "Argument",
    "Bound",
    "BuildPhase",
    "Export",
    "FetchedSource",
    "FlagList",
    "GpuMention",
    "NixpkgsImport",
    "Overlay",
    "OverlayChange",
    "Override",
    "Recipe",
    "RecipePin",
    "Said",
    "Span",
    "Unknown",
    "Unreadable",
    "Value",
    "Wrapper",
    "parse",
    "read_recipe",
    "read_text_as_recipe",
]

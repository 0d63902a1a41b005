"""What a recipe says: its text as a tree, with positions, and nothing evaluated."""

from torchsmith.recipe.read.located import (
    Bound,
    Export,
    FetchedSource,
    FlagList,
    GpuMention,
    Located,
    Overlay,
    Override,
    Unknown,
    Value,
    gpu_target,
)
from torchsmith.recipe.read.open import read_recipe, read_text_as_recipe
from torchsmith.recipe.read.recipe import Recipe
from torchsmith.recipe.read.syntax import Edit, Span, Unreadable, edited

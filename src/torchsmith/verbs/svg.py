"""These functions are in cli/svg.py; this module goes when no verb imports it."""

from torchsmith.cli.svg import check_svg as check_svg
from torchsmith.cli.svg import write_svg as write_svg

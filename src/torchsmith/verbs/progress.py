"""Terminal is in cli/terminal.py; this module goes when no verb imports it."""

from torchsmith.cli.terminal import Terminal as Terminal

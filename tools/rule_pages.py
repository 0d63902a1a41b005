"""The pages about the audit's rules: an index, and for each rule a page with a wrong and a right example."""

from __future__ import annotations

import json

from tools.rule_examples import example
from torchsmith.auditing.rule import Rule, all_rules
from torchsmith.core.text import grouped
from torchsmith.workspace.readmes import table

INTRODUCTION = """# Rules of the audit

| severity | meaning |
| --- | --- |
| error | it does not build, or builds the wrong thing |
| warning | it works by luck, or is of no use |
| note | it could be better; shown with `--notes` |

| certainty | rests on | at most |
| --- | --- | --- |
| certain | text that the build uses, or derivations | error, and a fix |
| likely | comments and pages, or what usually holds | warning |
| guess | torchsmith's own conventions | note |

A single finding may be milder or less certain than its rule. [Audit](audit.md) shows how to select and
silence rules; `torchsmith audit --explain TS402` prints a rule.
"""


def rule_pages(note: str) -> dict[str, str]:
    """The index of the rules, and a page for each."""
    parts = [f"{note}\n{INTRODUCTION}"]
    for group, rules in grouped((rule.group, rule) for rule in all_rules()).items():
        rows = [
            [f"[{rule.id}](rules/{rule.id}.md)", rule.title, rule.worst.value, rule.sure.value, rule.depth]
            for rule in rules
        ]
        title = group.upper() if group in ("gpu", "cpu") else group.capitalize()
        parts.append(f"## {title}\n")
        parts.append(table(["rule", "what it finds", "severity", "certainty", "looks at"], rows) + "\n")
    return {
        "docs/rules.md": "\n".join(parts),
        "src/torchsmith/auditing/examples.json": json.dumps(
            {rule.id: dict(zip(("wrong", "right"), example(rule), strict=True)) for rule in all_rules()},
            indent=1,
        )
        + "\n",
        **{f"docs/rules/{rule.id}.md": _rule_page(rule, note) for rule in all_rules()},
    }


def _rule_page(rule: Rule, note: str) -> str:
    bad, good = example(rule)
    return f"""{note}
# {rule.id}: {rule.title}

{rule.worst.value}, {rule.sure.value}; looks at {rule.depth}.

{rule.documentation}

## Wrong
```nix
{bad}
```

## Right
```nix
{good}
```

[Silence it](../audit.md): `# torchsmith: ignore {rule.id}`. [All rules](../rules.md).
"""

"""The pages about the audit's rules: an index, and for each rule a page with a wrong and a right example."""

from __future__ import annotations

import json

from tools.rule_examples import example
from torchsmith.auditing.rule import Rule, all_rules
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

What is about derivations needs `--eval`. A single finding may be milder or less certain than its rule.
[Audit](audit.md) shows how to select and silence rules; `torchsmith audit --explain TS402` prints a rule.
"""


def rule_pages() -> dict[str, str]:
    """The index of the rules, and a page for each."""
    rows = [
        [f"[{rule.id}](rules/{rule.id}.md)", _about(rule), rule.title, rule.worst.value, rule.sure.value]
        for rule in sorted(all_rules(), key=lambda rule: rule.id)
    ]
    index = table(["rule", "about", "what it finds", "severity", "certainty"], rows)
    return {
        "docs/rules.md": f"{INTRODUCTION}\n{index}\n",
        "src/torchsmith/auditing/examples.json": json.dumps(
            {rule.id: dict(zip(("wrong", "right"), example(rule), strict=True)) for rule in all_rules()},
            indent=1,
        )
        + "\n",
        **{f"docs/rules/{rule.id}.md": _rule_page(rule) for rule in all_rules()},
    }


def _about(rule: Rule) -> str:
    """The subject of a rule; and that it looks at derivations, if its subject does not say so."""
    subject = rule.group.upper() if rule.group in ("gpu", "cpu") else rule.group
    return subject if rule.depth in ("text", rule.group) else f"{subject}, in {rule.depth}"


def _rule_page(rule: Rule) -> str:
    bad, good = example(rule)
    return f"""# {rule.id}: {rule.title}

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

[Silence it](../audit.md#choosing-and-silencing): `# torchsmith: ignore {rule.id}`
"""

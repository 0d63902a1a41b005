"""What the Python index has, by pip's own report; the real index is asked if it can be reached."""

from __future__ import annotations

import json

import pytest

from torchsmith.core.problem import Failed
from torchsmith.edit.python_index import PublishedWheel, newest, read_report


def report(*rows: dict[str, object]) -> bytes:
    return json.dumps({"version": "1", "install": [{"metadata": row} for row in rows]}).encode()


def test_a_release_names_the_torch_that_its_wheel_asks_for() -> None:
    found = read_report(
        report(
            {"name": "torch", "version": "2.15.0", "requires_dist": ["filelock"]},
            {"name": "torchvision", "version": "0.25.0", "requires_dist": ["numpy", "torch (==2.10.0)"]},
            {"name": "torchaudio", "version": "2.9.1", "requires_dist": ["torch==2.9.1"]},
            {
                "name": "other",
                "version": "1",
                "requires_dist": ["torch>=2 ; extra == 'gpu'", "torchmetrics>1"],
            },
        )
    )
    assert found["torch"] == PublishedWheel("torch", "2.15.0")
    assert {name: row.torch for name, row in found.items() if row.torch} == {
        "torchvision": "==2.10.0",
        "torchaudio": "==2.9.1",
    }


@pytest.mark.parametrize("text", [b"", b"[]", b'{"install": [{}]}', b'{"install": 3}'])
def test_a_report_in_another_form_is_an_error(text: bytes) -> None:
    with pytest.raises(Failed):
        read_report(text)


def test_an_index_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(Failed, match="cannot be asked"):
        newest(["torch"], index="http://127.0.0.1:1/simple")

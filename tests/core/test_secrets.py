"""Values of secret variables are replaced in everything that is written."""

from __future__ import annotations

import pytest

from torchsmith.core.secrets import redactor


def test_a_secret_that_begins_with_another_is_replaced_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("A_TOKEN", "secret-1"), ("B_TOKEN", "secret-1-of-two"), ("A_PATH", "/usr/bin")):
        monkeypatch.setenv(name, value)
    assert redactor()("x secret-1-of-two y secret-1 z /usr/bin") == "x [B_TOKEN] y [A_TOKEN] z /usr/bin"


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "a1B2" * 9,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 9,
        "glpat-" + "a1-B2" * 4,
        "npm_" + "a1B2" * 9,
        "AKIA" + "ABCD1234" * 2,
        "xoxb-" + "1234-" * 5,
        "pypi-" + "AgEI" * 9,
    ],
)
def test_tokens_of_known_forms_are_replaced_wherever_they_come_from(secret: str) -> None:
    assert redactor()(f"using {secret} for https://x.test") == "using [token] for https://x.test"


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("password: hunter2 and more", "password: [secret] and more"),
        ('"passwd"="hunter2"', '"passwd"=[secret]'),
        ("PASSWORD=hunter2", "PASSWORD=[secret]"),
        ("aws_secret_access_key = a/b+c", "aws_secret_access_key = [secret]"),
        ("Authorization: Bearer abc.def", "Authorization: [secret]"),
        ("fetch https://me:hunter2@x.test/a", "fetch https://me:[secret]@x.test/a"),
        ("the password is wrong", "the password is wrong"),
        (
            "/nix/store/abc-pypi-tools npm_config hf_hub x://host:80/a@b",
            "/nix/store/abc-pypi-tools npm_config hf_hub x://host:80/a@b",
        ),
    ],
)
def test_what_follows_the_word_password_is_replaced(line: str, written: str) -> None:
    assert redactor()(line) == written

"""Secrets that are glued to secrets."""

import random
import string

from vaultmem.security.secrets import find_secrets
from vaultmem.vault.screen import Screen, screened

TOKEN = "gh" + "p_" + "FMPd3W2XyygNdemkvdajgwb2Mjpvwh09CDfg"
PASSWORD = "Qz7kTr9w" + "Lm2"


def test_a_secret_that_is_seen_only_when_another_has_gone_is_masked_as_well() -> None:
    text = f"before\n{TOKEN}machine x login y password {PASSWORD}\nbehind"

    found = screened("n.md", text, Screen())

    assert found.text == (
        "before\n[secret:github-pat]machine x login y password [secret:netrc-password]\nbehind"
    )
    assert [(finding.line, finding.kind) for finding in found.findings] == [
        (2, "github-pat"),
        (2, "netrc-password"),
    ]
    assert [problem.code for problem in found.problems] == ["secret"]
    assert screened("n.md", found.text, Screen()).findings == ()


def test_what_is_only_reported_is_reported_once() -> None:
    found = screened("n.md", f"{TOKEN}\n", Screen(secrets="report"))

    assert found.text == f"{TOKEN}\n"
    assert len(found.findings) == 1


def test_secrets_without_end_on_one_line_take_the_line_with_them() -> None:
    seeded = random.Random(5)
    letters = string.ascii_letters + string.digits
    value = "".join(seeded.choice(letters) for _ in range(300))
    text = "before\n" + f"api_key={value[:100]}{value}" * 10 + "\nbehind"

    found = screened("n.md", text, Screen())

    assert found.text.startswith("before\n")
    assert found.text.endswith("\nbehind")
    assert found.text.count("\n") == 2
    assert find_secrets(found.text) == ()

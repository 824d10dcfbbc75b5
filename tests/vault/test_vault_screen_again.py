"""Secrets that are glued to secrets."""

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

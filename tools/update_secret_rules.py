"""Take in a newer rule file of gitleaks: python tools/update_secret_rules.py GITLEAKS_TOML COMMIT.

Every expression is compiled on both engines before anything is replaced.
"""

import sys
import tomllib
from pathlib import Path

from vaultmem.security.engine import PythonEngine, Re2Engine

RULES = Path(__file__).resolve().parents[1] / "vaultmem" / "security" / "rules"


def main(source: str, commit: str) -> int:
    """Check the file and put it in place; 1 when an expression is not understood."""
    text = Path(source).read_text("utf-8")
    faults = 0
    for rule in tomllib.loads(text)["rules"]:
        for engine in (Re2Engine(), PythonEngine()):
            try:
                engine.compile(rule.get("regex", ""))
            except Exception as error:  # noqa: BLE001 - each engine has errors of its own
                print(f"{rule['id']}: {engine.name} does not take it: {error}")
                faults += 1
    if not faults:
        (RULES / "gitleaks.toml").write_text(text, "utf-8")
        (RULES / "VERSION").write_text(f"{commit}\n", "utf-8")
        print("Taken in. Bump RULES_VERSION in vaultmem/security/rulebook.py.")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))

"""The life of a vault in small: edits, questions, decisions and settings, in an order drawn by lot.

A life is sixty steps dealt from one deck (`DECK`) over about twenty notes: a third are edits of
files in every way there is, a third runs of the index with and without vectors, the rest searches,
decisions about what looks like a secret, changed settings, and a program started anew.
"""

import json
import os
import random
import shutil
from pathlib import Path

from canon import canon_lines
from made_up_vectors import MadeUpEmbedder
from scenarios import notes, put, token

from vaultmem.service.application import Clock, Memory, open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.operations.secrets import (
    AllowRequest,
    SecretsRequest,
    allow_secret,
    secrets,
)
from vaultmem.service.settings import load_settings

# Long before any file was written: every look reads every file.
CLOCK = Clock(now_ns=lambda: 10**18, elapsed=lambda: 0.0)

QUESTIONS = ("kiln glaze", "tag:pottery wheel", "ash celadon shelf", "kind:decision cone", "shed")

# Step -> how often it is in the deck.
DECK = {
    "write": 5, "append": 3, "truncate": 1, "delete": 2, "rename": 2, "rename folder": 1,
    "duplicate": 1, "swap": 1, "touch": 1, "attach": 2, "draw": 1, "index": 12, "embed": 6,
    "rebuild": 2, "search": 8, "allow": 3, "revoke": 1, "set": 3, "leave out": 2, "restart": 3,
}  # fmt: skip


class Life:
    """One vault, and the program that is used with it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.vault = folder / "vault"
        self.cache = folder / "cache"
        self.state = folder / "state"
        self._chance = random.Random(seed)
        self._written = 0
        some = dict(sorted(notes().items())[::2])
        put(self.vault, some)
        put(self.vault, {"Kept.md": f"# Kept\n\nThe shed of [[Note 0]]: {token(1)}\n"})
        self.memory = self.opened()

    def opened(self) -> Memory:
        environment = {
            "VAULTMEM_EMBEDDER_NAME": "minilm",
            "VAULTMEM_STATE_DIR": str(self.state),
        }
        settings = load_settings(self.vault, self.cache, environment=environment)
        memory = open_memory(settings, clock=CLOCK)
        memory.embedders["minilm"] = MadeUpEmbedder()
        return memory

    def live(self) -> list[str]:
        """Go through the deck; the steps, in their order."""
        steps = [step for step, times in DECK.items() for _ in range(times)]
        self._chance.shuffle(steps)
        for step in steps:
            self.take(step)
        return steps

    def known(self) -> list[str]:
        """All that the program says of the vault once it has looked at all of it."""
        index(self.memory, IndexRequest())
        lines = canon_lines(self.memory)
        for question in QUESTIONS:
            hits = search(self.memory, SearchRequest(question)).hits
            lines += [f"{question}: {hit.path} {hit.lines} {hit.score!r}" for hit in hits]
        lines += [f"secret {secret}" for secret in secrets(self.memory, SecretsRequest()).secrets]
        return lines

    def kept(self) -> dict[str, bytes]:
        """What lies in the vault and in the person's own state folder."""
        return {
            str(path): path.read_bytes()
            for folder in (self.vault, self.state)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    def delete_sidecar(self) -> None:
        """Remove everything that is said to be disposable."""
        self.memory.close()
        shutil.rmtree(self.cache)
        self.memory = self.opened()

    def take(self, step: str) -> None:
        chance, vault = self._chance, self.vault
        files = sorted(vault.rglob("*.md"))
        note, other = (chance.choice(files) for _ in range(2))
        free = vault / chance.choice(("", "New", "Log")) / f"Note {chance.randrange(40)}.md"
        match step:
            case "write":
                self._written += 1
                secret = token(chance.randrange(4)) if chance.random() < 0.4 else ""
                put(vault, {str(free.relative_to(vault)): self._text(secret)})
            case "append":
                note.write_bytes(note.read_bytes() + f"\nMore {self._text('')}".encode())
            case "truncate":
                data = note.read_bytes()
                note.write_bytes(data[: len(data) // 2])
            case "delete" if len(files) > 8:
                note.unlink()
            case "rename" if not free.exists():
                free.parent.mkdir(exist_ok=True)
                note.rename(free)
            case "rename folder" if (vault / "Log").exists() and not (vault / "Logs").exists():
                (vault / "Log").rename(vault / "Logs")
            case "duplicate":
                shutil.copyfile(note, note.with_name(f"Copy of {note.name}"))
            case "swap" if note != other:
                one, two = note.read_bytes(), other.read_bytes()
                note.write_bytes(two)
                other.write_bytes(one)
            case "touch":
                os.utime(note, (1.6e9 + chance.randrange(10**7),) * 2)
            case "attach":
                file = vault / chance.choice(("pot.png", "Recipes/pot.png", "Note 3"))
                file.parent.mkdir(exist_ok=True)
                file.unlink() if file.exists() else file.write_bytes(b"no note")
            case "draw":
                node = {"id": "1", "type": "text", "text": self._text("")}
                put(vault, {"Drawn.canvas": json.dumps({"nodes": [node], "edges": []})})
            case "index":
                index(self.memory, IndexRequest(embed=False))
            case "embed":
                index(self.memory, IndexRequest())
            case "rebuild":
                index(self.memory, IndexRequest(rebuild=True))
            case "search":
                search(self.memory, SearchRequest(chance.choice(QUESTIONS)))
            case "allow" | "revoke":
                found = secrets(self.memory, SecretsRequest()).secrets
                if found:
                    wanted = (chance.choice(found).fingerprint,)
                    allow_secret(self.memory, AllowRequest(wanted, revoke=step == "revoke"))
            case "set":
                pieces = chance.choice((60, 120, 180))
                put(vault, {".vaultmem/config.toml": f"[chunk]\nmax_pieces = {pieces}\n"})
                self._restart()
            case "leave out":
                left = chance.choice(([], ["Old/"], ["New/", "Recipes/"]))
                put(vault, {".obsidian/app.json": json.dumps({"userIgnoreFilters": left})})
            case "restart":
                self._restart()

    def _restart(self) -> None:
        self.memory.close()
        self.memory = self.opened()

    def _text(self, secret: str) -> str:
        words = ("kiln", "glaze", "ash", "celadon", "shelf", "cone", "wheel", "shed")
        line = " ".join(self._chance.choices(words, k=self._chance.randrange(3, 60)))
        link = f"[[Note {self._chance.randrange(40)}]]"
        return (
            f"# Text {self._written}\n\n{line} {link} {secret}\n\n#pottery\n- decision:: {line}\n"
        )


def lost(life: Life) -> list[str]:
    """What is known before the sidecar is deleted and not after, or the other way about.

    The check that each control must not pass.
    """
    before, files = life.known(), life.kept()
    life.delete_sidecar()
    after = life.known()
    wrong = [f"lost: {line}" for line in sorted(set(before) - set(after))]
    wrong += [f"new: {line}" for line in sorted(set(after) - set(before))]
    if sorted(before) != sorted(after) and not wrong:
        wrong.append("as many lines as before of another number each")
    if life.kept() != files:
        wrong.append("the vault or the state folder is another one")
    return wrong

"""What the edited vault is made of: names, texts, settings, and what is asked of it.

Credentials are put together here from a seed: none is anybody's, and no file holds one.
"""

import json
import random
import string
import unicodedata


def nfd(text: str) -> str:
    """A name with its accents apart, as macOS used to spell it."""
    return unicodedata.normalize("NFD", text)


def _token(seed: int) -> str:
    some = random.Random(seed).choices(string.ascii_letters + string.digits, k=36)
    return "gh" + "p_" + "".join(some)


TOKENS = tuple(map(_token, range(3)))

PLACES = (
    "alpha.md",
    "beta.md",
    "Beta.md",
    "one/alpha.md",
    "one/gamma.md",
    "two/gamma.md",
    "two/deep/delta.md",
    "two/ΟΔΟΣ.md",
    "é/é.md",
    nfd("é/é.md"),
    "private/plan.md",
    "2026-03-04 trip.md",
    "2026-03-05.md",
    "one/alpha (conflicted copy 2026-01-02).md",
    "two/board.canvas",
    "drawing.excalidraw.md",
)
FOLDERS = ("one", "One", "two", "two/deep", "three", "é", nfd("é"), "private", "alpha")
ATTACHMENTS = ("pot.png", "one/pot.png", "two/alpha.pdf", "gamma", "é/pot.png")
# Files that take a name away from others: the nearest of a name is meant.
NAMESAKES = ("aa/alpha.md", "aa/two/gamma.md", "one/ΟΔΟΣ.md", "gamma.md", "aa/pot.png", "delta.md")

_CARDS = json.dumps(
    {
        "nodes": [
            {"id": "1", "type": "text", "text": "# Card\n\nkiln [[gamma]] #ceramics\n"},
            {"id": "2", "type": "file", "file": "alpha.md"},
            {"id": "3", "type": "file", "file": "one/gamma.md", "subpath": "#B"},
        ],
        "edges": [{"id": "e", "fromNode": "2", "toNode": "3", "label": "glazed like"}],
    }
)
_DRAWING = (
    "---\nexcalidraw-plugin: parsed\ntags: [excalidraw]\n---\n"
    "==⚠  Switch to EXCALIDRAW VIEW in the MORE OPTIONS menu of this document. ⚠==\n\n"
    "The back of it: clay.\n\n# Excalidraw Data\n\n## Text Elements\nA kiln with [[gamma]] ^a1\n\n"
    '%%\n## Drawing\n```json\n{"type": "excalidraw", "elements": []}\n```\n%%\n'
)

TEXTS = (
    "",
    "plain words about kilns and clay\n",
    "# Firing\n\nThe kiln of [[alpha]] and [[one/gamma|the other]].\n",
    "See [[Beta]], [[gamma]], ![[pot.png]] and [up](../alpha.md), [[é]].\n\n#ceramics/raku\n",
    "[[/alpha]] [[./gamma]] [[deep/delta]] [[two/alpha.pdf]] [[ΟΔΟΣ]] [[nowhere]] [[gamma.md]]\n",
    "---\naliases: [Clay, 京都]\ntags: [ceramics]\nrelated: '[[delta]]'\n---\nGlaze recipe 7.\n",
    "---\nid: note-one\n---\nIts own identity: [[ΟΔΟΣ]] [[./gamma]].\n",
    "---\nid: note-one\n---\nThe same identity, other words: wheel, kiln.\n",
    "---\nid: note-two\naliases: Clay\n---\n# Clay\n\nAnother identity.\n",
    "---\ntype: recipe\ndate: 2025-01-02\ntitle: Stoneware\n---\n# Clay\n\nkiln\n\n# Clay\n\nkiln",
    "---\nbroken: [yaml\n---\nA body of the broken note about [[nowhere]] and [[gamma.md]].\n",
    "# Long\n\n"
    + "\n\n".join(f"Paragraph {n} about throwing on the wheel." * 4 for n in range(12)),
    "# A\n\nfirst kiln\n\n# B\n\nsecond glaze\n\n# C\n\nthird clay [[#A]] [[alpha#B]]\n",
    "京都の窯で焼いた器 [[alpha|器]]\n",
    "# Kiln log\n\n## 2025-03-04\n\ncracked glaze\n\ndecision:: slower cooling\nas of now\n\n"
    "## 2026-01-02\n\n> [!error] Fuse\n> blew at cone 6\n\n- lesson:: test tiles\n  first\n",
    "state:: drying\nkiln:: [[gamma]]\n\nA pot with [error:: warped] and (due:: 2026-02-03).\n",
    f"The kiln's controller takes {TOKENS[0]} for a key.\n",
    f"# Keys\n\nglaze shop {TOKENS[1]}\n\n# More\n\nclay shop {TOKENS[2]} and {TOKENS[0]}\n",
    "Open words. <private>the price of the kiln</private> Open again, [[beta]].\n",
    "---\nprivate: true\naliases: [Hidden clay]\n---\nNobody's kiln [[alpha]].\n",
    "---\nhidden: yes\n---\nA glaze that another property keeps [[alpha]].\n",
    "kiln " * 90,
    _CARDS,
    _DRAWING,
)

QUERIES = (
    "kiln",
    "kilns clay",
    '"the kiln"',
    "glaze -recipe",
    "wheel throwing",
    "tag:ceramics glaze",
    "path:two kiln gamma",
    "京都",
    "stonewear",
    "alpha after:2025-01-01",
    "kind:decision",
    "kind:episode glaze after:2025-06",
    "error kind:error",
    "kind:canvas kiln",
    "hidden clay price",
    "shop key",
    "paragraph",
    "before:1980",
    "after:2090 kiln",
    "identity",
)

# .vaultmem/config.toml: what makes another index, and what only leaves notes out.
CONFIGS = (
    "",
    "[chunk]\nmax_pieces = 40\n",
    "[chunk]\nmax_pieces = 80\n[scan]\nignore = ['private']\n",
    "[secrets]\nscan = 'report'\n",
    "[secrets]\nscan = 'off'\n",
    "[private]\nproperty = 'hidden'\n",
    "[private]\nproperty = ''\n",
    "[scan]\nignore = ['private', '*/gamma.md']\n",
    "[scan]\nignore = ['two/deep', 'alpha.md']\n",
    "[scan]\nmax_note_bytes = 300\n",
    "[kinds]\nfolders = { one = 'recipe' }\nlogs = ['note', 'recipe']\n",
    "[items]\nkinds = ['state', 'lesson']\n",
    "[templates]\nfolders = ['two']\n",
    "[templates]\nfolders = ['two/deep']\ncount = 'yes'\n",
)

# Obsidian's own settings: file -> what it may say. None for no such file.
OBSIDIAN: dict[str, tuple[str | None, ...]] = {
    "app.json": (
        None,
        "{}",
        '{"userIgnoreFilters": ["private/"]}',
        '{"userIgnoreFilters": ["two/deep/", "/gamma/"]}',
        '{"userIgnoreFilters": ["/(?=x)y/", "one/"], "newLinkFormat": "relative"}',
    ),
    "daily-notes.json": (
        None,
        '{"folder": "two", "format": "YYYY-MM-DD"}',
        '{"format": "[2026-03-04 trip]"}',
        '{"template": "one/alpha"}',
    ),
    "templates.json": (None, '{"folder": "one"}', '{"folder": "two/deep"}'),
}
# As Obsidian leaves it for a moment, writing in place.
HALF_WRITTEN = '{"userIgnoreFilters": ["pri'

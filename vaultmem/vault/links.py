"""Which file a link means, by Obsidian's rule.

Exact vault path, then the source note's own folder, then the shortest path as a string. An alias
never resolves a link. The rule looks only at files whose name is the link's last part, so a file
that comes or goes can affect only links that end in its name.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from vaultmem.vault.paths import fold, is_note, vault_path


class VaultNames:
    """Every file of a vault by its folded name: what the resolver looks in."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_name: dict[str, list[str]] = {}
        self._by_path: dict[str, str] = {}
        # name -> folder -> nearest file of that name at or below the folder; made when asked for,
        # since a name that every folder has (README) would otherwise cost its square.
        self._nearest: dict[str, dict[str, str]] = {}
        # name -> (path read backwards, path), sorted: those with one ending stand together.
        self._backwards: dict[str, list[tuple[str, str]]] = {}
        for path in paths:
            folded = fold(path)
            # Of two that differ in case alone always the same one, however they are listed.
            self._by_path[folded] = min(path, self._by_path.get(folded, path))
            self._by_name.setdefault(folded.rsplit("/", 1)[-1], []).append(path)

    def add(self, path: str) -> None:
        """Take a file in that is not among them."""
        folded = fold(path)
        name = folded.rsplit("/", 1)[-1]
        self._by_path[folded] = min(path, self._by_path.get(folded, path))
        # In order, as if all had been given at once.
        insort(self._by_name.setdefault(name, []), path)
        self._forget_derived(name)

    def remove(self, path: str) -> None:
        """Take a file out."""
        folded = fold(path)
        name = folded.rsplit("/", 1)[-1]
        left = [other for other in self._by_name[name] if other != path]
        if left:
            self._by_name[name] = left
        else:
            del self._by_name[name]
        twins = [other for other in left if fold(other) == folded]
        if twins:
            self._by_path[folded] = min(twins)
        else:
            del self._by_path[folded]
        self._forget_derived(name)

    def _forget_derived(self, name: str) -> None:
        self._nearest.pop(name, None)
        self._backwards.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        for paths in self._by_name.values():
            yield from paths

    def candidates(self, target: str) -> list[str]:
        """Files whose name is the last part of `target`, as they are or with `.md` added."""
        return self._by_name.get(self._name(target), [])

    def meanings(self, target: str) -> list[str]:
        """Every file that a link's text fits: several when only the rule of the shortest decides.

        A text that begins with a slash or a dot, or that is a whole path with folders, fits one.
        """
        link = vault_path(target)
        name = self._name(link)
        found = self._by_name.get(name, [])
        if target.startswith(("/", "./", "../")):
            return found[:1]
        if "/" not in link:
            return found
        exact = self._exact(link, name)
        return [exact] if exact is not None else self._ending_with(link, name)

    def _name(self, target: str) -> str:
        """The folded file name that a link asks for."""
        last = target.rsplit("/", 1)[-1]
        if "." in last and fold(last) in self._by_name:
            return fold(last)
        # `.md` is added before folding: a final capital sigma folds by what follows it.
        return fold(last + ".md")

    def resolve(self, target: str, source: str) -> str | None:
        """The vault path that a link in `source` leads to, or None.

        target: the link text before its first `#`, percent-decoded where it was a Markdown link.
        source: vault path of the note the link stands in.
        """
        if not target:
            return source
        absolute = target.startswith("/")
        link = vault_path(target)
        if not link:
            return None
        name = self._name(link)
        found = self._by_name.get(name)
        if not found:
            return None
        folder = source.rpartition("/")[0]
        if link.startswith(("./", "../")) or link in (".", ".."):
            joined = _join(folder, link)
            return None if joined is None else self._exact(joined, name)
        if len(found) == 1 and "/" not in link and not absolute:
            return found[0]
        exact = self._exact(link, name)
        if exact is not None or absolute:
            return exact
        if "/" not in link:
            nearest = self._nearest_of(name)
            return nearest.get(fold(folder)) or nearest[""]
        return _nearest_fitting(self._ending_with(link, name), folder)

    def _ending_with(self, link: str, name: str) -> list[str]:
        """The files of a name whose path ends as the link does."""
        if name not in self._backwards:
            found = self._by_name.get(name, [])
            self._backwards[name] = sorted((fold(path)[::-1], path) for path in found)
        ending = (fold(link).rpartition("/")[0] + "/" + name)[::-1]
        files = self._backwards[name]
        first = bisect_left(files, (ending, ""))
        after = bisect_left(files, (ending + "\U0010ffff", ""))
        return [path for _, path in files[first:after]]

    def _exact(self, link: str, name: str) -> str | None:
        folder, slash, _ = fold(link).rpartition("/")
        return self._by_path.get(folder + slash + name)

    def _nearest_of(self, name: str) -> dict[str, str]:
        if name not in self._nearest:
            nearest: dict[str, str] = {}
            for path in sorted(self._by_name[name], key=lambda path: (len(path), path)):
                folder = fold(path).rpartition("/")[0]
                while folder not in nearest:
                    nearest[folder] = path
                    if not folder:
                        break
                    folder = folder.rpartition("/")[0]
            self._nearest[name] = nearest
        return self._nearest[name]


def _nearest_fitting(fitting: list[str], folder: str) -> str | None:
    """Among those whose path ends with the link: own folder first, then the shortest string."""
    if not fitting:
        return None
    own = fold(folder)

    def order(path: str) -> tuple[bool, int, str]:
        inside = not own or fold(path).startswith(own + "/")
        return (not inside, len(path), path)

    return min(fitting, key=order)


def _join(folder: str, link: str) -> str | None:
    """`link` seen from `folder`; None when it climbs out of the vault."""
    parts = folder.split("/") if folder else []
    for part in link.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in (".", ""):
            parts.append(part)
    return "/".join(parts)


def link_key(target: str) -> str:
    """What a link's resolution depends on: its last part, folded."""
    return _key(vault_path(target).rsplit("/", 1)[-1])


def _key(name: str) -> str:
    """Folded, both small sigmas as one: which of them a capital folds to is up to what follows."""
    return fold(name).replace("ς", "σ")


def affected_keys(path: str) -> tuple[str, ...]:
    """The link keys whose resolution may change when a file at `path` comes or goes."""
    key = _key(path.rsplit("/", 1)[-1])
    return (key, key[:-3]) if is_note(path) else (key,)

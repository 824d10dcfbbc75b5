"""The queue in which whoever met a stale note asks whoever indexes to look at it."""

from collections.abc import Iterable

import apsw

from vaultmem.index.store import BUSY_TIMEOUT_MS, Sidecar

# A question does not wait for the writer: who indexes looks everywhere by and by anyway.
_PATIENCE_MS = 100


def ask_for(sidecar: Sidecar, paths: Iterable[str], now_ns: int) -> bool:
    """Ask for notes to be looked at again; False when that was not to be had quickly.

    paths:  below the vault, as the disk spells them.
    now_ns: the clock, nanoseconds since the epoch.
    """
    if sidecar.read_only:
        return False
    sidecar.end_reading()
    sidecar.connection.set_busy_timeout(_PATIENCE_MS)
    try:
        with sidecar.transaction() as db:
            db.executemany(
                "INSERT INTO request (path, asked_ns) VALUES (?, ?) "
                # Another number than before, also where the clock stands still or went back: by it
                # `settle_requests` tells whether a request was made anew.
                "ON CONFLICT (path) DO UPDATE SET asked_ns = max(excluded.asked_ns, asked_ns + 1)",
                [(path, now_ns) for path in sorted(set(paths))],
            )
    except apsw.BusyError:
        return False
    finally:
        sidecar.connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return True


def requested(sidecar: Sidecar) -> list[tuple[str, int]]:
    """(path, when it was asked for) of every note that somebody asked for, the eldest first."""
    return list(
        sidecar.connection.execute("SELECT path, asked_ns FROM request ORDER BY asked_ns, path")
    )


def settle_requests(sidecar: Sidecar, requests: Iterable[tuple[str, int]]) -> None:
    """Take requests out that have been answered; one made anew meanwhile stays."""
    with sidecar.transaction() as db:
        db.executemany("DELETE FROM request WHERE path = ? AND asked_ns = ?", list(requests))

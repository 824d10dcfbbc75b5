"""Which file system a folder lies on, and whether this machine has it to itself."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

# Linux's names of file systems that several machines may have mounted at once, or a virtual machine
# and its host, or two systems of one computer. Memory that is mapped from their files is not the
# same memory for all of them, and some map none.
_SHARED_NAMES = """
    9p acfs afs auristorfs beegfs ceph cifs coda davfs davfs2 drvfs fakeowner fhgfs gfs gfs2
    glusterfs gpfs grpcfuse lustre ncp ncpfs nfs nfs4 ocfs2 orangefs osxfs panfs prl_fs pvfs2 shfs
    smb3 smbfs sshfs vboxsf virtiofs vmhgfs wekafs
"""
_SHARED = frozenset(_SHARED_NAMES.split())

# A program answers for these, and nothing says how it keeps memory and locks. Most lead to another
# machine (sshfs, rclone, gvfs, s3fs); those that do not (gocryptfs, mergerfs) map memory only as
# they were started. Not "fuseblk": that is a disk with NTFS or exFAT.
_BY_A_PROGRAM = re.compile(r"fuse(\..*)?")

# It has no files but those of what is mounted over it, on the first access.
_NOT_MOUNTED_YET = "autofs"

_ESCAPE = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What the operating system says of a folder's place."""

    name: str  # as the operating system calls it; "" where it does not say
    local: bool | None  # None where that cannot be told


def known(name: str) -> FileSystem:
    """What is known of a file system of Linux by its name."""
    if name in ("", _NOT_MOUNTED_YET):
        return FileSystem(name, None)
    return FileSystem(name, name not in _SHARED and not _BY_A_PROGRAM.fullmatch(name))


@dataclass(frozen=True, slots=True)
class _Mount:
    id: bytes
    parent: bytes
    point: bytes
    type: str

    def holds(self, path: bytes) -> bool:
        return path == self.point or path.startswith(self.point.rstrip(b"/") + b"/")


def mounted(mountinfo: bytes, path: bytes) -> str:
    """The type of the file system that holds a path; "" when that is not said.

    mountinfo: what /proc/self/mountinfo holds, proc_pid_mountinfo(5).
    path:      absolute, without links; it need not exist.
    """
    mounts = _mounts(mountinfo)
    ids = {mount.id for mount in mounts}
    here, found = b"", ""
    # Down from the root as the kernel goes: what is mounted over a folder hides what was mounted
    # below it before. Not more steps than mounts, should they go round in a circle.
    for _ in mounts:
        below = [
            mount
            for mount in mounts
            if (mount.parent if mount.parent in ids and mount.parent != mount.id else b"") == here
            and mount.holds(path)
        ]
        if not below:
            break
        nearest = min(reversed(below), key=lambda mount: len(mount.point))  # of two, the later
        here, found = nearest.id, nearest.type
    return found


def _mounts(mountinfo: bytes) -> list[_Mount]:
    mounts: list[_Mount] = []
    for line in mountinfo.split(b"\n"):
        before, dash, after = line.partition(b" - ")
        fields = before.split(b" ")
        if dash and len(fields) > 5:
            kind = os.fsdecode(_decoded(after.split(b" ")[0]))
            mounts.append(_Mount(fields[0], fields[1], _decoded(fields[4]), kind))
    return mounts


def _decoded(field: bytes) -> bytes:
    r"""Blanks, line ends and backslashes stand there as \040 and the like."""
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field)


def is_unc(path: str) -> bool:
    r"""Whether a path of Windows names a server: \\server\share, or \\?\UNC\server\share."""
    path = path.replace("/", "\\")
    if path.startswith(("\\\\?\\", "\\\\.\\")):
        return path[4:8].upper() == "UNC\\"
    return path.startswith("\\\\")


# struct statfs of macOS, <sys/mount.h>, with inodes of 64 bits: 2,168 bytes.
_STATFS_ROOM = 4096
_STATFS_FLAGS = slice(64, 68)
_STATFS_TYPE = slice(72, 88)
_MNT_LOCAL = 0x1000


def from_statfs(answer: bytes) -> FileSystem:
    """What a struct statfs of macOS says."""
    name = answer[_STATFS_TYPE].partition(b"\0")[0]
    if not re.fullmatch(rb"[A-Za-z0-9_.-]+", name):
        return FileSystem("", None)  # laid out in another way
    flags = int.from_bytes(answer[_STATFS_FLAGS], sys.byteorder)
    return FileSystem(name.decode("ascii"), bool(flags & _MNT_LOCAL))


if sys.platform == "linux":

    def _of(folder: Path) -> FileSystem:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_bytes()
        except OSError:
            return FileSystem("", None)
        return known(mounted(mountinfo, os.fsencode(folder)))

elif sys.platform == "win32":
    _NO_ROOT, _REMOTE = 1, 4  # DRIVE_NO_ROOT_DIR, DRIVE_REMOTE; 0 is DRIVE_UNKNOWN

    def _of(folder: Path) -> FileSystem:
        import ctypes

        if is_unc(str(folder)):
            return FileSystem("a network share", False)
        ask = ctypes.WinDLL("kernel32").GetDriveTypeW
        ask.argtypes, ask.restype = (ctypes.c_wchar_p,), ctypes.c_uint
        kind = ask(os.path.splitdrive(folder)[0] + "\\")
        if kind <= _NO_ROOT:
            return FileSystem("", None)
        return FileSystem("a network drive" if kind == _REMOTE else "", kind != _REMOTE)

elif sys.platform == "darwin":

    def _of(folder: Path) -> FileSystem:
        import ctypes

        # The plain name means the older struct on Intel, and is the only one on ARM.
        names = {"arm64": "statfs", "x86_64": "statfs$INODE64"}
        name = names.get(os.uname().machine)
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        answer = ctypes.create_string_buffer(_STATFS_ROOM)  # more than it can be
        try:
            ask = getattr(ctypes.CDLL(None), name or "")
        except AttributeError:
            return FileSystem("", None)
        ask.argtypes, ask.restype = (ctypes.c_char_p, ctypes.c_char_p), ctypes.c_int
        if ask(os.fsencode(folder), answer) != 0:
            return FileSystem("", None)
        return from_statfs(answer.raw)

else:

    def _of(folder: Path) -> FileSystem:
        return FileSystem("", None)


def file_system(folder: Path) -> FileSystem:
    """The file system that holds a folder, which need not be there yet."""
    return _of(Path(os.path.realpath(folder)))

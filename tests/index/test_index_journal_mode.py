"""Which journal SQLite keeps where, and that the sidecar is as whole with one as with the other."""

import ctypes
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from vaultmem.embedding.cache import CACHE_NAME, EmbeddingCache, Row, open_cache
from vaultmem.embedding.embedder import Space
from vaultmem.embedding.file_system import (
    FileSystem,
    file_system,
    from_statfs,
    is_unc,
    known,
    mounted,
)
from vaultmem.embedding.journal_mode import (
    Wish,
    journal,
    made_with,
    opens_log,
    read_only_uri,
    safe_journal,
    wal_is_safe,
)
from vaultmem.index.store import (
    SIDECAR_NAME,
    Sidecar,
    create,
    driver,
    open_existing,
    sidecar_errors,
    stored_meta,
)
from vaultmem.model.errors import SidecarDamaged
from vaultmem.service.application import Memory
from vaultmem.service.operations.index import IndexReply, IndexRequest, index
from vaultmem.service.operations.status import StatusRequest, status

Open = Callable[..., Memory]
Run = Callable[[Memory], IndexReply]
Find = Callable[..., list[str]]
Compare = Callable[[Memory], None]

BOTH = pytest.mark.parametrize("mode", ["wal", "delete"])
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
checked = pytest.mark.skipif(not driver()[3], reason="pages have no checksums here")

SYNCHRONOUS = {"wal": 1, "delete": 2}  # NORMAL, FULL
DEADLINE_SECONDS = 60.0


# Which file system a folder lies on

DESKTOP = rb"""
22 29 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
23 29 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
26 29 0:24 / /run rw,nosuid,nodev,noexec,relatime shared:5 - tmpfs tmpfs rw,size=3218512k,mode=755
29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
31 29 0:31 /@home /home rw,noatime shared:29 - btrfs /dev/nvme0n1p3 rw,ssd,subvol=/@home
40 29 259:1 / /boot/efi rw,relatime shared:31 - vfat /dev/nvme0n1p1 rw,fmask=0077
55 29 7:3 / /snap/core22/1122 ro,nodev,relatime shared:40 - squashfs /dev/loop3 ro
98 26 0:62 / /run/user/1000 rw,nosuid,nodev shared:60 - tmpfs tmpfs rw,mode=700,uid=1000
99 98 0:63 / /run/user/1000/gvfs rw,nosuid,nodev shared:61 - fuse.gvfsd-fuse gvfsd-fuse rw
100 98 0:64 / /run/user/1000/doc rw,nosuid,nodev shared:62 - fuse.portal portal rw
101 29 8:17 / /media/mara/STICK rw,nosuid,nodev shared:63 - fuseblk /dev/sdb1 rw,blksize=4096
102 29 0:65 / /media/mara/nas rw,relatime shared:64 - cifs //nas/mara rw,vers=3.1.1,addr=10.0.0.2
103 31 0:66 / /home/mara/cloud rw,nosuid,nodev shared:65 - fuse.rclone drive: rw,user_id=1000
104 31 0:67 / /home/mara/safe rw,nosuid,nodev shared:66 - fuse.gocryptfs /home/mara/.safe rw
"""

# The bind of a folder within the share comes later and has the share's own type.
BINDS = rb"""
29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
60 29 0:50 / /mnt/nas rw,relatime shared:2 - nfs4 nas:/export rw,vers=4.2,addr=10.0.0.2
61 29 0:50 /mara/cache /home/mara/.cache rw,relatime shared:2 - nfs4 nas:/export rw,vers=4.2
62 60 259:2 /var/local /mnt/nas/local rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
"""

WSL_2 = rb"""
62 74 0:25 / /mnt/wsl rw,relatime shared:1 - tmpfs none rw
74 57 8:32 / / rw,relatime - ext4 /dev/sdc rw,discard,errors=remount-ro,data=ordered
88 74 0:29 / /usr/lib/wsl/drivers ro,nosuid,nodev,noatime - 9p none ro,aname=drivers,trans=fd
120 74 0:55 / /mnt/wslg rw,relatime - tmpfs none rw
139 74 0:70 / /mnt/c rw,noatime - 9p C:\134 rw,aname=drvfs;path=C:\;uid=1000;gid=1000,trans=fd
140 74 0:71 / /mnt/d rw,noatime - virtiofs drvfsD0 rw
"""

WSL_1 = rb"""
2 2 0:2 / / rw,noatime - wslfs rootfs rw
3 2 0:3 / /dev rw,noatime - tmpfs none rw,mode=755
17 2 0:17 / /mnt/c rw,noatime - drvfs C:\134 rw,uid=1000,gid=1000,case=off
"""

# The container's root is named nowhere as a mount of the machine's, whose number is its parent's.
DOCKER = rb"""
810 712 0:93 / / rw,relatime master:260 - overlay overlay rw,lowerdir=/docker/l/A,upperdir=/u
811 810 0:96 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
812 810 0:97 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
816 810 254:1 /docker/volumes/index/_data /cache rw,relatime master:22 - ext4 /dev/vda1 rw
817 810 0:45 /Users/mara/Notes /vault rw,relatime - fakeowner /run/host_mark/Users rw,fakeowner
818 810 254:1 /docker/containers/6f/hosts /etc/hosts rw,relatime - ext4 /dev/vda1 rw
"""

# What is mounted on the first access lies over the autofs, which waits for it.
AUTOMOUNTED = rb"""
29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
44 29 0:40 / /net rw,relatime shared:20 - autofs /etc/auto.net rw,fd=6,pgrp=812,timeout=300,indirect
45 29 0:41 / /home/mara rw,relatime shared:21 - autofs systemd-1 rw,fd=33,pgrp=1,timeout=0,direct
46 29 0:42 / /mnt/later rw,relatime shared:22 - autofs systemd-1 rw,fd=34,pgrp=1,timeout=0,direct
70 45 0:51 / /home/mara rw,relatime shared:30 - nfs4 files:/home/mara rw,vers=4.2
71 44 0:52 / /net/files/pub rw,nosuid,nodev shared:31 - nfs files:/pub rw,vers=3
"""

SPACES = rb"""
29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
50 29 8:17 / /media/My\040Disk\040(1) rw,relatime shared:9 - exfat /dev/sdb1 rw
51 50 0:51 / /media/My\040Disk\040(1)/back\134slash rw - cifs //nas/My\040Files rw
52 29 0:52 / /media/My rw,relatime shared:10 - nfs4 nas:/my rw
53 29 0:53 / /media/new\012line\011tab rw - ceph 10.0.0.2:/ rw
"""

# Over a share a disk of its own was mounted; over the folder above another, another.
HIDDEN = rb"""
29 1 259:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
50 29 0:51 / /srv/one rw,relatime shared:2 - nfs4 nas:/one rw
51 50 8:17 / /srv/one rw,relatime shared:3 - xfs /dev/sdb1 rw
60 29 0:52 / /data/two rw,relatime shared:4 - nfs4 nas:/two rw
61 29 8:33 / /data rw,relatime shared:5 - xfs /dev/sdc1 rw
62 61 0:53 / /data/three rw,relatime shared:6 - nfs4 nas:/three rw
70 29 0:54 / /opt/four rw,relatime - nfs4 nas:/four rw
71 29 8:49 / /opt/four rw,relatime - xfs /dev/sdd1 rw
"""

RECORDED = {
    "desktop": (
        DESKTOP,
        {
            b"/var/cache": "ext4",
            b"/home/mara/.cache/vaultmem/Notes-0123456789ab": "btrfs",
            b"/homestead": "ext4",
            b"/home/mara/cloud": "fuse.rclone",
            b"/home/mara/cloud/cache": "fuse.rclone",
            b"/home/mara/cloudy": "btrfs",
            b"/home/mara/safe/cache": "fuse.gocryptfs",
            b"/media/mara/STICK/cache": "fuseblk",
            b"/media/mara/nas/cache": "cifs",
            b"/run/user/1000/gvfs/smb-share:server=nas": "fuse.gvfsd-fuse",
            b"/run/user/1000/x": "tmpfs",
        },
    ),
    "bind mounts": (
        BINDS,
        {
            b"/home/mara": "ext4",
            b"/home/mara/.cache/vaultmem": "nfs4",
            b"/mnt/nas": "nfs4",
            b"/mnt/nas/local/cache": "ext4",
        },
    ),
    "WSL 2": (
        WSL_2,
        {
            b"/home/mara/.cache": "ext4",
            b"/mnt/c/Users/mara": "9p",
            b"/mnt/d/cache": "virtiofs",
            b"/mnt/e": "ext4",
        },
    ),
    "WSL 1": (WSL_1, {b"/home/mara/.cache": "wslfs", b"/mnt/c/Users": "drvfs"}),
    "docker": (
        DOCKER,
        {
            b"/root/.cache": "overlay",
            b"/cache/Notes": "ext4",
            b"/vault/.cache": "fakeowner",
            b"/": "overlay",
        },
    ),
    "automounted": (
        AUTOMOUNTED,
        {
            b"/home/mara/.cache/vaultmem": "nfs4",
            b"/home/otto": "ext4",
            b"/net/files/pub/cache": "nfs",
            b"/net/files": "autofs",
            b"/mnt/later/cache": "autofs",
        },
    ),
    "spaces": (
        SPACES,
        {
            b"/media/My Disk (1)/cache": "exfat",
            b"/media/My Disk (1)/back\\slash/cache": "cifs",
            b"/media/My/cache": "nfs4",
            b"/media/new\nline\ttab/cache": "ceph",
        },
    ),
    "hidden": (
        HIDDEN,
        {
            b"/srv/one/cache": "xfs",
            b"/data/two/cache": "xfs",
            b"/data/three/cache": "nfs4",
            b"/opt/four/cache": "xfs",
        },
    ),
}

NETWORKS = {"nfs", "nfs4", "cifs", "ceph", "9p", "virtiofs", "drvfs", "fakeowner"}
BY_A_PROGRAM = {"fuse.rclone", "fuse.gvfsd-fuse", "fuse.gocryptfs"}


@pytest.mark.parametrize("where", RECORDED)
def test_a_folders_file_system_is_the_one_mounted_nearest_above_it(where: str) -> None:
    mountinfo, expected = RECORDED[where]
    assert {path: mounted(mountinfo, path) for path in expected} == expected


def test_network_file_systems_and_those_of_a_program_are_not_local() -> None:
    recorded = {kind for _, kinds in RECORDED.values() for kind in kinds.values()}
    assert {kind for kind in recorded if known(kind).local is False} == NETWORKS | BY_A_PROGRAM
    assert {kind for kind in recorded if known(kind).local is None} == {"autofs"}
    others = ("fuse", "fuse.sshfs", "glusterfs", "lustre", "davfs", "vboxsf", "fuse.vmhgfs-fuse")
    assert [known(kind).local for kind in others] == [False] * len(others)
    assert known("").local is None
    assert known("a file system of tomorrow").local is True


@pytest.mark.parametrize(
    "mountinfo",
    [
        b"",
        b"\n\n",
        b"29 1 259:2 / /\n",
        b"29 1 259:2 / / rw -\n",
        b"1 2 0:1 / / rw - ext4 a rw\n2 1 0:2 / / rw - xfs b rw\n",  # each the other's parent
        b"\xff\xfe - \x00",
    ],
)
def test_mounts_that_make_no_sense_say_nothing(mountinfo: bytes) -> None:
    assert mounted(mountinfo, b"/home/mara") == ""


@on_linux
def test_the_kernel_knows_the_same_mounts_by_their_numbers(tmp_path: Path) -> None:
    mountinfo = Path("/proc/self/mountinfo").read_bytes()
    by_number = {}
    for line in mountinfo.splitlines():
        fields = line.split()
        by_number[int(fields[0])] = os.fsdecode(fields[fields.index(b"-") + 1])
    compared = set()
    for folder in (
        Path("/"),
        Path("/proc"),
        Path("/dev"),
        Path("/dev/shm"),
        Path("/sys"),
        tmp_path,
    ):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            told = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
        finally:
            os.close(descriptor)
        (number,) = [line.split()[1] for line in told.splitlines() if line.startswith("mnt_id:")]
        expected = by_number[int(number)]
        assert file_system(folder).name == expected, folder
        compared.add(expected)
    assert len(compared) > 1


def test_a_folder_that_is_not_there_yet_lies_where_it_would_be_made(tmp_path: Path) -> None:
    here = file_system(tmp_path)
    assert here.local is not False
    assert file_system(tmp_path / "a" / "b") == here


@pytest.mark.skipif(sys.platform == "win32", reason="making a link needs a privilege on Windows")
def test_a_link_lies_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc" if sys.platform == "linux" else "/dev")
    there = file_system(tmp_path / "link")
    assert there == file_system(Path(os.path.realpath(tmp_path / "link")))
    assert there != file_system(tmp_path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (r"\\nas\mara\cache", True),
        ("//nas/mara/cache", True),
        (r"\\?\UNC\nas\mara\cache", True),
        (r"\\?\unc\nas\mara", True),
        (r"\\wsl.localhost\Debian\home", True),
        (r"C:\Users\mara\cache", False),
        (r"\\?\C:\Users\mara", False),
        (r"\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}\cache", False),
        (r"\\.\C:\Users", False),
        (r"\cache", False),
    ],
)
def test_a_path_of_windows_names_a_server_or_does_not(path: str, expected: bool) -> None:
    assert is_unc(path) is expected


def statfs(flags: int, name: bytes) -> bytes:
    """A struct statfs as macOS fills it in: <sys/mount.h>."""
    return struct.pack(
        "=Ii5Q2iIIII16s1024s1024sI7I",
        *(4096, 1 << 20, 9, 8, 7, 6, 5, 16777233, 26, 0, 26, flags, 1),
        *(name, b"/System/Volumes/Data", b"/dev/disk3s5", 0, *range(7)),
    )


def test_a_statfs_of_macos_tells_a_disk_from_a_share() -> None:
    assert len(statfs(0, b"apfs")) == 2168
    assert from_statfs(statfs(0x0480_9000, b"apfs")) == FileSystem("apfs", True)
    assert from_statfs(statfs(0x0000_0010, b"smbfs")) == FileSystem("smbfs", False)
    assert from_statfs(statfs(0, b"")) == FileSystem("", None)
    assert from_statfs(statfs(0xFFFF_FFFF, b"\x03\xff")) == FileSystem("", None)


# Which journal is due

DISK, SHARE, UNKNOWN = FileSystem("ext4", True), FileSystem("nfs4", False), FileSystem("", None)


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("3.40.1", False),
        ("3.44.5", False),
        ("3.44.6", True),
        ("3.45.0", False),
        ("3.50.6", False),
        ("3.50.7", True),
        ("3.51.2", False),
        ("3.51.3", True),
        ("3.53.0", True),
        ("3.54.1", True),
        ("4.0.0", True),
    ],
)
def test_a_log_is_safe_with_the_versions_that_do_not_lose_a_commit(
    version: str, safe: bool
) -> None:
    assert wal_is_safe(version) is safe
    due = safe_journal(version, DISK)
    assert due.mode == ("wal" if safe else "delete")
    assert (version in due.why) is not safe


def test_a_log_is_for_a_disk_of_this_machine_unless_a_person_says_otherwise() -> None:
    assert safe_journal("3.54.1", DISK) == safe_journal("3.54.1", UNKNOWN)
    assert safe_journal("3.54.1", DISK).mode == "wal"
    share = safe_journal("3.54.1", SHARE)
    assert share.mode == "delete"
    assert "nfs4" in share.why
    assert safe_journal("3.40.1", SHARE, "wal").mode == "wal"
    assert safe_journal("3.54.1", DISK, "delete").mode == "delete"
    assert "sidecar.journal" in safe_journal("3.54.1", DISK, "delete").why


def test_the_tests_run_where_a_log_is_due(tmp_path: Path) -> None:
    assert journal(tmp_path).mode == "wal"


# A sidecar with either journal

NOTES = {
    "Kiln.md": "---\naliases: [oven]\n---\n# Kiln\n\nThe kiln is fired on Mondays.\n",
    "Glaze.md": "Glaze for the [[Kiln]], and for no other.\n\n# Tenmoku\n\nIron, and heat.\n",
    "Clay.md": "Stoneware clay shrinks by a tenth.\n",
}


def chosen(mode: str) -> dict[str, str]:
    return {"VAULTMEM_SIDECAR_JOURNAL": mode}


def the_sidecar(memory: Memory) -> Sidecar:
    sidecar = memory.open_sidecar()
    assert sidecar is not None
    return sidecar


def names_in(folder: Path) -> set[str]:
    """Everything but the locks and the mark for backup programs."""
    return {path.name for path in folder.iterdir()} - {
        *("writer.lock", "embedding.lock", "CACHEDIR.TAG"),
    }


@BOTH
def test_a_new_sidecar_has_the_journal_that_was_asked_for(mode: Wish, tmp_path: Path) -> None:
    assert made_with(tmp_path / SIDECAR_NAME) is None
    for again in (False, True):
        sidecar = (
            open_existing(tmp_path, "rules", journal=mode)
            if again
            else create(tmp_path, "rules", journal=mode)
        )
        assert sidecar is not None
        db = sidecar.connection
        assert db.execute("PRAGMA journal_mode").get == mode
        assert db.execute("PRAGMA synchronous").get == SYNCHRONOUS[mode]
        assert db.execute("PRAGMA secure_delete").get == 1
        assert db.execute("PRAGMA page_size").get == 8192
        assert made_with(tmp_path / SIDECAR_NAME) == mode
        assert sidecar.quick_check() == "ok"
        assert (SIDECAR_NAME + "-shm" in names_in(tmp_path)) is (mode == "wal")
        sidecar.close()
    assert names_in(tmp_path) == {SIDECAR_NAME}


@BOTH
def test_indexing_and_searching_are_the_same_with_either_journal(
    mode: str, open_vault: Open, run_index: Run, find: Find, assert_equals_rebuild: Compare
) -> None:
    memory = open_vault(NOTES, environment=chosen(mode))
    assert run_index(memory).notes.added == 3
    assert find(memory, "fired") == ["Kiln.md"]
    (memory.vault / "Glaze.md").write_text("Celadon, for the [[Kiln]].\n")
    (memory.vault / "Clay.md").unlink()
    (memory.vault / "Wheel.md").write_text("The wheel turns.\n")
    counts = run_index(memory).notes
    assert (counts.added, counts.changed, counts.removed) == (1, 1, 1)
    assert find(memory, "tenmoku") == []
    assert find(memory, "celadon") == ["Glaze.md"]
    assert made_with(memory.folder / SIDECAR_NAME) == mode
    assert_equals_rebuild(memory)


@BOTH
def test_a_removed_word_is_nowhere_in_the_folder(
    mode: str, open_vault: Open, run_index: Run
) -> None:
    secret = "qwxzvk"
    notes = {f"n{i}.md": f"Filler about kilns {i}. " * 40 for i in range(30)}
    memory = open_vault({**notes, "secret.md": f"The {secret} word.\n"}, environment=chosen(mode))
    run_index(memory)
    there = [file.name for file in memory.folder.iterdir() if secret.encode() in file.read_bytes()]
    assert there
    (memory.vault / "secret.md").unlink()
    assert run_index(memory).notes.removed == 1
    for file in memory.folder.iterdir():
        assert secret.encode() not in file.read_bytes(), file.name


@checked
@BOTH
def test_a_changed_letter_is_noticed_with_either_journal(
    mode: str, open_vault: Open, run_index: Run
) -> None:
    memory = open_vault(NOTES, environment=chosen(mode))
    run_index(memory)
    memory.close()
    file = memory.folder / SIDECAR_NAME
    data = bytearray(file.read_bytes())
    at = data.index(b"Mondays")
    data[at : at + 7] = b"Tuesday"
    file.write_bytes(data)
    sidecar = the_sidecar(memory)
    with pytest.raises(SidecarDamaged), sidecar_errors(memory.folder):
        sidecar.connection.execute("SELECT * FROM chunk").fetchall()


# Several processes at once

WRITE_ROUNDS = """
import sys
from pathlib import Path
from vaultmem.service.application import open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings
vault, cache = map(Path, sys.argv[1:])
memory = open_memory(load_settings(vault, cache))
number = 0
for line in sys.stdin:
    number += 1
    for name in ("one", "two"):
        (vault / f"{name}.md").write_text(f"Firing {number}.\\n" + "Clay and water. " * 400)
    counts = index(memory, IndexRequest()).notes
    print(counts.changed + counts.added, flush=True)
memory.close()
"""

READ_ROUNDS = """
import sys
from pathlib import Path
from vaultmem.service.application import open_memory
from vaultmem.service.operations.search import SearchRequest, search
from vaultmem.service.settings import load_settings
vault, cache = map(Path, sys.argv[1:])
memory = open_memory(load_settings(vault, cache))
for line in sys.stdin:
    found = search(memory, SearchRequest("firing clay water", limit=50)).hits
    print(len(found), flush=True)
memory.close()
"""


@contextmanager
def at_work(script: str, vault: Path, folder: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("VAULTMEM_")},
        "VAULTMEM_SIDECAR_JOURNAL": mode,
        "VAULTMEM_EMBEDDER_NAME": "none",
        "VAULTMEM_SEARCH_REFRESH": "never",
        "VAULTMEM_STATE_DIR": str(folder / "state"),
    }
    command = [sys.executable, "-c", script, str(vault), str(folder / "cache")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def say_go(process: subprocess.Popen[str], rounds: int = 1) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n" * rounds)
    process.stdin.flush()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


# What is written while so many searches are asked: however slow either is, they meet each time.
PORTIONS, ROUNDS, SEARCHES = 5, 8, 2


@BOTH
def test_processes_that_read_and_one_that_writes_do_not_get_into_each_others_way(
    mode: str, open_vault: Open, run_index: Run, tmp_path: Path, assert_equals_rebuild: Compare
) -> None:
    notes = {f"note {i}.md": f"Clay number {i}, and water." for i in range(20)}
    memory = open_vault(notes, environment=chosen(mode))
    run_index(memory)
    memory.close()
    seen: set[str] = set()
    with (
        at_work(WRITE_ROUNDS, memory.vault, tmp_path, mode) as writer,
        at_work(READ_ROUNDS, memory.vault, tmp_path, mode) as one,
        at_work(READ_ROUNDS, memory.vault, tmp_path, mode) as two,
    ):
        for process in (writer, one, two):
            say_go(process)
            line_of(process)
        for _ in range(PORTIONS):
            say_go(writer, ROUNDS)
            for _ in range(SEARCHES):
                for reader in (one, two):
                    say_go(reader)
                seen |= {line_of(reader) for reader in (one, two)}
            assert [line_of(writer) for _ in range(ROUNDS)] == ["2\n"] * ROUNDS
        assert writer.stdin is not None
        writer.stdin.close()
        assert writer.wait() == 0
    assert seen == {"22\n"}
    assert made_with(memory.folder / SIDECAR_NAME) == mode
    assert the_sidecar(memory).quick_check() == "ok"
    assert_equals_rebuild(memory)


# A process that dies in the middle of a commit

DIE_IN_A_COMMIT = """
import os, signal, sys
from pathlib import Path
import apsw
from vaultmem.service.application import open_memory
from vaultmem.service.operations.index import IndexRequest, index
from vaultmem.service.settings import load_settings
vault, cache, room = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
checked = sys.argv[4]
beneath = apsw.vfs_names()[0]

class File(apsw.VFSFile):
    def xWrite(self, data, offset):
        global room
        if self.counts:
            room -= 1
            if room < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        super().xWrite(data, offset)

class Layer(apsw.VFS):
    def __init__(self):
        super().__init__("dying", base=beneath, makedefault=True)

    def xOpen(self, name, flags):
        file = File(beneath, name, flags)
        file.counts = bool(flags[0] & apsw.SQLITE_OPEN_MAIN_DB)
        return file

layer = Layer()
if checked == "checked":  # above it, so that what it puts at the end of a page stays there
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(
        str(Path(apsw.__file__).with_name("sqlite_extra_binaries") / "cksumvfs")
    )
memory = open_memory(load_settings(vault, cache))
index(memory, IndexRequest())
"""


def die_in_a_commit(memory: Memory, writes: int) -> None:
    """Index in a process that is killed after so many pages of the sidecar were written."""
    memory.close()
    environment = {
        **os.environ,
        **chosen("delete"),
        "VAULTMEM_EMBEDDER_NAME": "none",
        "VAULTMEM_STATE_DIR": str(memory.settings.state_folder.parent),
    }
    ended = subprocess.run(
        [
            *(sys.executable, "-c", DIE_IN_A_COMMIT),
            *(str(memory.vault), str(memory.folder.parent), str(writes)),
            "checked" if driver()[3] else "plain",
        ],
        env=environment,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL


LONG = "Clay, and water, and a wheel. " * 300


@pytest.fixture
def half_written(open_vault: Open, run_index: Run) -> Callable[[int], Memory]:
    """A vault whose sidecar was left by a process that died while it changed it."""

    def make(writes: int) -> Memory:
        notes = {f"note {i}.md": f"# Note {i}\n\nBefore. {LONG}" for i in range(12)}
        memory = open_vault(notes, environment={**chosen("delete"), **NOT_REFRESHED})
        run_index(memory)
        memory.close()
        before = (memory.folder / SIDECAR_NAME).read_bytes()
        for i in range(12):
            (memory.vault / f"note {i}.md").write_text(f"# Note {i}\n\nAfter {i}. {LONG}")
        die_in_a_commit(memory, writes)
        file = memory.folder / SIDECAR_NAME
        assert file.read_bytes() != before
        assert Path(f"{file}-journal").read_bytes()[:8] == b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
        return memory

    return make


NOT_REFRESHED = {"VAULTMEM_SEARCH_REFRESH": "never"}

unix_only = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")


@unix_only
@pytest.mark.parametrize("writes", [1, 3, 9, 25])
@pytest.mark.parametrize("check", [True, False])
def test_a_commit_that_was_cut_short_is_undone_by_the_next_who_opens_the_sidecar(
    writes: int,
    check: bool,
    half_written: Callable[[int], Memory],
    find: Find,
    assert_equals_rebuild: Compare,
    run_index: Run,
) -> None:
    memory = half_written(writes)
    opened = open_existing(memory.folder, memory.fingerprint, check=check, journal="delete")
    assert opened is not None
    assert opened.quick_check() == "ok"
    opened.close()
    assert SIDECAR_NAME + "-journal" not in names_in(memory.folder)
    texts = [text for (text,) in the_sidecar(memory).connection.execute("SELECT text FROM chunk")]
    assert len(texts) >= 12
    whole = {"Before" in text or "After" not in text for text in texts}
    assert whole == {True} if writes == 1 else True in whole
    assert run_index(memory).notes.changed > 0
    assert_equals_rebuild(memory)


@unix_only
def test_half_a_commit_is_not_shown_where_it_cannot_be_undone(
    half_written: Callable[[int], Memory],
) -> None:
    memory = half_written(5)
    file = memory.folder / SIDECAR_NAME
    read_only = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with pytest.raises(apsw.ReadOnlyError):
        apsw.Connection(read_only_uri(file), flags=read_only).execute("SELECT * FROM meta")
    # The control: as something that nobody changes it would be believed as it lies there.
    torn = apsw.Connection(f"{file.as_uri()}?mode=ro&immutable=1", flags=read_only)
    found: list[str] = []
    try:
        found += [str(row[0]) for row in torn.execute("PRAGMA integrity_check")]
        torn.execute("INSERT INTO passage_text (passage_text, rank) VALUES ('integrity-check', 0)")
    except (apsw.CorruptError, apsw.ReadOnlyError, apsw.IOError):
        found.append("broken")
    torn.close()
    assert found != ["ok"]


@unix_only
@checked
def test_damage_in_a_journal_is_not_given_a_checksum_that_fits(
    half_written: Callable[[int], Memory],
) -> None:
    memory = half_written(9)
    file = Path(f"{memory.folder / SIDECAR_NAME}-journal")
    data = bytearray(file.read_bytes())
    # SQLite sums up every two hundredth byte of a page there.
    at = data.index(b"Before")
    data[at : at + 6] = b"beforE"
    file.write_bytes(data)
    opened = open_existing(memory.folder, memory.fingerprint, journal="delete")
    assert opened is not None
    with pytest.raises(SidecarDamaged), sidecar_errors(memory.folder):
        opened.connection.execute("SELECT * FROM chunk").fetchall()
    opened.close()


# A sidecar with a log where there may be none

LEAVE_A_LOG = """
import os, sys
from pathlib import Path
from vaultmem.embedding.cache import Row, open_cache
from vaultmem.embedding.embedder import Space
from vaultmem.index.store import create
folder = Path(sys.argv[1])
sidecar = create(folder, "rules", journal="wal")
sidecar.set_meta("mark", "in the log")
cache = open_cache(folder, create=True, journal="wal")
space = cache.add(Space("maker", "model", "digest", 4, "", ""), "rules")
cache.put(space.id, [Row(n.to_bytes(16, "big"), bytes([n + 1] * 4), None) for n in range(50)])
print(cache.id, flush=True)
os._exit(0)
"""


def leave_a_log(folder: Path) -> str:
    """A sidecar and a cache of a process that was killed; the cache's id."""
    said = subprocess.run(
        [sys.executable, "-c", LEAVE_A_LOG, str(folder)], capture_output=True, text=True, check=True
    )
    for name in (SIDECAR_NAME, CACHE_NAME):
        assert (folder / f"{name}-wal").stat().st_size > 0
    return said.stdout.strip()


def moved(folder: Path, to: Path) -> None:
    """Move the files, and what a disk without shared memory would not have is not there."""
    to.mkdir()
    for name in (SIDECAR_NAME, CACHE_NAME):
        for suffix in ("", "-wal"):
            shutil.move(folder / f"{name}{suffix}", to / f"{name}{suffix}")


@contextmanager
def made_there(folder: Path) -> Iterator[list[str]]:
    """The names of what is made in a folder meanwhile: inotify(7)."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    assert descriptor >= 0
    created, names = 0x100, list[str]()
    assert libc.inotify_add_watch(descriptor, os.fsencode(folder), created) >= 0
    try:
        yield names
        data = b""
        try:
            data = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            assert names == []
        while data:
            (length,) = struct.unpack_from("=12xI", data)
            names.append(os.fsdecode(data[16 : 16 + length].rstrip(b"\0")))
            data = data[16 + length :]
    finally:
        os.close(descriptor)


@on_linux
def test_a_sidecar_with_a_log_is_not_opened_where_there_may_be_none(tmp_path: Path) -> None:
    leave_a_log(tmp_path)
    moved(tmp_path, tmp_path / "share")
    there = tmp_path / "share"
    before = {path.name: path.read_bytes() for path in there.iterdir()}
    with made_there(there) as names:
        assert open_existing(there, "rules", journal="delete") is None
        assert stored_meta(there, "mark", journal="delete") is None
    assert names == []
    assert {path.name: path.read_bytes() for path in there.iterdir()} == before
    with made_there(there) as names:  # the control
        assert stored_meta(there, "mark", journal="wal") == "in the log"
    assert SIDECAR_NAME + "-shm" in names


def test_a_sidecar_with_a_log_is_made_anew_where_there_may_be_none(
    open_vault: Open, run_index: Run, find: Find
) -> None:
    memory = open_vault(NOTES, environment=chosen("wal"))
    run_index(memory)
    memory.close()
    elsewhere = open_vault(environment=chosen("delete"))
    assert find(elsewhere, "fired") == ["Kiln.md"]
    assert made_with(elsewhere.folder / SIDECAR_NAME) == "delete"
    assert names_in(elsewhere.folder) == {SIDECAR_NAME}
    assert run_index(elsewhere).notes.unchanged == 3


@on_linux
def test_remembered_settings_are_not_read_through_a_log_that_may_not_be(
    open_vault: Open, run_index: Run
) -> None:
    app = ".obsidian/app.json"
    memory = open_vault({**NOTES, app: '{"userIgnoreFilters": ["Drafts/"]}'})
    run_index(memory)
    memory.close()
    broken = {app: '{"userIgnoreFilters": ['}
    with made_there(memory.folder) as names:
        assert open_vault(broken, environment=chosen("delete")).obsidian.excluded == ()
    assert names == []
    with made_there(memory.folder) as names:  # the control
        assert open_vault(environment=chosen("wal")).obsidian.excluded == ("Drafts/",)
    assert SIDECAR_NAME + "-shm" in names


def test_a_sidecar_without_a_log_stays_as_it_is_until_it_is_made_anew(
    open_vault: Open, run_index: Run
) -> None:
    memory = open_vault(NOTES, environment=chosen("delete"))
    run_index(memory)
    memory.close()
    back = open_vault()
    assert run_index(back).notes.unchanged == 3
    assert made_with(back.folder / SIDECAR_NAME) == "delete"
    back.close()
    index(back, IndexRequest(rebuild=True))
    assert made_with(back.folder / SIDECAR_NAME) == "wal"


# The cache of embeddings


def kept(cache: EmbeddingCache) -> list[int]:
    (space,) = cache.spaces()
    return [codes[0] for _, codes, _ in cache.rows(space.id, 0)]


@BOTH
def test_a_new_cache_has_the_journal_that_was_asked_for(mode: Wish, tmp_path: Path) -> None:
    cache = open_cache(tmp_path, create=True, journal=mode)
    assert cache is not None
    space = cache.add(Space("maker", "model", "digest", 4, "", ""), "rules")
    cache.put(space.id, [Row(bytes(16), b"\1\2\3\4", None)])
    assert cache.query("PRAGMA journal_mode", ()) == [(mode,)]
    assert cache.query("PRAGMA synchronous", ()) == [(SYNCHRONOUS[mode],)]
    assert cache.query("PRAGMA secure_delete", ()) == [(1,)]
    assert (CACHE_NAME + "-shm" in names_in(tmp_path)) is (mode == "wal")
    cache.close()
    assert made_with(tmp_path / CACHE_NAME) == mode
    assert names_in(tmp_path) == {CACHE_NAME}


@BOTH
def test_the_setting_holds_for_the_cache_as_well(
    mode: str, open_vault: Open, run_index: Run
) -> None:
    memory = open_vault(NOTES, environment=chosen(mode))
    run_index(memory)
    assert memory.open_cache(create=True) is not None
    assert made_with(memory.folder / CACHE_NAME) == mode


@on_linux
@pytest.mark.parametrize("create", [True, False], ids=["by a writer", "by a reader"])
def test_a_cache_with_a_log_gives_it_up_without_losing_a_row_or_sharing_memory(
    create: bool, tmp_path: Path
) -> None:
    leave_a_log(tmp_path)
    moved(tmp_path, tmp_path / "share")
    there = tmp_path / "share"
    made_as = subprocess_id(there)
    with made_there(there) as names:
        cache = open_cache(there, create=create, journal="delete")
        assert cache is not None
        assert kept(cache) == list(range(1, 51))
        assert cache.id == made_as
        assert cache.query("PRAGMA integrity_check", ()) == [("ok",)]
        cache.put(cache.spaces()[0].id, [Row(b"x" * 16, b"\x63" * 4, None)])
    assert CACHE_NAME + "-shm" not in names
    assert CACHE_NAME + "-journal" in names
    assert not opens_log(there / CACHE_NAME)
    cache.close()
    again = open_cache(there, create=False, journal="delete")
    assert again is not None
    assert kept(again) == [*range(1, 51), 0x63]
    again.close()


def subprocess_id(folder: Path) -> str:
    """The id of a cache as it is known while nothing of it is opened here."""
    copy = folder.with_name("copy")
    copy.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(folder / f"{CACHE_NAME}{suffix}", copy / f"{CACHE_NAME}{suffix}")
    cache = open_cache(copy, create=False, journal="wal")
    assert cache is not None
    known_as = cache.id.partition(".")[0]
    cache.close()
    return f"{known_as}.{(folder / CACHE_NAME).stat().st_ino:x}"


OPEN_WITHOUT_A_LOG = """
import sys
from pathlib import Path
from vaultmem.embedding.cache import open_cache
print("ready", flush=True)
sys.stdin.readline()
cache = open_cache(Path(sys.argv[1]), create=True, journal="delete")
print(cache.id, len(list(cache.rows(1, 0))), flush=True)
"""


def test_processes_that_take_a_caches_log_away_at_once_all_get_its_rows(tmp_path: Path) -> None:
    made_as = leave_a_log(tmp_path)
    command = [sys.executable, "-c", OPEN_WITHOUT_A_LOG, str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == [f"{made_as} 50\n"] * 4
    assert made_with(tmp_path / CACHE_NAME) == "delete"


def test_a_cache_gets_its_log_back_from_who_writes_and_not_from_who_reads(tmp_path: Path) -> None:
    steps: list[tuple[Wish, bool, str]] = [
        ("delete", True, "delete"),
        ("wal", False, "delete"),
        ("wal", True, "wal"),
        ("delete", False, "delete"),
    ]
    for mode, writes, expected in steps:
        cache = open_cache(tmp_path, create=writes, journal=mode)
        assert cache is not None
        cache.close()
        assert made_with(tmp_path / CACHE_NAME) == expected


def test_a_log_that_others_use_is_not_taken_from_them(tmp_path: Path) -> None:
    other = open_cache(tmp_path, create=True, journal="wal")
    assert other is not None
    space = other.add(Space("maker", "model", "digest", 4, "", ""), "rules")
    other.put(space.id, [Row(bytes(16), b"\7\7\7\7", None)])
    with pytest.raises(apsw.BusyError):
        open_cache(tmp_path, create=False, journal="delete")
    other.put(space.id, [Row(b"x" * 16, b"\x08" * 4, None)])
    assert kept(other) == [7, 8]
    other.close()
    cache = open_cache(tmp_path, create=False, journal="delete")
    assert cache is not None
    assert (kept(cache), made_with(cache.path)) == ([7, 8], "delete")
    cache.close()


PUT_MANY = """
import sys
from pathlib import Path
from vaultmem.embedding.cache import Row, open_cache
from vaultmem.embedding.embedder import Space
folder, mine = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
cache = open_cache(folder, create=True, journal="delete")
space = cache.add(Space("maker", "model", "digest", 4, "", ""), "rules")
for number in range(40):
    cache.put(space.id, [Row((mine * 1000 + number).to_bytes(16, "big"), b"abcd", None)])
print(cache.id, flush=True)
"""


def test_processes_that_put_at_once_without_a_log_lose_nothing(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PUT_MANY, str(tmp_path), str(mine)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for mine in (1, 2, 3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    cache = open_cache(tmp_path, create=False, journal="delete")
    assert cache is not None
    assert said == {f"{cache.id}\n"}
    (space,) = cache.spaces()
    assert [slot for slot, _, _ in cache.rows(space.id, 0)] == list(range(120))
    cache.close()


# Where no memory can be shared though nothing said so

NO_SHARED_MEMORY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *(*map_t)(void *, size_t, int, int, int, off_t);

static void *map(const char *name, void *at, size_t n, int how, int flags, int fd, off_t from) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = fd < 0 ? -1 : readlink(link, path, sizeof path - 1);
    if ((flags & MAP_SHARED) && length > 4 && !memcmp(path + length - 4, "-shm", 4)) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    return ((map_t)dlsym(RTLD_NEXT, name))(at, n, how, flags, fd, from);
}

void *mmap(void *at, size_t n, int how, int flags, int fd, off_t from) {
    return map("mmap", at, n, how, flags, fd, from);
}

void *mmap64(void *at, size_t n, int how, int flags, int fd, off_t from) {
    return map("mmap64", at, n, how, flags, fd, from);
}
"""

USE_BOTH = """
import sys
from pathlib import Path
from vaultmem.embedding.cache import open_cache
from vaultmem.embedding.journal_mode import made_with
from vaultmem.index.store import create, open_existing
folder = Path(sys.argv[1])
sidecar = open_existing(folder, "rules") or create(folder, "rules")
print(sidecar.quick_check(), made_with(sidecar.path), sidecar.meta("mark"))
sidecar.set_meta("mark", "kept")
sidecar.close()
cache = open_cache(folder, create=True)
print(len(cache.spaces()) and len(list(cache.rows(1, 0))), made_with(cache.path))
"""


@on_linux
def test_where_no_memory_can_be_shared_a_rollback_journal_is_kept(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to build such a system with")
    source, library = tmp_path / "no_shm.c", tmp_path / "no_shm.so"
    source.write_text(NO_SHARED_MEMORY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

    def use(folder: Path, **environment: str) -> list[str]:
        ended = subprocess.run(
            [sys.executable, "-c", USE_BOTH, str(folder)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()

    ordinary, new, old = (tmp_path / name for name in ("ordinary", "new", "old"))
    for folder in (ordinary, new, old):
        folder.mkdir()
    assert use(ordinary) == ["ok wal None", "0 wal"]
    without = {"LD_PRELOAD": str(library)}
    assert use(new, **without) == ["ok delete None", "0 delete"]
    assert use(new, **without) == ["ok delete kept", "0 delete"]
    leave_a_log(old)
    assert use(old, **without) == ["ok delete None", "50 delete"]


# What looks at the file leaves the locks alone

TRY_TO_WRITE = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(0)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("written")
except apsw.BusyError:
    print("busy")
"""


@BOTH
def test_looking_at_the_header_lets_go_of_no_lock(mode: Wish, tmp_path: Path) -> None:
    def other() -> str:
        ended = subprocess.run(
            [sys.executable, "-c", TRY_TO_WRITE, str(tmp_path / SIDECAR_NAME)],
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stdout.strip()

    sidecar = create(tmp_path, "rules", journal=mode)
    with sidecar.transaction():
        sidecar.set_meta("mark", "1")
        assert made_with(sidecar.path) == mode
        assert stored_meta(tmp_path, "mark", journal=mode) is None
        assert other() == "busy"
    assert other() == "written"
    sidecar.close()


@pytest.mark.parametrize(
    "content", [b"", b"SQLite", b"SQLite format 3\0", b"No database. " * 99, bytes(8192)]
)
def test_what_is_no_database_has_no_journal(content: bytes, tmp_path: Path) -> None:
    (tmp_path / SIDECAR_NAME).write_bytes(content)
    assert made_with(tmp_path / SIDECAR_NAME) is None
    assert not opens_log(tmp_path / SIDECAR_NAME)
    assert made_with(tmp_path) is None


# What is said of it


def sqlite_check(memory: Memory) -> tuple[bool, str, str]:
    reply = status(memory, StatusRequest(checks=True))
    (found,) = [check for check in reply.checks if check.id == "sqlite"]
    return found.ok, found.detail, found.fix


def test_the_doctor_says_which_journal_is_kept_and_why(open_vault: Open, run_index: Run) -> None:
    memory = open_vault(NOTES)
    assert "write-ahead log" in sqlite_check(memory)[1]
    run_index(memory)
    ok, detail, fix = sqlite_check(memory)
    assert (ok, fix) == (True, "")
    assert detail.endswith("write-ahead log")
    memory.close()
    other = open_vault(environment=chosen("delete"))
    ok, detail, fix = sqlite_check(other)
    assert not ok
    assert "rollback journal (the setting sidecar.journal asks for it)" in detail
    assert "vaultmem index" in fix
    run_index(other)
    ok, detail, fix = sqlite_check(other)
    assert (ok, fix) == (True, "")
    assert detail.endswith("rollback journal (the setting sidecar.journal asks for it)")
    other.close()
    ok, detail, fix = sqlite_check(open_vault())
    assert ok
    assert "rollback journal; the next one is to have a write-ahead log" in detail
    assert "--rebuild" in fix

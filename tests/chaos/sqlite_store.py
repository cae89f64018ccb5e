"""SQLite: a file, on a small file system of its own where mounting is allowed."""
import os
import shutil
import sqlite3
import subprocess

from server import Store

FILE_SYSTEM_BYTES = 32 << 20


class Sqlite(Store):
    name = "sqlite"
    is_proxied = False
    has_lease_clock = False

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.path = os.path.join(folder, "store.db")
        self.has_disk = False
        self._lock = None

    def start(self):
        command = ["mount", "-t", "tmpfs", "-o", f"size={FILE_SYSTEM_BYTES},mode=0700", "none", self.folder]
        self.has_disk = shutil.which("mount") is not None and \
            subprocess.run(command, check=False, capture_output=True).returncode == 0

    def url(self, places=None, first=0):
        return f"sqlite:{self.path}?{self.lease}"

    # ---- Faults ----

    def lock(self):
        """Nobody can write while a transaction of another program goes on."""
        self._lock = sqlite3.connect(self.path, timeout=30, isolation_level=None,
                                     check_same_thread=False)
        self._lock.execute("BEGIN IMMEDIATE")

    def unlock(self):
        self._lock.execute("ROLLBACK")
        self._lock.close()

    def remove_file(self):
        for suffix in ("", "-wal", "-shm", "-wake"):
            try:
                os.unlink(self.path + suffix)
            except FileNotFoundError:
                pass

    def _ask(self, sql):
        rows = sqlite3.connect(self.path, timeout=30)
        found = rows.execute(sql).fetchall()
        rows.close()
        return [row[0] for row in found]

    def left_behind(self):
        return ["an owner: " + row
                for row in self._ask("SELECT mutex || ':' || owner_id FROM simba_mutex WHERE owner_id <> ''")]

    def waiters(self):
        return self._ask("SELECT id FROM simba_waiter NATURAL JOIN simba_mutex WHERE since > served")

    def stop(self):
        if self.has_disk:
            subprocess.run(["umount", "-l", self.folder], check=True)

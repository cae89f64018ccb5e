"""The wall clock of a process that has libchaos-wallclock.so preloaded: stepped and slewed by a file, and no other of
its clocks."""
import os
import struct

from clock import now_ns

SETTING = struct.Struct("qqq")  # offset in ns, rate in ppm, since when in ns
VALID = struct.Struct("q")


class WallClock:
    def __init__(self, path):
        self.path = path
        self._offset_ns = 0
        self._rate_ppm = 0
        self._since_ns = 0
        self._valid = 0
        self.create()

    def create(self):
        with open(self.path, "wb") as file:
            file.write(bytes(VALID.size + 2 * SETTING.size))
        os.chmod(self.path, 0o644)

    def environment(self, library):
        """Of a process that has this clock."""
        return {"LD_PRELOAD": library, "SIMBA_WALLCLOCK": self.path}

    def step(self, seconds):
        self._set(int(seconds * 1e9), self._rate_ppm, now_ns())

    def slew(self, ppm, at_ns):
        """Lets it gain so much from now on; 0: it keeps what it has gained."""
        self._set(0, ppm, at_ns)

    def _set(self, step_ns, rate_ppm, at_ns):
        self._offset_ns += (at_ns - self._since_ns) // 1000000 * self._rate_ppm + step_ns
        self._rate_ppm, self._since_ns = rate_ppm, at_ns
        self._valid = 1 - self._valid
        with open(self.path, "r+b", buffering=0) as file:
            file.seek(VALID.size + self._valid * SETTING.size)
            file.write(SETTING.pack(self._offset_ns, rate_ppm, at_ns))
            file.seek(0)
            file.write(VALID.pack(self._valid))

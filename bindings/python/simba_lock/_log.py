"""Lines of the library go to logging.getLogger("simba_lock"). A thread of the process takes them out of a ring, so that
no thread of the library ever waits for the interpreter."""
from __future__ import annotations

import logging
import os
import threading

from ._native import ffi, lib
from .values import text

logger = logging.getLogger("simba_lock")

_LEVELS = {
    lib.SIMBA_LOG_ERROR: logging.ERROR,
    lib.SIMBA_LOG_WARN: logging.WARNING,
    lib.SIMBA_LOG_INFO: logging.INFO,
    lib.SIMBA_LOG_DEBUG: logging.DEBUG,
}
_started_in = 0
_lock = threading.Lock()


def _run() -> None:
    line = ffi.new("char[512]")
    lost = ffi.new("unsigned long *")
    while True:
        level = lib.simba_python_log_next(line, lost)
        if level < 0:
            return
        if lost[0]:
            logger.warning("%d lines of the library's log were lost: they came too fast", lost[0])
        logger.log(_LEVELS.get(level, logging.INFO), "%s", text(line))


def level_wanted() -> int:
    """The least important level that the logger lets through now."""
    for level in (lib.SIMBA_LOG_DEBUG, lib.SIMBA_LOG_INFO, lib.SIMBA_LOG_WARN, lib.SIMBA_LOG_ERROR):
        if logger.isEnabledFor(_LEVELS[level]):
            return int(level)
    return int(lib.SIMBA_LOG_NONE)


def start() -> None:
    """Starts the thread, once in each process."""
    global _started_in
    with _lock:
        if _started_in == os.getpid():
            return
        if lib.simba_python_log_open() != 0:
            raise OSError("cannot make a descriptor for the log")
        threading.Thread(target=_run, name="simba-log", daemon=True).start()
        _started_in = os.getpid()


def _forget_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)

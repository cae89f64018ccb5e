"""Several processes: of Python, of C, of the shell; killed, forked, and for a long time."""
import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import tracemalloc

import pytest

import simba_lock as simba
from conftest import PATIENCE

CYCLES = int(os.environ.get("SIMBA_PYTHON_CYCLES", "500"))

THREADS = """
import sys
import simba_lock as simba
url, name, path, times = sys.argv[1:]
with simba.open(url) as client:
    lock = client.lock(name)
    for _ in range(int(times)):
        with lock:
            with open(path) as file:
                number = int(file.read())
            with open(path, "w") as file:
                file.write(str(number + 1))
"""
COROUTINES = """
import asyncio, sys
import simba_lock as simba
url, name, path, times = sys.argv[1:]

async def main():
    async with simba.open(url) as client:
        async def add():
            async with client.lock(name):
                with open(path) as file:
                    number = int(file.read())
                await asyncio.sleep(0)
                with open(path, "w") as file:
                    file.write(str(number + 1))
        await asyncio.gather(*(add() for _ in range(int(times))))

asyncio.run(main())
"""
SHELL = 'for i in $(seq "$4"); do "$SIMBA_PROGRAM" -u "$1" lock "$2" -- sh -c \'echo $(($(cat "$1") + 1)) >"$1"\' - "$3" || exit 1; done'


def test_a_mixed_fleet_loses_no_update(shared_url, name, folder):
    """Threads and coroutines of Python, a program in C, and the shell, on one number in a file."""
    path = os.path.join(folder, "number")
    with open(path, "w", encoding="utf-8") as file:
        file.write("0")
    fleet = [([sys.executable, "-c", THREADS], 15), ([sys.executable, "-c", COROUTINES], 15),
             ([os.environ["SIMBA_COUNTER"]], 15), (["sh", "-c", SHELL, "-"], 8)]
    running = [subprocess.Popen([*command, shared_url, name, path, str(times)]) for command, times in fleet]
    try:
        codes = [process.wait(PATIENCE * 5) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert codes == [0, 0, 0, 0]
    with open(path, encoding="utf-8") as file:
        assert int(file.read()) == sum(times for _, times in fleet)


FORKS = """
import gc, multiprocessing, os, sys, threading
import simba_lock as simba
url, name = sys.argv[1:]
client = simba.open(url)
lock, semaphore = client.lock(name), client.semaphore(name + "-s", 1)
lock.acquire()
semaphore.acquire()

def use():
    try:
        lock.release()
    except simba.MisuseError:
        pass
    semaphore.close()
    client.close()

def forget():
    global lock, semaphore, client
    lock = semaphore = client = None
    gc.collect()

context = multiprocessing.get_context("fork")
for work in (use, forget, sys.exit):
    child = context.Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0, work
child = os.fork()
if child == 0:
    sys.exit(0)  # through all that runs at the end of an interpreter
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
lock.check()
semaphore.check()
assert client.status(name)[0].owner.id == lock.id
assert client.status(name + "-s#0")[0].owner is not None
print("held")
"""


def test_children_of_multiprocessing_release_nothing(shared_url, name):
    result = subprocess.run([sys.executable, "-c", FORKS, shared_url, name], capture_output=True, text=True,
                            timeout=PATIENCE * 3, check=False)
    assert (result.returncode, result.stdout) == (0, "held\n"), result.stderr


# ---- For a long time -----------------------------------------------------------------------------


class Mallinfo2(ctypes.Structure):
    _fields_ = [(field, ctypes.c_size_t) for field in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks",
                                                       "fsmblks", "uordblks", "fordblks", "keepcost")]


def in_use():
    """Bytes that the C library has given out, to the interpreter and to everybody else."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo2
    found = libc.mallinfo2()
    return found.uordblks + found.hblkhd


def with_one_lock(client, count):
    lock = client.lock("leak")
    for _ in range(count):
        with lock:
            pass


def with_new_locks(client, count):
    for _ in range(count):
        with client.lock("leak"):
            pass


def with_coroutines(client, count):
    async def main():
        for _ in range(count):
            async with client.lock("leak"):
                pass

    asyncio.run(main())


def with_loops(client, count):
    for _ in range(count // 20):
        with_coroutines(client, 1)


def with_cancelled_waits(client, count):
    async def main():
        async with client.lock("leak"):
            for _ in range(count // 10):
                try:
                    async with asyncio.timeout(0.0005):
                        await client.lock("leak").acquire_async()
                except TimeoutError:
                    pass

    asyncio.run(main())


def with_semaphores_and_sets(client, count):
    for _ in range(count // 10):
        with client.semaphore("leak-s", 2), client.lock_all("leak-1", "leak-2"):
            pass


def with_watches(client, count):
    for _ in range(count // 10):
        with client.lock("leak"):
            for _ in client.watch("leak"):
                break


def with_clients(client, count):
    for _ in range(count // 20):
        with simba.open("memory:leak") as other, other.lock("leak"):
            pass


def is_flat(grown):
    objects, descriptors, memory = grown
    return objects < 30_000 and descriptors <= 0 and memory < 150_000


@pytest.mark.parametrize("work", [with_one_lock, with_new_locks, with_coroutines, with_loops, with_cancelled_waits,
                                  with_semaphores_and_sets, with_watches, with_clients])
def test_nothing_leaks(client, work):
    """Objects, descriptors, and the memory of the library, which tracemalloc does not see."""
    count = max(CYCLES, 100)

    def measure():
        gc.collect()
        return tracemalloc.get_traced_memory()[0], len(os.listdir("/proc/self/fd")), in_use()

    def grown_by_work():
        before = measure()
        work(client, count)
        return [now - then for now, then in zip(measure(), before)]

    tracemalloc.start()
    try:
        work(client, count)
        rounds = [grown_by_work()]
        while not is_flat(rounds[-1]) and len(rounds) < 3:  # a connection may be opened late, once
            rounds.append(grown_by_work())
    finally:
        tracemalloc.stop()
    assert is_flat(rounds[-1]), rounds

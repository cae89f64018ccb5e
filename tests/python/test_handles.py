"""Whatever is closed, forked or at its end answers, and never with memory that was freed."""
import asyncio
import gc
import inspect
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import simba_lock as simba
import watchful
from conftest import PATIENCE, Memory
from simba_lock._native import lib

REFUSED = simba.MisuseError
LOST = simba.LockLost


def run_coroutine(function):
    async def main():
        return await function()

    return asyncio.run(main())


# What each public name does when the object is closed: the exception, or the answer.
AFTER_CLOSE = {
    simba.Lock: {
        "name": (lambda lock: lock.name, str),
        "held": (lambda lock: lock.held, False),
        "fence": (lambda lock: lock.fence, LOST),
        "remaining": (lambda lock: lock.remaining, 0.0),
        "slot": (lambda lock: lock.slot, -1),
        "fence_of": (lambda lock: lock.fence_of("a"), LOST),
        "check": (lambda lock: lock.check(), LOST),
        "acquire": (lambda lock: lock.acquire(1), REFUSED),
        "try_acquire": (lambda lock: lock.try_acquire(), REFUSED),
        "release": (lambda lock: lock.release(), REFUSED),
        "owner": (lambda lock: lock.owner(), None),
        "releasing": (lambda lock: lock.releasing().__exit__(None, None, None), REFUSED),
        "acquire_async": (lambda lock: run_coroutine(lock.acquire_async), REFUSED),
        "release_async": (lambda lock: run_coroutine(lock.release_async), REFUSED),
        "id": (lambda lock: lock.id, REFUSED),
        "close": (lambda lock: lock.close(), None),
    },
    simba.Client: {
        "handle": None,  # for the package's own modules
        "close": (lambda client: client.close(), None),
        "add": None, "hold": None, "let_go": None, "forget": None, "listen": None,
        "pump": (lambda client: client.pump(), None),
        "pump_if_free": (lambda client: client.pump_if_free(), None),
        "attach": (lambda client: run_coroutine(lambda: _attach(client)), REFUSED),
        "start_thread": (lambda client: client.start_thread(), REFUSED),
        "lock": (lambda client: client.lock("x"), REFUSED),
        "semaphore": (lambda client: client.semaphore("x", 2), REFUSED),
        "lock_all": (lambda client: client.lock_all("x", "y"), REFUSED),
        "leader": (lambda client: run_coroutine(client.leader("x")(_nothing).run), REFUSED),
        "watch": (lambda client: client.watch("x"), REFUSED),
        "status": (lambda client: client.status(), REFUSED),
        "queue": (lambda client: client.queue("x"), REFUSED),
        "force_release": (lambda client: client.force_release("x"), REFUSED),
    },
    simba.Watch: {"close": (lambda watch: watch.close(), None)},
    simba.Leader: {
        "is_leader": (lambda leader: leader.is_leader, False),
        "close": (lambda leader: leader.close(), None),
        "run": (lambda leader: run_coroutine(leader.run), REFUSED),
    },
    simba.Term: {
        "is_leader": (lambda term: term.is_leader, False),
        "check": (lambda term: term.check(), LOST),
    },
}


async def _attach(client):
    client.attach(asyncio.get_running_loop())


async def _nothing(term):
    return None


def check_answers(kind, made, different=()):
    for name, row in AFTER_CLOSE[kind].items():
        if row is None or name in different:
            continue
        call, expected = row
        if isinstance(expected, type) and issubclass(expected, Exception):
            try:
                call(made)
            except expected:
                continue
            raise AssertionError(f"{kind.__name__}.{name} was not refused")
        answer = call(made)
        assert answer == expected or isinstance(expected, type) and isinstance(answer, expected), (kind, name, answer)


@pytest.fixture
def native(monkeypatch):
    seen = watchful.install(monkeypatch)
    yield seen
    gc.collect()
    assert seen.faults == []


@pytest.mark.parametrize("kind", AFTER_CLOSE, ids=lambda kind: kind.__name__)
def test_each_public_name_has_an_answer_after_close(kind):
    names = {name for name, value in vars(kind).items()
             if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))}
    assert names == set(AFTER_CLOSE[kind])


def kinds_of_lock(client, name):
    return [client.lock(name), client.lock(name + "-id", id="its own"), client.semaphore(name + "-s", 2),
            client.lock_all(name + "-1", name + "-2")]


@pytest.mark.parametrize("used", ["new", "held", "released", "held by a coroutine"])
@pytest.mark.parametrize("closed", ["the lock", "the client"])
def test_a_closed_lock_answers(memory, native, name, used, closed):
    with simba.open(Memory().url) as client:
        locks = kinds_of_lock(client, name)
        for lock in locks:
            if used in ("held", "released"):
                lock.acquire(PATIENCE)
            if used == "released":
                lock.release()
        if used == "held by a coroutine":
            async def main():
                await asyncio.gather(*(lock.acquire_async(PATIENCE) for lock in locks))
            asyncio.run(main())
        for lock in locks:
            if closed == "the lock":
                lock.close()
        if closed == "the client":
            client.close()
        for lock in locks:
            check_answers(simba.Lock, lock)
        if closed == "the lock":
            assert [entry for entry in client.status() if entry.owner is not None] == []


def test_a_closed_client_a_watch_and_a_leader_answer(native, name):
    client = simba.open(Memory().url)
    terms = []

    @client.leader(name)
    async def leader(term):
        terms.append(term)

    asyncio.run(leader.run())
    client.lock(name).acquire()
    watch = client.watch(name)
    assert next(watch).mutex == name
    client.close()
    check_answers(simba.Client, client)
    check_answers(simba.Watch, watch)
    check_answers(simba.Leader, leader)
    check_answers(simba.Term, terms[0])
    for _ in watch:
        pass
    with pytest.raises(StopIteration):
        next(watch)


def use_at_random(client, locks, seed, done):
    draw = random.Random(seed)
    uses = [
        lambda lock: lock.acquire(draw.random() * 0.02), lambda lock: lock.try_acquire(), lambda lock: lock.release(),
        lambda lock: lock.held, lambda lock: lock.remaining, lambda lock: lock.fence, lambda lock: lock.id,
        lambda lock: lock.slot, lambda lock: lock.owner(), lambda lock: repr(lock), lambda lock: lock.fence_of("a"),
        lambda lock: client.status(), lambda lock: client.queue("a"), lambda lock: client.force_release("a"),
        lambda lock: client.watch("a").close(), lambda lock: client.lock("a").try_acquire(),
        lambda lock: client.semaphore("s", 2).acquire(0.01), lambda lock: client.close() if done.is_set() else None,
    ]
    while not done.is_set() or draw.random() > 0.02:
        lock = draw.choice(locks)
        if draw.random() < 0.02:
            lock.close()  # others still use it
        try:
            draw.choice(uses)(lock)
        except (simba.SimbaError, StopIteration):
            pass


def use_in_coroutines(client, locks, seed, done):
    draw = random.Random(seed)

    async def work():
        while not done.is_set():
            try:
                lock = draw.choice(locks) if draw.random() < 0.5 else client.lock("a")
                async with asyncio.timeout(draw.random() * 0.02):
                    await lock.acquire_async()
                    assert isinstance(lock.held, bool)
                    await lock.release_async()
            except (simba.SimbaError, TimeoutError):
                await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(work() for _ in range(6)))

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(4))
def test_a_close_meets_the_uses_of_other_threads(native, seed):
    url = Memory().url
    client, done, failed = simba.open(url), threading.Event(), []
    locks = [client.lock("a"), client.lock("b", id="one"), client.semaphore("s", 2), client.lock_all("a", "b"),
             client.lock("a"), client.lock("c")]

    def run(use, number):
        try:
            use(client, locks, seed * 100 + number, done)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=run, args=[use_at_random, number]) for number in range(4)]
    threads += [threading.Thread(target=run, args=[use_in_coroutines, 10 + number]) for number in range(2)]
    threads.append(threading.Thread(target=lambda: list(client.watch("nobody"))))
    for thread in threads:
        thread.start()
    time.sleep(0.4)
    threading.Timer(0.02, done.set).start()
    client.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert failed == []
    assert native.calls["simba_client_close"] == 1
    check_answers(simba.Client, client)


def test_a_cancelled_acquire_closes_nothing_that_another_thread_releases(memory, native, name, monkeypatch):
    lock, won, inside, go_on = memory.semaphore(name, 1), threading.Event(), threading.Event(), threading.Event()
    over, seen, release, abandon = threading.Event(), lock._won, native.simba_locker_release, lock._abandon

    def wait_after_win():
        seen()
        won.set()
        go_on.wait(PATIENCE)

    def release_late(*arguments):
        inside.set()
        over.wait(0.5)  # a close can come in between
        return lib.simba_locker_release(*arguments)

    monkeypatch.setattr(lock, "_won", wait_after_win)
    monkeypatch.setattr(lock, "_abandon", lambda user: (abandon(user), over.set()))
    native.simba_locker_release = lambda *arguments: native._call("simba_locker_release", release_late, arguments)
    thread = threading.Thread(target=lock.release)

    async def main():
        task = asyncio.ensure_future(lock.acquire_async(PATIENCE))
        await asyncio.to_thread(won.wait, PATIENCE)
        thread.start()
        await asyncio.to_thread(inside.wait, PATIENCE)
        task.cancel()
        await asyncio.wait({task})
        go_on.set()
        await asyncio.to_thread(thread.join, PATIENCE)

    asyncio.run(main())
    native.simba_locker_release = release
    assert not thread.is_alive() and not lock.held
    with lock:
        assert lock.held


def test_a_child_of_fork_gets_answers_at_once(name):
    """Also if threads of the parent were inside of the package at the fork."""
    client, done = simba.open(Memory().url), threading.Event()
    held = client.lock(name)
    held.acquire()
    locks = [held, client.lock(name), client.semaphore("s", 2)]
    watch = client.watch(name)
    threads = [threading.Thread(target=use_at_random, args=[client, [client.lock("x"), locks[1]], number, done])
               for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    signal.alarm(20)
                    for lock in locks:
                        check_answers(simba.Lock, lock, {"acquire_async", "release_async"})
                    check_answers(simba.Client, client, {"attach", "leader"})
                    watch.close()
                    code = 0
                except BaseException:
                    sys.excepthook(*sys.exc_info())
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert held.held
    finally:
        done.set()
        for thread in threads:
            thread.join(PATIENCE)
        held.close()
        client.close()


# ---- The end of the interpreter -------------------------------------------------------------------

AT_EXIT = {
    "held": "lock.acquire()",
    "held by a coroutine": "asyncio.run(lock.acquire_async())",
    "all kinds": """
lock.acquire()
semaphore = client.semaphore(name + "-s", 2)
semaphore.acquire()
both = client.lock_all(name + "-1", name + "-2")
asyncio.run(both.acquire_async())
watch = client.watch(name)
next(watch)
circle = [lock, semaphore, both, watch, client]
circle.append(circle)
""",
    "a thread waits": """
lock.acquire()
def wait():
    try:
        client.lock(name).acquire()
    except simba.SimbaError:
        pass
threading.Thread(target=wait, daemon=True).start()
while client.queue(name) == []:
    time.sleep(0.002)
""",
    "a coroutine is left": """
lock.acquire()
loop = asyncio.new_event_loop()
async def wait():
    await client.lock(name).acquire_async()
task = loop.create_task(wait())
async def look():
    while client.queue(name) == []:
        await asyncio.sleep(0.002)
loop.run_until_complete(look())
task._log_destroy_pending = False
""",
    "an exit inside": "lock.__enter__(); sys.exit(0)",
    "an object that uses it in __del__": """
lock.acquire()
class Late:
    def __del__(self):
        for use in (lambda: lock.held, lambda: lock.release(), lambda: client.status(), lambda: lock.close(), client.close):
            try:
                use()
            except simba.SimbaError:
                pass
late = Late()
late.itself = late
sys.modules["kept"] = late
""",
}


@pytest.mark.parametrize("what", AT_EXIT)
def test_the_end_of_the_interpreter_releases(shared_url, name, what):
    script = ("import asyncio, sys, threading, time\nimport simba_lock as simba\n"
              "client, name = simba.open(sys.argv[1]), sys.argv[2]\nlock = client.lock(name)\n" + AT_EXIT[what])
    result = subprocess.run([sys.executable, "-c", script, shared_url, name], capture_output=True, text=True,
                            timeout=PATIENCE * 2, check=False, env=dict(os.environ, MALLOC_PERTURB_="165"))
    assert result.returncode == 0, result.stderr
    assert not re.search("Traceback|Exception|not closed", result.stderr), result.stderr
    with simba.open(shared_url) as client:
        for other in (name, name + "-s", name + "-s#0", name + "-s#1", name + "-1", name + "-2"):
            for entry in client.status(other):
                assert entry.owner is None, other
            assert client.queue(other) == []


# ---- Signals --------------------------------------------------------------------------------------


def test_a_handler_that_closes_inside_of_a_wait_is_refused(memory, name):
    with memory.lock(name) as lock:
        waiter = memory.lock(name)
        before = signal.signal(signal.SIGUSR1, lambda *ignored: memory.close())
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        timer.start()
        try:
            with pytest.raises(simba.MisuseError, match="signal"):
                waiter.acquire(PATIENCE)
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)
        assert lock.held and memory.queue(name) == []


def test_a_handler_may_close_between_calls(memory, name):
    lock = memory.lock(name)
    lock.acquire()
    before = signal.signal(signal.SIGUSR1, lambda *ignored: memory.close())
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    check_answers(simba.Lock, lock)


def test_a_second_interrupt_does_not_end_the_clean_up(memory, name, monkeypatch):
    waiter = memory.lock(name)
    give_back, main = waiter._give_back, threading.main_thread().ident

    def interrupt_again(user):
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.05)
        give_back(user)

    with memory.lock(name):
        monkeypatch.setattr(waiter, "_give_back", interrupt_again)
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            waiter.acquire(PATIENCE)
        timer.join()
    end = time.monotonic() + PATIENCE
    while waiter._in_use is not None:
        assert time.monotonic() < end
        time.sleep(0.002)
    waiter.acquire(PATIENCE)
    waiter.release()


STORM = """
import os, random, signal, sys, threading, time
import simba_lock as simba
url, name = sys.argv[1:]
draw = random.Random(7)
client, looker = simba.open(url), simba.open(url)
rival, end = looker.lock(name), time.monotonic() + 2.0
armed = False

def interrupt(*ignored):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)

def annoy():
    while time.monotonic() < end:
        time.sleep(draw.random() * 0.01)
        os.kill(os.getpid(), signal.SIGINT)

def compete():
    while time.monotonic() < end:
        rival.acquire()
        time.sleep(draw.random() * 0.005)
        rival.release()

threads = [threading.Thread(target=annoy), threading.Thread(target=compete)]
for thread in threads:
    thread.start()
locks, ends, wins = [client.lock(name) for _ in range(3)], 0, 0
while time.monotonic() < end:
    lock = draw.choice(locks)
    try:
        armed = True
        try:
            lock.acquire(1)
            won = True
        finally:
            armed = False
    except KeyboardInterrupt:
        ends += 1
        won = lock.held  # the last instant of acquire belongs to the caller
    except simba.Contended:
        won = False
    if won:
        wins += 1
        lock.release()
for thread in threads:
    thread.join()
assert ends > 10 and wins > 10, (ends, wins)
wait = time.monotonic() + 20
while client.status(name)[0].owner is not None or client.queue(name) != []:
    assert time.monotonic() < wait, (client.status(name), client.queue(name))
    time.sleep(0.01)
assert all(not lock.held for lock in locks)
"""


def test_a_storm_of_interrupts_leaves_nothing(shared_url, name):
    result = subprocess.run([sys.executable, "-c", STORM, shared_url, name], capture_output=True, text=True,
                            timeout=PATIENCE * 3, check=False)
    assert result.returncode == 0, result.stderr
    assert not re.search("Traceback|Exception|not closed", result.stderr), result.stderr

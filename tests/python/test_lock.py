"""Locks for threads."""
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import simba_lock as simba
from conftest import LEASE, PATIENCE

HOLD = """
import sys, time
import simba_lock as simba
client = simba.open(sys.argv[1])
lock = client.lock(sys.argv[2])
lock.acquire(20)
print(lock.fence, flush=True)
time.sleep(600)
"""


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_one_holds_and_the_next_follows(client, name):
    first, second = client.lock(name), client.lock(name)
    with first:
        assert first.held and first.fence > 0 and 0 < first.remaining <= 1
        fence = first.fence
        assert second.try_acquire() is False
        with pytest.raises(simba.Timeout) as failure:
            second.acquire(0.1)
        assert name in str(failure.value)
        assert isinstance(failure.value, TimeoutError)
    assert not first.held and first.remaining == 0
    with second:
        assert second.fence > fence
    assert client.status(name)[0].owner is None


def test_a_waiter_is_served_when_the_holder_releases(client, name):
    holder, times = client.lock(name), []

    def work():
        with client.lock(name, timeout=PATIENCE) as lock:
            times.append(lock.fence)

    holder.acquire()
    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: client.status(name)[0].waiters in (None, 1))
    fence = holder.fence
    holder.release()
    thread.join(PATIENCE)
    assert times and times[0] > fence


def test_the_main_thread_waits_too(client, name):
    holder = client.lock(name)
    holder.acquire()
    timer = threading.Timer(0.2, holder.release)
    timer.start()
    with client.lock(name, timeout=PATIENCE) as lock:
        lock.check()
    timer.join()


def test_a_lost_lease_is_told(client, name):
    lock = client.lock(name)
    lock.acquire()
    assert client.force_release(name).id == lock.id
    wait_until(lambda: not lock.held)
    with pytest.raises(simba.LockLost):
        lock.check()
    with pytest.raises(simba.LockLost):
        _ = lock.fence
    with pytest.raises(simba.LockLost):
        lock.release()
    lock.acquire()
    lock.release()


def test_a_loss_does_not_hide_the_error_of_the_work(memory, name):
    with pytest.raises(ZeroDivisionError) as failure:
        with memory.lock(name) as lock:
            memory.force_release(name)
            wait_until(lambda: not lock.held)
            1 / 0
    assert "release failed" in failure.value.__notes__[0]


def test_misuse_is_refused(memory, name):
    lock = memory.lock(name)
    with pytest.raises(simba.MisuseError):
        lock.release()
    with lock:
        with pytest.raises(simba.MisuseError):
            lock.acquire()
    for bad in ("", " ", "x" * 300, name + "\0"):
        with pytest.raises(simba.ConfigError):
            memory.lock(bad).acquire()
    for call in (memory.status, memory.queue, memory.force_release, memory.watch):
        with pytest.raises(simba.ConfigError):
            call(name + "\0")
    with pytest.raises(simba.ConfigError):
        lock.acquire(-1)
    memory.close()
    memory.close()
    with pytest.raises(simba.MisuseError):
        lock.acquire()
    with pytest.raises(simba.MisuseError):
        memory.status()


def test_errors_are_sorted_by_what_to_do(started, monkeypatch):
    with pytest.raises(simba.StoreUnavailable) as failure:
        simba.open("redis://127.0.0.1:1")
    assert isinstance(failure.value, ConnectionError) and failure.value.code < 0
    with pytest.raises(simba.ConfigError):
        simba.open("nosuchstore://x")
    with pytest.raises(simba.ConfigError):
        simba.open("memory:x", config="x.yaml")
    with pytest.raises(simba.ConfigError):
        simba.open("memory:x\0y")
    monkeypatch.delenv("SIMBA_URL", raising=False)
    with pytest.raises(simba.ConfigError):
        simba.open()
    monkeypatch.setenv("SIMBA_URL", "memory:from-environment")
    simba.open().close()


def test_a_credential_that_is_refused(started, shared_url):
    denied = getattr(next(store for store in started.values() if store.url == shared_url), "denied_url", None)
    if denied is None:
        pytest.skip("a file has no users")
    with pytest.raises(simba.AccessDenied) as failure:
        simba.open(denied)
    assert isinstance(failure.value, PermissionError) and "wr0ng" not in str(failure.value)


def test_a_held_lock_is_not_collected(client, name):
    client.lock(name).acquire()
    gc.collect()
    assert client.status(name)[0].owner is not None
    assert client.lock(name).try_acquire() is False


def test_closing_the_client_releases(url, name):
    if url.startswith("memory:"):
        keeper = simba.open(url)  # a store in memory ends with its last client
    client = simba.open(url)
    client.lock(name).acquire()
    client.close()
    with simba.open(url) as other:
        assert other.status(name)[0].owner is None
    if url.startswith("memory:"):
        keeper.close()


def test_threads_exclude_each_other(client, name):
    inside, most, turns = [0], [0], [0]

    def work():
        lock = client.lock(name)
        for _ in range(10):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                turns[0] += 1
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * 3)
    assert most == [1] and turns == [80]


def test_other_threads_run_while_one_waits(memory, name):
    with memory.lock(name):
        waiter = threading.Thread(target=lambda: memory.lock(name).acquire(PATIENCE))
        waiter.start()
        began, steps = time.monotonic(), 0
        while time.monotonic() - began < 0.2:
            steps += 1
        assert waiter.is_alive() and steps > 1000
    waiter.join(PATIENCE)
    assert not waiter.is_alive()


def test_an_interrupt_ends_a_wait_at_once(memory, name):
    holder = memory.lock(name)
    threading.Thread(target=holder.acquire).start()
    wait_until(lambda: holder.held)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    waiter = memory.lock(name)
    with pytest.raises(KeyboardInterrupt):
        waiter.acquire(PATIENCE)
    timer.join()
    wait_until(lambda: memory.queue(name) == [])
    assert holder.held
    holder.release()
    waiter.acquire(PATIENCE)
    waiter.release()


def test_a_child_of_fork_releases_nothing(shared_url, name):
    if shared_url.startswith("sqlite:"):
        pytest.skip("SQLite has no clients in a child of fork")
    with simba.open(shared_url) as client:
        lock = client.lock(name)
        lock.acquire()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert not lock.held
                lock.close()
                client.close()
                del lock, client
                gc.collect()
                with simba.open(shared_url) as own:
                    assert own.lock(name).try_acquire() is False
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        lock.check()
        assert client.status(name)[0].owner.id == lock.id


def start_holder(url, name):
    process = subprocess.Popen([sys.executable, "-c", HOLD, url, name], stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def test_the_next_owns_after_a_kill(shared_url, name):
    process, fence = start_holder(shared_url, name)
    try:
        with simba.open(shared_url) as client:
            lock = client.lock(name)
            assert lock.try_acquire() is False
            process.kill()
            lock.acquire(PATIENCE)
            assert lock.fence > fence
            lock.release()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_program_and_the_package_exclude_each_other(shared_url, name, folder):
    mark = os.path.join(folder, "mark")
    program = subprocess.Popen([os.environ["SIMBA_PROGRAM"], "-u", shared_url, "lock", name, "--", "sh", "-c",
                                f'echo "$SIMBA_FENCE" > {mark}; read line'], stdin=subprocess.PIPE)
    try:
        wait_until(lambda: os.path.exists(mark) and os.path.getsize(mark) > 0)
        with simba.open(shared_url) as client:
            lock = client.lock(name)
            assert lock.try_acquire() is False
            program.stdin.write(b"\n")
            program.stdin.close()
            lock.acquire(PATIENCE)
            with open(mark, encoding="utf-8") as file:
                assert lock.fence > int(file.read())
            lock.release()
    finally:
        assert program.wait(PATIENCE) == 0


def test_status_queue_and_watch(client, name):
    with client.watch(name) as changes:
        lock = client.lock(name)
        lock.acquire()
        owner = next(change.after for change in changes if change.after is not None)
        assert owner.id == lock.id
        waiter = threading.Thread(target=lambda: client.lock(name, id="waiter").acquire(PATIENCE))
        waiter.start()
        wait_until(lambda: [entry.id for entry in client.queue(name)] == ["waiter"])
        lock.release()
        assert next(change.after.id for change in changes
                    if change.after is not None and change.after.id != lock.id) == "waiter"
        waiter.join(PATIENCE)
        status = client.status(name)[0]
        assert status.mutex == name and status.owner.id == "waiter"


def test_one_task_at_a_time(url, name):
    with simba.open(url) as client:
        calls = []

        @simba.exclusive(name, store=client, otherwise=lambda: "busy")
        def task(value):
            calls.append(value)
            return task(value + 1) if value == 1 else value

        assert task(1) == "busy" and calls == [1]
        assert task(5) == 5

        @simba.exclusive(name, store=url)
        def strict():
            return client.lock(name).try_acquire()

        assert strict() is False
        with client.lock(name):
            with pytest.raises(simba.Contended):
                strict()


def test_a_task_that_would_run_after_the_release_is_refused():
    async def coroutine():
        pass

    def generator():
        yield

    async def both():
        yield

    for task in (coroutine, generator, both):
        with pytest.raises(simba.MisuseError, match="would be released before"):
            simba.exclusive("name")(task)


def test_the_fixture_of_the_plug_in():
    from simba_lock import pytest_plugin

    made = pytest_plugin.simba_client.__wrapped__() if hasattr(pytest_plugin.simba_client, "__wrapped__") else None
    if made is None:
        pytest.skip("this pytest hides what a fixture wraps")
    client = next(made)
    with client.lock("m") as lock:
        assert lock.held
    with pytest.raises(StopIteration):
        next(made)


def test_the_log_goes_to_logging(memory, name, caplog):
    import logging

    with caplog.at_level(logging.INFO, logger="simba_lock"):
        with simba.open(f"memory:log?{LEASE}") as client:
            with client.lock(name):
                pass
            wait_until(lambda: any(name in record.message for record in caplog.records))


def test_a_close_ends_the_wait_of_another_thread(memory, name):
    outcomes = []

    def work(lock):
        try:
            lock.acquire(PATIENCE)
        except simba.SimbaError as error:
            outcomes.append(type(error))

    with memory.lock(name):
        waiter = memory.lock(name)
        thread = threading.Thread(target=work, args=[waiter])
        thread.start()
        wait_until(lambda: memory.queue(name) != [])
        waiter.close()
        thread.join(PATIENCE)
    assert outcomes == [simba.Contended]
    assert not waiter.held and waiter.remaining == 0 and waiter.owner() is None
    with pytest.raises(simba.MisuseError):
        waiter.acquire()


def test_a_semaphore_has_so_many_holders(client, name):
    locks = [client.semaphore(name, 2) for _ in range(3)]
    locks[0].acquire(PATIENCE)
    locks[1].acquire(PATIENCE)
    assert {locks[0].slot, locks[1].slot} == {0, 1}
    with pytest.raises(simba.Contended):
        locks[2].acquire(0.3)
    freed = locks[0].slot
    locks[0].release()
    locks[2].acquire(PATIENCE)
    assert locks[2].slot == freed and locks[2].fence > 0
    locks[1].release()
    locks[2].release()
    assert locks[2].slot == -1


def test_a_set_is_all_or_nothing(client, name):
    one, two = name + "-1", name + "-2"
    with client.lock_all(two, one, timeout=PATIENCE) as both:
        assert both.fence_of(one) > 0 and both.fence_of(two) > 0
        assert client.lock(one).try_acquire() is False
    with client.lock(two):
        with pytest.raises(simba.Contended):
            client.lock_all(one, two).acquire(0.3)
        wait_until(lambda: client.status(one)[0].owner is None)
    with pytest.raises(simba.ConfigError):
        client.lock_all(one, one).acquire()

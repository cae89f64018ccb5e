"""Locks and leaders for coroutines."""
import asyncio
import random
import threading
import time
import weakref

import pytest

import simba_lock as simba
from conftest import PATIENCE


async def wait_until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


def test_coroutines_exclude_each_other(client, name):
    inside, most, turns = [0], [0], [0]

    async def work():
        lock = client.lock(name)
        for _ in range(5):
            async with lock:
                assert lock.held
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                turns[0] += 1
                await asyncio.sleep(0)
                inside[0] -= 1

    async def main():
        async with asyncio.timeout(PATIENCE * 3):
            await asyncio.gather(*(work() for _ in range(10)))

    asyncio.run(main())
    assert most == [1] and turns == [50]


def test_a_thousand_locks_in_one_loop(memory):
    threads = threading.active_count()

    async def main():
        locks = [memory.lock(f"m{i}") for i in range(1000)]
        await asyncio.gather(*(lock.acquire_async(PATIENCE) for lock in locks))
        assert all(lock.held for lock in locks)
        assert len({lock.id for lock in locks}) == 1000
        assert threading.active_count() <= threads
        await asyncio.gather(*(lock.release_async() for lock in locks))

    asyncio.run(main())
    assert all(entry.owner is None for entry in memory.status())


def test_a_wait_times_out_and_leaves_the_queue(client, name):
    async def main():
        async with client.lock(name):
            with pytest.raises(simba.Timeout):
                await client.lock(name).acquire_async(0.2)
            await wait_until(lambda: client.queue(name) == [])

    asyncio.run(main())


def mutexes_of(kind, name):
    return {"lock": [name], "semaphore": [name, name + "#0", name + "#1"], "set": [name + "-1", name + "-2"]}[kind]


def make(client, kind, name, **options):
    if kind == "semaphore":
        return client.semaphore(name, 2, **options)
    return client.lock_all(name + "-1", name + "-2", **options) if kind == "set" else client.lock(name, **options)


def is_clean(client, mutexes):
    """No owner, no waiter."""
    return all(client.queue(mutex) == [] and all(entry.owner is None for entry in client.status(mutex))
               for mutex in mutexes)


@pytest.mark.parametrize("kind", ["lock", "semaphore", "set"])
def test_a_storm_of_cancellations_leaves_nothing(client, name, kind):
    draw, ends = random.Random(4), [0]

    async def attempt(lock):
        try:
            async with asyncio.timeout(draw.random() * (0.05 if kind == "lock" else 0.2)):
                async with lock:
                    await asyncio.sleep(draw.random() * 0.01)
        except (TimeoutError, simba.SimbaError):
            ends[0] += 1

    async def main():
        kept = [make(client, kind, name, id=f"kept-{number}") for number in range(4)]  # used again after a cancel
        for _ in range(6):
            locks = kept + [make(client, kind, name) for _ in range(8)]
            await asyncio.gather(*(attempt(lock) for lock in locks))
        for lock in kept:
            async with asyncio.timeout(PATIENCE):
                async with lock:
                    assert lock.held and lock.fence > 0
        del locks, lock, kept
        await wait_until(lambda: is_clean(client, mutexes_of(kind, name)))

    asyncio.run(main())
    assert ends[0] > 0


def test_a_semaphore_for_coroutines(client, name):
    inside, most = [0], [0]

    async def work():
        async with client.semaphore(name, 2, timeout=PATIENCE) as lock:
            assert lock.slot in (0, 1) and lock.held and lock.remaining > 0
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            for _ in range(1000):  # a store that is slow today lets the second in later
                await asyncio.sleep(0.005)
                if most[0] > 1:
                    break
            inside[0] -= 1

    async def main():
        await asyncio.gather(*(work() for _ in range(8)))
        async with client.semaphore(name, 2), client.semaphore(name, 2):
            third = client.semaphore(name, 2)
            with pytest.raises(simba.Contended):
                await third.acquire_async(0.2)
            assert not third.held
        await third.acquire_async(PATIENCE)
        await third.release_async()
        with pytest.raises(simba.MisuseError):
            await third.release_async()

    asyncio.run(main())
    assert most == [2]
    assert is_clean(client, mutexes_of("semaphore", name))


def test_a_set_for_coroutines(client, name):
    one, two = name + "-1", name + "-2"

    async def main():
        async with client.lock_all(two, one, timeout=PATIENCE) as both:
            assert both.fence_of(one) > 0 and both.fence_of(two) > 0
            with pytest.raises(simba.MisuseError):
                await both.acquire_async()
            assert await asyncio.to_thread(client.lock(one).try_acquire) is False
        async with client.lock(two):
            with pytest.raises(simba.Contended):
                await client.lock_all(one, two).acquire_async(0.2)
            await wait_until(lambda: client.status(one)[0].owner is None)
        with pytest.raises(simba.ConfigError):
            await client.lock_all(one, one).acquire_async()

    asyncio.run(main())


def test_coroutines_and_threads_share_a_semaphore(memory, name):
    """More waiters than the default executor has threads: none keeps a holder from its release."""
    async def work():
        async with memory.semaphore(name, 1, timeout=PATIENCE):
            await asyncio.sleep(0)

    async def main():
        lock = memory.semaphore(name, 1)
        lock.acquire()
        tasks = [asyncio.ensure_future(work()) for _ in range(60)]
        await wait_until(lambda: len(memory.queue(name)) > 40)
        lock.release()
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_a_thread_that_waited_refers_to_nothing_when_it_tells(monkeypatch):
    from simba_lock import lock

    told, call_in = [], lock.call_in

    async def main():
        def work():
            return 1

        seen, waiting = weakref.ref(work), lock._in_thread(work)
        del work
        monkeypatch.setattr(lock, "call_in", lambda *arguments: (told.append(seen()), call_in(*arguments)))
        assert await waiting == 1

    asyncio.run(main())
    assert told == [None]


def test_a_loss_is_told(client, name):
    async def main():
        lock = client.lock(name)
        await lock.acquire_async()
        await asyncio.to_thread(client.force_release, name)
        await wait_until(lambda: not lock.held)
        with pytest.raises(simba.LockLost):
            lock.check()
        with pytest.raises(simba.LockLost):
            await lock.release_async()
        async with lock:
            assert lock.held

    asyncio.run(main())


def test_loops_of_two_threads_share_a_client(memory, name):
    turns = []

    async def work():
        for _ in range(20):
            async with memory.lock(name, timeout=PATIENCE):
                turns.append(1)

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * 2)
    assert len(turns) == 40


def test_a_leader_runs_and_gives_up_the_lead(client, name):
    terms = []

    @client.leader(name)
    async def main(term):
        term.check()
        terms.append(term)
        await asyncio.sleep(0.01)
        return term.fence

    assert asyncio.run(main.run()) == terms[0].fence
    assert not terms[0].is_leader
    assert client.status(name)[0].owner is None


def test_a_leader_that_loses_is_cancelled_and_leads_again(client, name):
    terms, cancelled = [], []

    @client.leader(name)
    async def main(term):
        terms.append(term.fence)
        try:
            if len(terms) == 1:
                await asyncio.sleep(PATIENCE * 2)
            return "done"
        except asyncio.CancelledError:
            cancelled.append(term.is_leader)
            raise

    async def run():
        task = asyncio.ensure_future(main.run())
        await wait_until(lambda: len(terms) == 1)
        await asyncio.to_thread(client.force_release, name)
        async with asyncio.timeout(PATIENCE):
            return await task

    assert asyncio.run(run()) == "done"
    assert cancelled == [False] and terms[1] > terms[0]


def test_a_leader_whose_store_is_gone_is_cancelled_before_another_can_lead(started, name):
    from stores import Redis

    if not Redis.exists():
        pytest.skip("there is no redis here")
    store = Redis()
    try:
        with simba.open(store.url) as client:
            ended = []

            @client.leader(name)
            async def main(term):
                try:
                    await asyncio.sleep(PATIENCE * 2)
                finally:
                    ended.append((simba.now(), term._contest.deadline_ms() / 1000))

            async def run():
                task = asyncio.ensure_future(main.run())
                await wait_until(lambda: main.is_leader)
                store.pause()
                try:
                    await wait_until(lambda: ended)
                finally:
                    store.go_on()
                task.cancel()
                await asyncio.wait({task})

            asyncio.run(run())
            at, deadline = ended[0]
            assert deadline == 0 or at < deadline
    finally:
        store.stop()


def test_an_error_of_the_leader_releases(client, name):
    @client.leader(name)
    async def main(term):
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        asyncio.run(main.run())
    assert client.status(name)[0].owner is None


def test_a_cancelled_leader_releases(client, name):
    @client.leader(name)
    async def main(term):
        await asyncio.sleep(PATIENCE * 2)

    async def run():
        task = asyncio.ensure_future(main.run())
        await wait_until(lambda: main.is_leader)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()

    asyncio.run(run())
    assert client.status(name)[0].owner is None


def test_changes_are_heard(client, name):
    async def main():
        seen = []

        async def listen():
            async for change in client.watch(name):
                seen.append(change.after.id if change.after else None)

        task = asyncio.ensure_future(listen())
        lock = client.lock(name, id="one")
        await lock.acquire_async()
        await wait_until(lambda: "one" in seen)
        await lock.release_async()
        await wait_until(lambda: seen[-1] is None)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(main())


def test_a_wait_that_cannot_succeed_ends(memory):
    async def main():
        with pytest.raises(simba.ConfigError):
            await memory.lock("x" * 300).acquire_async()

    asyncio.run(main())


def test_a_hand_over_takes_no_poll(memory, name):
    times = []

    async def main():
        first, second = memory.lock(name), memory.lock(name)
        for _ in range(20):
            await first.acquire_async()
            waiting = asyncio.ensure_future(second.acquire_async(PATIENCE))
            await wait_until(lambda: memory.queue(name) != [])
            began = time.perf_counter()
            await first.release_async()
            await waiting
            times.append(time.perf_counter() - began)
            await second.release_async()

    asyncio.run(main())
    assert sorted(times)[10] < 0.05


def test_what_is_closed_answers(memory, name):
    terms = []

    @memory.leader(name)
    async def main(term):
        terms.append(term)
        lock = memory.lock(name + "-2")
        await lock.acquire_async()
        lock.close()
        assert not lock.held
        with pytest.raises(simba.MisuseError):
            await lock.acquire_async()

    asyncio.run(main.run())
    assert not terms[0].is_leader and not main.is_leader
    with pytest.raises(simba.LockLost):
        terms[0].check()

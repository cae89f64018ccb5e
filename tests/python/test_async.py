"""Locks and leaders for coroutines."""
import asyncio
import random
import threading
import time

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


def test_a_storm_of_cancellations_leaves_nothing(client, name):
    draw = random.Random(4)

    async def attempt(lock):
        try:
            async with asyncio.timeout(draw.random() * 0.05):
                await lock.acquire_async()
                await lock.release_async()
        except (TimeoutError, simba.SimbaError):
            pass

    async def main():
        for _ in range(6):
            locks = [client.lock(name) for _ in range(12)]
            await asyncio.gather(*(attempt(lock) for lock in locks))
        async with asyncio.timeout(PATIENCE):
            async with client.lock(name) as last:
                assert last.held
        await wait_until(lambda: client.queue(name) == [])
        assert client.status(name)[0].owner is None

    asyncio.run(main())


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

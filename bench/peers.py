#!/usr/bin/python3
"""Locks for Python, measured in turns with `simba bench` by scripts/bench and scripts/bench-python.

    peers.py redis|redis-lock|kazoo HOST:PORT
    peers.py psycopg|simba URL

Reads lines from standard input, "cycle COUNT" or "handover COUNT", and answers each with a line of so many
measurements in microseconds. The waiter of a hand-over is a process of its own. A process whose orders end is gone at
once, even where it waits for a lock, so none outlives the one that gave it work. The interpreter that runs this
decides on the versions of the packages.
"""
import os
import queue
import random
import sys
import threading
import time

REST_S = 0.02
NAME = "bench-peer"


def now_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1000


def redis_lock(address):
    import redis
    host, port = address.split(":")
    return redis.Redis(host=host, port=int(port)).lock(NAME, timeout=60)


def kazoo_lock(address):
    from kazoo.client import KazooClient
    client = KazooClient(hosts=address)
    client.start()
    return client.Lock("/" + NAME)


def redis_lock_of_another(address):
    import redis
    import redis_lock
    host, port = address.split(":")
    return redis_lock.Lock(redis.Redis(host=host, port=int(port)), NAME + "-2", expire=60)


class AdvisoryLock:
    """As psycopg's users write it: a session's lock of PostgreSQL."""

    def __init__(self, url):
        import psycopg
        self.session = psycopg.connect(url, autocommit=True)

    def acquire(self):
        self.session.execute("SELECT pg_advisory_lock(4711)")

    def release(self):
        self.session.execute("SELECT pg_advisory_unlock(4711)")


def simba_lock(url):
    import simba_lock as simba
    return simba.open(url).lock(NAME + "-own")


MAKERS = {"redis": redis_lock, "redis-lock": redis_lock_of_another, "kazoo": kazoo_lock, "psycopg": AdvisoryLock,
          "simba": simba_lock}


def read_lines(file):
    """Its lines as they come. A thread reads them, to see their end while the other waits for a lock."""
    lines = queue.SimpleQueue()

    def read():
        for line in file:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return iter(lines.get, None)


class Waiter:
    """A process that acquires when it is told to, tells when it had the lock, and releases when it is told to."""

    def __init__(self, make, address):
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        if os.fork() == 0:
            os.close(self.orders)  # the other process has the only one left
            os.close(self.answers)
            lines = read_lines(os.fdopen(orders))
            self.obey(make(address), lines, answers)
        os.close(orders)
        os.close(answers)

    @staticmethod
    def obey(lock, orders, answers):
        for _ in orders:
            lock.acquire()
            os.write(answers, f"{now_us()}\n".encode())
            next(orders)
            lock.release()
            os.write(answers, b"\n")

    def order(self):
        os.write(self.orders, b"go on\n")

    def answer(self):
        return os.read(self.answers, 64).decode()


def cycle(lock, count):
    for _ in range(count):
        begin = now_us()
        lock.acquire()
        lock.release()
        yield now_us() - begin


def hand_over(lock, waiter, count):
    for _ in range(count):
        lock.acquire()
        waiter.order()
        time.sleep(REST_S * (1 + random.random()))  # it waits by then
        begin = now_us()
        lock.release()
        yield float(waiter.answer()) - begin
        waiter.order()
        waiter.answer()


def main():
    make, address = MAKERS[sys.argv[1]], sys.argv[2]
    waiter = Waiter(make, address)  # a fork, so it comes before threads and connections
    lines = read_lines(sys.stdin)
    lock = make(address)
    for line in lines:
        question, count = line.split()
        measured = (cycle(lock, int(count)) if question == "cycle"
                    else hand_over(lock, waiter, int(count)))
        print(*(f"{us:.1f}" for us in measured), flush=True)


main()

#!/usr/bin/python3
"""Locks of other libraries for Python, measured in turns with `simba bench` by scripts/bench.

    peers.py redis|kazoo HOST:PORT

Reads lines from standard input, "cycle COUNT" or "handover COUNT", and answers each with a line of so many
measurements in microseconds. The interpreter is Debian's, which has Debian's packages.
"""
import os
import random
import sys
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


MAKERS = {"redis": redis_lock, "kazoo": kazoo_lock}


class Waiter:
    """A process that acquires when it is told to, tells when it had the lock, and releases when it is told to."""

    def __init__(self, make, address):
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        if os.fork() == 0:
            os.close(self.orders)  # its end ends the waiter
            self.obey(make(address), orders, answers)
        os.close(orders)
        os.close(answers)

    @staticmethod
    def obey(lock, orders, answers):
        while os.read(orders, 1):
            lock.acquire()
            os.write(answers, f"{now_us()}\n".encode())
            os.read(orders, 1)
            lock.release()
            os.write(answers, b"\n")
        os._exit(0)

    def order(self):
        os.write(self.orders, b"x")

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
    waiter = Waiter(make, address)
    lock = make(address)
    for line in sys.stdin:
        question, count = line.split()
        measured = (cycle(lock, int(count)) if question == "cycle"
                    else hand_over(lock, waiter, int(count)))
        print(*(f"{us:.1f}" for us in measured), flush=True)


main()

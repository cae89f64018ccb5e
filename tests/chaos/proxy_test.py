#!/usr/bin/env python3
"""Shows that a proxy listens again after it refused, also where a child that another thread was about to start had its
old listener for longer."""
import os
import signal
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from clock import wait_until
from proxy import Proxy


def fork_that_has_the_listener():
    child = os.fork()
    if child == 0:
        signal.pause()
    return child


def main():
    proxy = Proxy(1)
    child = fork_that_has_the_listener()
    proxy.set_mode("refuse")
    wait_until(lambda: proxy._listener is None, "the proxy refuses")
    proxy.heal()
    wait_until(lambda: proxy._listen_at > 0 or not proxy.is_alive(), "the proxy has tried to listen")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_until(lambda: proxy._listener is not None or not proxy.is_alive(), "the proxy listens")
    works = proxy.is_alive()
    proxy.stop()
    print(f"{'ok' if works else 'not ok'} 1 - listens again when a child has let go of its listener\n1..1")
    return 0 if works else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""How a run ends: the mutex is given back, and nothing of the command goes on without it."""
import os
import signal
import sys

from program import Blocked, Simba, case, contains, equal, is_free, main, run, true, url, wait_until

GIVEN_UP = "warning: 'm' was not given back and is free when its lease ends"


class Releasing:
    """A program that gives its mutex back on a store that hangs."""

    def __enter__(self):
        os.environ["SIMBA_URL"] = url(ttl="10s", transition="6s")
        equal(run("lock", "m", "--", "true").code, 0)
        self.program = Simba("lock", "m", "--", "bash", "-c",
                             "touch began; until [ -e blocked ]; do sleep 0.01; done")
        wait_until(lambda: os.path.exists("began"))
        self.blocked = Blocked()
        self.blocked.__enter__()
        with open("blocked", "wb"):
            pass
        wait_until(self.command_has_ended, "the command ends")
        return self.program

    def command_has_ended(self):
        """Then the guardian has been dismissed as well."""
        pid = self.program.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return file.read() == ""

    def __exit__(self, *unused):
        self.blocked.__exit__()


@case
def a_signal_that_tells_nobody_to_end_does_not_cut_the_release_short():
    with Releasing() as program:
        for number_of in (signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2):
            program.send(number_of)
        wait_until(lambda: "SigPnd:\t0000000000000000" in open(f"/proc/{program.pid}/status").read())
        true(program.process.poll() is None, "it has ended")
    equal((program.wait(), program.said()), (0, ""))
    true(is_free(), "it was not given back")


@case
def a_release_that_is_cut_short_is_told_of():
    with Releasing() as program:
        equal(program.end(), 0)
        contains(program.said(), GIVEN_UP)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Two clients of a master that sentinels watch over never believe together for longer than one lease, however the
network is cut, and there is a leader after healing.

    partition_test.py BELIEVER            the usual shapes, side by side
    partition_test.py BELIEVER --all      every shape, with a table of what was measured
    partition_test.py BELIEVER SHAPE...
"""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "partition")
sys.path.append(HERE)
from shapes import SHAPES, USUAL

OWN_NETWORK = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net"]
TWIN = "master+a|s1+s2+s3+replica+b"
ANY = "sentinel-quorum=any"


def missing():
    """Why it cannot be shown here, or None."""
    for program in ("redis-server", "unshare", "nsenter", "setpriv", "ip"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    tried = subprocess.run([*OWN_NETWORK, "ip", "link", "add", "switch", "type", "bridge"], check=False,
                           capture_output=True)
    return None if tried.returncode == 0 else "no network namespace can be made here"


def run(believer, shape, *options):
    result = subprocess.run([*OWN_NETWORK, sys.executable, os.path.join(HERE, "world.py"), believer, shape, *options],
                            check=False, capture_output=True, text=True)
    if not result.stdout:
        return {"trouble": result.stderr[-2000:]}
    return json.loads(result.stdout.splitlines()[-1])


def judge(outcome):
    """What is wrong, or None."""
    if "trouble" in outcome:
        return outcome["trouble"]
    if outcome["overlap_ms"] > outcome["lease_ms"]:
        return (f"both believed for {outcome['overlap_ms']} ms, and a lease has {outcome['lease_ms']} ms: "
                f"{json.dumps(outcome)}")
    return None


def judge_twin(outcome):
    """Where one sentinel is enough, and none is missed, both believe for longer: the judge can tell."""
    if "trouble" in outcome:
        return outcome["trouble"]
    if judge(outcome) is None:
        return f"the judge saw nothing wrong: {json.dumps(outcome)}"
    return None


def describe(shape, outcome):
    if "trouble" in outcome:
        return
    promoted = "yes" if outcome["roles"]["replica"] == "master" else "no"
    print(f"# {shape:50} overlap {outcome['overlap_ms']:5} ms  cut {outcome['held_ms']:5} ms  "
          f"promoted {promoted:3}  leader {outcome['healing_ms']:6} ms after healing")


def main():
    believer = os.path.abspath(sys.argv[1])
    wanted = list(SHAPES) if sys.argv[2:] == ["--all"] else sys.argv[2:] or USUAL
    cases = [(f"two owners for a lease at most: {shape}", judge, shape, []) for shape in wanted]
    cases.append((f"without a majority it is not so ({ANY}): {TWIN}", judge_twin, TWIN, [ANY]))
    print(f"1..{len(cases)}")
    why = missing()
    failed = 0
    side_by_side = len(USUAL) + 1 if len(cases) <= len(USUAL) + 1 else 4
    with concurrent.futures.ThreadPoolExecutor(side_by_side) as pool:
        runs = [None if why else pool.submit(run, believer, shape, *options) for _, _, shape, options in cases]
        for number, ((name, verdict, shape, _), future) in enumerate(zip(cases, runs), 1):
            if why:
                print(f"ok {number} - {name} # SKIP {why}")
                continue
            outcome = future.result()
            trouble = verdict(outcome)
            failed += trouble is not None
            print(f"{'not ok' if trouble else 'ok'} {number} - {name}", flush=True)
            describe(shape, outcome)
            for line in (trouble or "").splitlines():
                print(f"# {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

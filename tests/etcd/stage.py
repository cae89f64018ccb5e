"""What the tests of etcd begin with: servers, alone or as a cluster of three, and etcdctl beside the program.

The first argument of a test file is the mode: its cases name the modes in which they run.
"""
import json
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
import program  # which adds ../lib
import servers
from program import case, read, run

MEMBERS = 3
LONG = ["--ttl", "10s", "--transition", "20s"]  # a lease that a busy machine cannot lose
HOLD = ["sh", "-c", "echo $$ >pid.new; mv pid.new pid; exec sleep 100"]


class Running:
    """The one server of all cases, or the first one of the cluster."""

    server = None
    members = []


def url(more="", port=None, members=()):
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in members) or f"127.0.0.1:{port or Running.server.port}"
    return f"etcd://{hosts}/tests{more}"


def on_server(function):
    def wrapped():
        os.environ["SIMBA_URL"] = url(members=Running.members)
        function()
    wrapped.__name__ = function.__name__
    return case(wrapped)


def mode(*names):
    return on_server if sys.argv[1] in names else lambda function: function


def etcdctl(*arguments):
    return subprocess.Popen(["etcdctl", f"--endpoints=http://127.0.0.1:{Running.server.port}", *arguments],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def kill(server):
    server.process.kill()
    server.process.wait()


def keys():
    """Of contenders; what is remembered of mutexes stays, such as the slots of the kit's semaphore."""
    found = Running.server.ctl("get", "--prefix", "--keys-only", "tests/").split()
    return [key for key in found if not key.startswith("tests/.simba/")]


def status(mutex):
    return json.loads(read(run("status", "--json", mutex).out))[0]


def owner(mutex):
    return status(mutex)["owner"]


def _start(cluster):
    if not cluster:
        Running.server = servers.Etcd()
        Running.server.start()
        return
    members = [servers.Etcd() for _ in range(MEMBERS)]
    for member in members:
        member.cluster = members
        member.launch()
    for member in members:
        member.await_service()
    Running.server, Running.members = members[0], members


def main(cluster=False):
    if servers.Etcd.missing():
        print("1..0 # SKIP " + servers.Etcd.missing())
        return 77
    _start(cluster)
    try:
        return program.main()
    finally:
        for server in Running.members or [Running.server]:
            server.stop()

"""A network of its own for one worker, where the machine allows it: a namespace and a cable to the host.

The worker reaches nothing but the host's end of the cable, where its proxies listen. With the cable out,
packets are lost and nobody is told, which no proxy can do to an open connection.
"""
import os
import shutil
import subprocess

FIRST_OCTETS = "10.213"


def ip(*words):
    return subprocess.run(["ip", *words], check=False, capture_output=True).returncode == 0


class Network:
    """`owner` is the worker that lives in it."""

    def __init__(self, owner, number):
        self.owner = owner
        self.name = f"simba-{os.getpid()}-{number}"
        self.cable = f"sb{os.getpid() % 100000}h{number}"
        inner = f"sb{os.getpid() % 100000}w{number}"
        third = os.getpid() % 250
        self.address = f"{FIRST_OCTETS}.{third}.{number * 4 + 1}"
        inside = f"{FIRST_OCTETS}.{third}.{number * 4 + 2}"
        self.works = (
            ip("netns", "add", self.name)
            and ip("link", "add", self.cable, "type", "veth", "peer", "name", inner)
            and ip("link", "set", inner, "netns", self.name)
            and ip("address", "add", self.address + "/30", "dev", self.cable)
            and ip("link", "set", self.cable, "up")
            and ip("-n", self.name, "address", "add", inside + "/30", "dev", inner)
            and ip("-n", self.name, "link", "set", inner, "up"))

    def prefix(self):
        """What runs a command in it."""
        return ["ip", "netns", "exec", self.name]

    def pull_out(self):
        ip("link", "set", self.cable, "down")

    def plug_in(self):
        ip("link", "set", self.cable, "up")

    def remove(self):
        ip("link", "delete", self.cable)
        ip("netns", "delete", self.name)


def make_network(owner, number):
    """None where it is not allowed."""
    if shutil.which("ip") is None:
        return None
    network = Network(owner, number)
    if network.works:
        return network
    network.remove()
    return None

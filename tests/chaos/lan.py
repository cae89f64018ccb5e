"""A network for servers and workers that tell each other their addresses, where the machine allows it: each place is a
namespace of its own, with one address on a common switch.

Every place has fixed link addresses for all others. To cut the way from one place to another, the sender is given a
link address that nobody has: its packets are lost, nobody is told, and what comes the other way still arrives.
"""
import os
import shutil
import subprocess

NOBODY = "02:00:00:00:00:ff"
DEVICE = "lan"


def run_ip(lines, *options):
    done = subprocess.run(["ip", *options, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=False,
                          capture_output=True)
    return done.returncode == 0


class Lan:
    def __init__(self, places):
        self.places = list(places)
        self._name = f"simba-lan-{os.getpid()}"
        self.works = self._build()

    def _namespace(self, place):
        return f"{self._name}-{place}"

    def _number(self, place):
        return self.places.index(place) + 1

    def address(self, place):
        return f"10.214.0.{self._number(place)}"

    def _link_address(self, place):
        return f"02:00:00:00:00:{self._number(place):02x}"

    def prefix(self, place):
        """What runs a command there."""
        return ["ip", "netns", "exec", self._namespace(place)]

    def _build(self):
        switch = self._namespace("switch")
        return (run_ip([f"netns add {self._namespace(place)}" for place in ["switch", *self.places]])
                and run_ip(["link add switch type bridge", "link set switch up"], "-n", switch)
                and all(self._plug_in(place, switch) for place in self.places))

    def _plug_in(self, place, switch):
        namespace = self._namespace(place)
        return (run_ip([f"link add port{self._number(place)} type veth peer name {DEVICE} netns {namespace}",
                        f"link set port{self._number(place)} master switch up"], "-n", switch)
                and run_ip([f"link set {DEVICE} address {self._link_address(place)}",
                            f"address add {self.address(place)}/24 dev {DEVICE}",
                            f"link set {DEVICE} up", "link set lo up",
                            *self._ways(place, {})], "-n", namespace))

    def _ways(self, place, cut):
        return [f"neigh replace {self.address(other)} dev {DEVICE} nud permanent lladdr "
                + (NOBODY if (place, other) in cut else self._link_address(other))
                for other in self.places if other != place]

    def set_cuts(self, cut):
        """Exactly these ways, (from, to), are cut from now on."""
        for place in self.places:
            if not run_ip(self._ways(place, cut), "-n", self._namespace(place)):
                raise OSError(f"the ways from {place} cannot be changed")

    def heal(self):
        self.set_cuts(set())

    def remove(self):
        for place in ["switch", *self.places]:
            subprocess.run(["ip", "netns", "delete", self._namespace(place)], check=False, capture_output=True)


def make_lan(places):
    """None where it is not allowed."""
    if shutil.which("ip") is None:
        return None
    lan = Lan(places)
    if lan.works:
        return lan
    lan.remove()
    return None

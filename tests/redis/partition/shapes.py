"""Every shape of partition of three sentinels, a master, a replica and two clients.

Client "a" owns on the master when the cut comes, and "b" waits. The sentinels are alike, so that a division in two
is told by how many of them are on the master's side, and by the side of the replica, of "a" and of "b": 32, of which
one cuts nothing. On top there are cuts of single links, in both directions or in one.

A replica that takes over has the lease of "a", so that "b" waits for its end there. So for some shapes the replica is
cut off from the master first, until it has forgotten: then nothing keeps the two apart but what the sentinels say.
"""
import itertools

SENTINELS = ("s1", "s2", "s3")
PLACES = (*SENTINELS, "master", "replica", "a", "b")


def between(some, others):
    """All pairs in both directions."""
    return {pair for one in some for other in others for pair in ((one, other), (other, one))}


def one_way(some, others):
    return {(one, other) for one in some for other in others}


class Shape:
    """`half_ms`: the ttl, and the transition."""

    def __init__(self, cuts, is_forgetful=False):
        self.cuts = frozenset(cuts)
        self.first = between(["master"], ["replica"]) if is_forgetful else frozenset()
        self.half_ms = 3000 if is_forgetful else 1000

    def reach(self, one, other):
        return (one, other) not in self.cuts and (other, one) not in self.cuts

    def fails_over(self):
        """Whether two sentinels that reach each other and the replica miss the master."""
        blind = [one for one in SENTINELS if not self.reach(one, "master") and self.reach(one, "replica")]
        return any(self.reach(one, other) for one, other in itertools.combinations(blind, 2))


def divisions():
    """Each division in two: {name: Shape}."""
    found = {}
    for count, *sides in itertools.product(range(4), *[(True, False)] * 3):
        near = ["master", *SENTINELS[:count]] + [
            place for place, is_near in zip(("replica", "a", "b"), sides) if is_near]
        far = [place for place in PLACES if place not in near]
        if far:
            found["+".join(near) + "|" + "+".join(far)] = Shape(between(near, far))
    return found


LINKS = {
    "a--sentinels": between(["a"], SENTINELS),
    "a--s1,s2": between(["a"], SENTINELS[:2]),
    "a--s1": between(["a"], SENTINELS[:1]),
    "b--sentinels": between(["b"], SENTINELS),
    "a--master": between(["a"], ["master"]),
    "b--master": between(["b"], ["master"]),
    "a--b": between(["a"], ["b"]),
    "master--sentinels": between(["master"], SENTINELS),
    "master--s1,s2": between(["master"], SENTINELS[:2]),
    "master--replica": between(["master"], ["replica"]),
    "replica--sentinels": between(["replica"], SENTINELS),
    "master--sentinels,replica": between(["master"], [*SENTINELS, "replica"]),
    "master,a--sentinels": between(["master", "a"], SENTINELS),
    "master,a--s1,s2": between(["master", "a"], SENTINELS[:2]),
    "master,b--s1,s2": between(["master", "b"], SENTINELS[:2]),
    "s1--s2--s3": between(["s1"], ["s2"]) | between(["s2"], ["s3"]) | between(["s1"], ["s3"]),
    "each-sentinel-alone": between(["s1"], [*SENTINELS[1:], "master", "replica"]) | between(
        ["s2"], ["s3", "master", "replica"]) | between(["s3"], ["master", "replica"]),
    "sentinels->a": one_way(SENTINELS, ["a"]),
    "a->sentinels": one_way(["a"], SENTINELS),
    "master->a": one_way(["master"], ["a"]),
    "a->master": one_way(["a"], ["master"]),
    "master->sentinels": one_way(["master"], SENTINELS),
    "sentinels->master": one_way(SENTINELS, ["master"]),
    "master->sentinels,replica": one_way(["master"], [*SENTINELS, "replica"]),
}

SHAPES = {**divisions(), **{name: Shape(cuts) for name, cuts in LINKS.items()}}
SHAPES.update({"forgetful: " + name: Shape(shape.cuts, is_forgetful=True) for name, shape in SHAPES.items()
               if shape.fails_over()})

# Those of `make test`: an owner is left on the master's side with none or one of the sentinels; it is cut off from the
# sentinels alone; only the servers are cut off from each other.
USUAL = ["forgetful: master+a|s1+s2+s3+replica+b", "forgetful: master+s1+a|s2+s3+replica+b", "a--sentinels",
         "forgetful: master--sentinels,replica"]

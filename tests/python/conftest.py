"""The stores that the tests run on, each with a server of its own; and TAP for scripts/run-tests."""
import os
import sys
import tempfile
import uuid

import pytest

import simba_lock as simba

ROOT = os.environ["SIMBA_ROOT"]
sys.path[:0] = [os.path.join(ROOT, "tests/cli"), os.path.join(ROOT, "tests/lib")]
import stores  # noqa: E402

LEASE = "ttl=400ms&transition=600ms&jitter=0ms..50ms"
PATIENCE = 20.0


class Memory:
    def __init__(self):
        self.url = f"memory:{uuid.uuid4().hex}?{LEASE}"

    def stop(self):
        pass


KINDS = {"memory": Memory, "sqlite": stores.Sqlite, "redis": stores.Redis, "postgres": stores.Postgres}
SHARED = [name for name in KINDS if name != "memory"]


def _part(item):
    """The store that it is for."""
    params = item.callspec.params.values() if hasattr(item, "callspec") else []
    return next((value for value in params if value in list(KINDS)), "rest")


def pytest_collection_modifyitems(items):
    part = os.environ["SIMBA_PART"]
    assert part in ("rest", *KINDS)
    items[:] = [item for item in items if _part(item) == part]


@pytest.fixture(scope="session")
def started():
    """The servers, each started by the first test that needs it."""
    running = {}
    yield running
    for store in running.values():
        store.stop()


def _url(started, name):
    if name not in started:
        kind = KINDS[name]
        if name != "memory" and not kind.exists():
            pytest.skip(f"there is no {name} here")
        started[name] = kind()
    return started[name].url


@pytest.fixture(params=list(KINDS))
def url(request, started):
    return _url(started, request.param)


@pytest.fixture(params=SHARED)
def shared_url(request, started):
    """Of the stores that processes share."""
    return _url(started, request.param)


@pytest.fixture
def client(url):
    with simba.open(url) as opened:
        yield opened


@pytest.fixture
def memory():
    with simba.open(Memory().url) as opened:
        yield opened


@pytest.fixture
def name():
    """A mutex that no other test uses."""
    return f"m-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="simba-python-") as path:
        yield path


# ---- TAP ------------------------------------------------------------------------------------------

_count = 0
_tap = os.fdopen(int(os.environ["SIMBA_TAP"]), "w")


def _tell(report, what):
    global _count
    _count += 1
    bad = "not " if report.failed else ""
    skipped = " # SKIP" if report.skipped else ""
    print(f"{bad}ok {_count} - {what}{skipped}", file=_tap, flush=True)
    for line in report.longreprtext.splitlines() if report.failed else []:
        print(f"# {line}", file=_tap)


def pytest_runtest_logreport(report):
    what = report.nodeid.rpartition("/")[2]
    if report.when == "call" or report.skipped:
        _tell(report, what)
    elif report.failed:
        _tell(report, f"{what}, {report.when}")


def pytest_collectreport(report):
    if report.failed:
        _tell(report, report.nodeid)


def pytest_sessionfinish(session):
    print(f"1..{_count}", file=_tap, flush=True)

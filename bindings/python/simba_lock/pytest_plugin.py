"""For pytest: `simba_client`, a client of a store in memory that belongs to the test alone."""
from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from . import Client, open


@pytest.fixture
def simba_client() -> Iterator[Client]:
    with open(f"memory:pytest-{uuid.uuid4().hex}") as client:
        yield client

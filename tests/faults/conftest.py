"""Version 1 and what every crash case must come to, once for each database that holds the ledger."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from faults.cases import Template


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On both databases, but for what a module says of itself."""
    if "template" not in metafunc.fixturenames:
        return
    name, both = metafunc.function.__name__, os.environ.get("CRASH_ALL")
    ledgers = ["sqlite", "postgres"]
    if name in getattr(metafunc.module, "LEFT_OUT_ON_POSTGRES", ()) and not both:
        ledgers = ["sqlite"]
    if name in getattr(metafunc.module, "ONLY_ON_POSTGRES", ()):
        ledgers = ["postgres"]
    metafunc.parametrize("template", ledgers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def template(request: pytest.FixtureRequest) -> Iterator[Template]:
    template = Template(postgres=request.param == "postgres")
    yield template
    template.close()

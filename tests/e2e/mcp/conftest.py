"""The gateways that several modules use, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.needs import MISSING_MCP, MISSING_PYTHON

if MISSING_PYTHON or MISSING_MCP:
    # One visible skip in ../test_setup.py stands for all of these.
    collect_ignore_glob = ["test_*.py"]
else:
    from tests.e2e.loopback import Loopback

    from .gateways import EVERYDAY, Running, gateway, python_server
    from .upstreams import scripted

    SERVERS = {"everyday": python_server(EVERYDAY, policy="auto")}

    @pytest.fixture(scope="package")
    def stored(loopback: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
        """With a store, in which it keeps what its clients do not see."""
        folder = tmp_path_factory.mktemp("stored")
        with scripted(loopback, "replay") as upstreams, gateway(folder, upstreams, SERVERS, attached=[*SERVERS]) as it:
            yield it

    @pytest.fixture(scope="package")
    def storeless(loopback: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
        """Without one: what its clients do not send back is gone."""
        folder = tmp_path_factory.mktemp("storeless")
        with (
            scripted(loopback, "native") as upstreams,
            gateway(folder, upstreams, SERVERS, attached=[*SERVERS], stored=False) as it,
        ):
            yield it

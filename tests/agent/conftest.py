"""Tests that are coroutines run in an event loop of their own, and not for ever."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.waiting import FAILSAFE


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 2 * FAILSAFE))
    return True

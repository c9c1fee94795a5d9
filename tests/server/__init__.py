import pytest

pytest.register_assert_rewrite("tests.server.told", "tests.server.gateway")

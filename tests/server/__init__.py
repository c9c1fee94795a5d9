import pytest

pytest.register_assert_rewrite("tests.server.client_errors", "tests.server.gateway")

"""Settings for the property tests: the same examples in every run, and no deadline on a busy machine."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.register_profile("deep", parent=settings.get_profile("ci"), derandomize=False, max_examples=300)
settings.load_profile("ci")

# A shell starts its background jobs with Ctrl-C ignored, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

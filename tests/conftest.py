"""What tests share."""

import os

# Before anything imports TensorFlow.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import hypothesis
import pytest

# A busy machine is no reason to fail, and what failed is to fail again.
hypothesis.settings.register_profile(
  'patient',
  deadline=None,
  derandomize=True,
  suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile('patient')


@pytest.fixture(scope='session')
def tff_worker():
  """One TFF worker for all tests of a process that need one."""
  from f3ast_tff import runtime

  with runtime.worker() as process:
    yield process

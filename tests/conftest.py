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


@pytest.fixture(scope='module')
def in_process():
  """Has TFF compute in this process; what was compiled once is kept."""
  from f3ast_tff.execution import context

  with context.in_process(2):
    yield


@pytest.fixture
def tff_worker():
  """Has TFF compute in its own worker, as a witness."""
  from tests import native

  with native.worker():
    yield

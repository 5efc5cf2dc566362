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
  """Has TFF compute in its own worker, as an independent runtime."""
  from tests import native

  with native.worker():
    yield


@pytest.fixture(scope='session')
def task():
  """Eight clients of the synthetic data set, and its model."""
  from f3ast_tff.datasets import synthetic
  from f3ast_tff.models import softmax
  from f3ast_tff.runs import task as task_lib

  return task_lib.Task(
    synthetic.load(num_clients=8, seed=1), softmax.build()
  )


@pytest.fixture(scope='session')
def make_config():
  """Makes the settings of a short run; changes are keyword arguments."""
  from f3ast_tff.runs import config as config_lib

  step_sizes = config_lib.LearningRates(0.05, 0.1, 0.001)

  def make(**changes):
    settings = {
      'rounds': 4,
      'eval_every': 2,
      'clients_per_round': '3',
      'parallel_clients': 2,
      **changes,
    }
    return config_lib.Config(**settings).resolve(
      dict.fromkeys(config_lib.SERVER_OPTIMIZERS, step_sizes)
    )

  return make


@pytest.fixture(autouse=True, scope='session')
def check_figures():
  """Checks the layout of every figure that a test saves in this process."""
  try:
    from matplotlib import figure as figure_lib
  except ImportError:  # The NumPy part is also tested without it.
    yield
    return

  from tests import figure_layout

  save = figure_lib.Figure.savefig

  def save_and_check(figure, file, **kwargs):
    save(figure, file, **kwargs)
    # Once for a figure that is saved in both formats.
    if 'svg' not in (kwargs.get('format'), str(file).rpartition('.')[2]):
      assert figure_layout.problems(figure) == []

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(figure_lib.Figure, 'savefig', save_and_check)
    yield

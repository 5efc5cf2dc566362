"""What is compared of runs."""

from collections.abc import Mapping

# The columns of a run's tests and what to call them.
METRICS: Mapping[str, str] = {
  'accuracy': 'test accuracy',
  'loss': 'test loss',
  'user_accuracy': 'user accuracy',
  'user_loss': 'user loss',
  'sum_of_weights': 'sum of weights',
}

"""How the paper's methods, datasets and so on are called, in its order."""

from collections.abc import Mapping

METHODS: Mapping[str, str] = {
  'fedavg': 'FedAvg',
  'f3ast': 'F3AST',
  'fedadam': 'FedAdam',
  'f3ast_adam': 'F3AST+Adam',
  'power_of_choice': 'PoC',
}
# Each of ours beside the baseline that its gain is over.
PAIRS = (('f3ast', 'fedavg'), ('f3ast_adam', 'fedadam'))
# All that the paper compares.
COMPARISONS = (*PAIRS, ('f3ast', 'power_of_choice'))
AVAILS: Mapping[str, str] = {
  'always': 'Always',
  'scarce': 'Scarce',
  'home_devices': 'Home-devices',
  'uneven': 'Uneven',
  'smartphones': 'Smartphones',
}
DATASETS: Mapping[str, str] = {
  'synthetic': 'Synthetic(1,1)',
  'cifar100': 'CIFAR-100',
  'shakespeare': 'Shakespeare',
}
# Synthetic has one size, which is the paper's.
PRESETS: Mapping[str, tuple[str, ...]] = {
  'paper': ('synthetic', 'cifar100', 'shakespeare'),
  'compact': ('cifar100', 'shakespeare'),
}
SIZES: Mapping[str, str] = {
  'paper': "models of the paper's size",
  'compact': 'compact models, few rounds',
}
METRICS: Mapping[str, str] = {
  'accuracy': 'test accuracy',
  'loss': 'test loss',
  'user_accuracy': 'user accuracy',
  'user_loss': 'user loss',
  'sum_of_weights': 'sum of weights',
}


def is_higher_better(metric: str) -> bool:
  """Returns whether more of a metric is better."""
  return metric.endswith('accuracy')

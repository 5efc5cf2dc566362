"""The settings of a run: one frozen dataclass, checked when it is made.

Each field says what it is for; the experiments turn the fields into flags and
write them to `config.json`, so that there is one list of settings only. NumPy
level: nothing here imports TensorFlow.
"""

import collections
from collections.abc import Collection, Mapping
import dataclasses
import math
import os
from typing import Any, NamedTuple, Optional

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff.methods import released


def num_cores() -> int:
  """Returns how many cores this process may use."""
  return len(os.sched_getaffinity(0))


# Not a copy: what a program adds to the policies is a choice as well.
_OTHER_SELECTIONS: dict[str, Any] = {methods.FIXED_POLICY: None}
SELECTIONS: Collection[str] = collections.ChainMap(
  _OTHER_SELECTIONS, methods.POLICIES
)
SERVER_OPTIMIZERS = ('sgd', 'momentum', 'adam', 'yogi', 'adagrad')


class LearningRates(NamedTuple):
  """The step sizes of a server optimizer on a task."""

  client: float
  server: float
  epsilon: float = 0.001


# What settings are about; `--help` lists them so.
METHOD = 'Method'
AVAILABILITY = 'Who is available, how many may take part'
RATES = 'Participation rates of F3AST'
TRAINING = 'Training'
MACHINES = 'Cores and machines'
TESTS = 'Tests during training'
OUTPUT = 'Output'


def _setting(
  default: Any,
  group: str,
  help_text: str,
  choices: Optional[Collection[str]] = None,
  least: Optional[int] = None,
) -> Any:
  """Returns a field: its default, its group, its help, what it may be."""
  metadata = {
    'group': group, 'help': help_text, 'choices': choices, 'least': least
  }
  return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Config:
  """The settings of a run that all tasks share."""

  algorithm: str = _setting(
    'f3ast',
    METHOD,
    'The method of the paper, or its FedAvg and FedAdam drawn with '
    'replacement: a selection and a server optimizer, which the next two '
    'settings can each replace.',
    tuple(methods.ALGORITHMS),
  )
  selection: Optional[str] = _setting(
    None,
    METHOD,
    'How clients are selected: f3ast; proportional to their data; the same '
    'drawn with replacement; uniform; power_of_choice; or fixed_policy '
    "(Algorithm 2 with the best rates). By default the algorithm's.",
    SELECTIONS,
  )
  server_optimizer: Optional[str] = _setting(
    None,
    METHOD,
    "The server's optimizer; by default the algorithm's.",
    SERVER_OPTIMIZERS,
  )
  proximal: float = _setting(
    0.0,
    METHOD,
    "FedProx's mu: local training is drawn back to the global model by mu / 2 "
    'times the squared distance.',
    least=0,
  )
  avail: str = _setting(
    'home_devices',
    AVAILABILITY,
    'The availability model, Section 4.1 of the paper.',
    availability.MODELS,
  )
  rounds: int = _setting(
    500,
    TRAINING,
    'The number of rounds T.',
    least=1,
  )
  clients_per_round: str = _setting(
    '10',
    AVAILABILITY,
    'The communication constraint K_t: a number, or uniform:LOW,HIGH, or '
    'schedule:K1,K2,..., or markov:K_GOOD,K_BAD,P_TURN_BAD,P_TURN_GOOD.',
  )
  beta: float = _setting(
    0.001,
    RATES,
    'The step of the participation rates.',
  )
  rate_init: str = _setting(
    'kp',
    RATES,
    'The rates r(0): kp (K times p, at most 1), p, uniform (K / N), or tie, '
    'where all clients have the same score by the H in use: kp for sum p^2/r, '
    'K sqrt(p) / sum sqrt(p) for sum p/r, at most 1.',
    rates.INITIAL_RATES,
  )
  num_candidates: int = _setting(
    30,
    METHOD,
    'How many clients Power-of-Choice queries for their loss, its d.',
    least=1,
  )
  protocol: str = _setting(
    'paper',
    METHOD,
    "paper; released, for all that the authors' released code does "
    'otherwise; or some of its departures by name, with commas: '
    + ', '.join(released.NAMES)
    + '.',
  )
  correlation: str = _setting(
    'auto',
    RATES,
    'The form of H: uncorrelated (sum p^2/r), positive (sum p/r), or auto '
    '(positive where the availability model has a common factor).',
    ('auto', *rates.CORRELATIONS),
  )
  seed: int = _setting(
    0,
    TRAINING,
    'Decides everything that is random.',
    least=0,
  )
  client_learning_rate: Optional[float] = _setting(
    None,
    TRAINING,
    'Step size of local SGD; by default that of task and optimizer.',
  )
  server_learning_rate: Optional[float] = _setting(
    None,
    TRAINING,
    'Step size of the server; by default that of task and optimizer.',
  )
  server_rate_file: str = _setting(
    '',
    TRAINING,
    'A CSV file with columns round and sum_of_weights or factor: the step size '
    "of the server in round t is multiplied by the number of round t. A run's "
    'rounds.csv is such a file. For server_optimizer=sgd only, where it is the '
    'same to multiply all weights: sum_of_weights in the rounds.csv of this '
    'run is that of the multiplied ones.',
  )
  server_epsilon: Optional[float] = _setting(
    None,
    TRAINING,
    'Epsilon of Adam, Yogi and Adagrad; by default that of task and optimizer.',
  )
  batch_size: int = _setting(
    20,
    TRAINING,
    'The size of a local batch.',
    least=1,
  )
  local_epochs: int = _setting(
    1,
    TRAINING,
    'Passes over the local data per round.',
    least=1,
  )
  local_steps: int = _setting(
    0,
    TRAINING,
    'Local steps per round, E of Algorithm 1: every client makes as many, each '
    'on a full batch, and goes through its data again and again for that; 0 '
    'for --local_epochs.',
    least=0,
  )
  parallel_clients: int = _setting(
    0,
    MACHINES,
    'How many clients train at a time, each on its share of the cores; 0 for '
    'as many as there are cores. Sums are rounded differently with another '
    'number.',
    least=0,
  )
  eval_every: int = _setting(
    10,
    TESTS,
    'Test every so many rounds, and after the last one.',
    least=1,
  )
  eval_examples: int = _setting(
    0,
    TESTS,
    'Test on so many random test examples, the same ones each time; 0 for all. '
    'User averages are then over the users that hold some of them. The last '
    'test is always on all.',
    least=0,
  )
  checkpoint_every: int = _setting(
    100,
    OUTPUT,
    'Save the state every so many rounds.',
    least=1,
  )

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      choices = field.metadata['choices']
      value = getattr(self, field.name)
      is_left_open = value is None and field.default is None
      if choices and value not in choices and not is_left_open:
        raise ValueError(
          f'{field.name} must be one of {", ".join(choices)}, but it is '
          f'{value!r}.'
        )
      if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
          f'{field.name} must be a finite number, but it is {value}.'
        )
      least = field.metadata['least']
      if least is not None and value < least:
        raise ValueError(
          f'{field.name} must be at least {least}, but it is {value}.'
        )
    for name in (
      'client_learning_rate', 'server_learning_rate', 'server_epsilon'
    ):
      value = getattr(self, name)
      if value is not None and value <= 0:
        raise ValueError(f'{name} must be above 0, but it is {value}.')
    if not 0 < self.beta <= 1:
      raise ValueError(f'beta must be in (0, 1], but it is {self.beta}.')
    if self.local_steps and self.local_epochs != 1:
      raise ValueError(
        'local_steps takes the place of local_epochs, so give one of them; but '
        f'they are {self.local_steps} and {self.local_epochs}.'
      )
    released.parse(self.protocol)
    constraint = communication.parse(self.clients_per_round)
    chosen = self.selection or methods.ALGORITHMS[self.algorithm].selection
    if chosen == 'power_of_choice' and self.num_candidates < constraint.maximum:
      raise ValueError(
        f'num_candidates must be at least K for Power-of-Choice, but it is '
        f'{self.num_candidates} and K is up to {constraint.maximum}.'
      )
    optimizer = self.server_optimizer
    optimizer = optimizer or methods.ALGORITHMS[self.algorithm].server_optimizer
    if self.server_rate_file and optimizer != 'sgd':
      raise ValueError(
        'server_rate_file is for server_optimizer=sgd only, but that is '
        f'{optimizer}.'
      )
    if constraint.mean == 0:
      raise ValueError(
        'clients_per_round is 0 in every round, so nobody would ever train; '
        'give a positive number.'
      )

  @property
  def threads_per_client(self) -> int:
    """How many threads an operation of a client's training should have."""
    return max(1, num_cores() // max(1, self.parallel_clients))

  def resolve(self, defaults: Mapping[str, LearningRates]) -> 'Config':
    """Returns the settings with nothing left open.

    Args:
      defaults: The task's step sizes for each server optimizer.

    Returns:
      Settings whose selection, optimizer and step sizes are not None.
    """

    def first(value: Any, otherwise: Any) -> Any:
      return otherwise if value is None else value

    preset = methods.ALGORITHMS[self.algorithm]
    optimizer = first(self.server_optimizer, preset.server_optimizer)
    step_sizes = defaults[optimizer]
    return dataclasses.replace(
      self,
      parallel_clients=self.parallel_clients or num_cores(),
      selection=first(self.selection, preset.selection),
      server_optimizer=optimizer,
      client_learning_rate=first(self.client_learning_rate, step_sizes.client),
      server_learning_rate=first(self.server_learning_rate, step_sizes.server),
      server_epsilon=first(self.server_epsilon, step_sizes.epsilon),
    )


def method_name(settings: Mapping[str, Any]) -> str:
  """Returns what to call the method of a run, e.g. `fedavg` or `f3ast-yogi`.

  Args:
    settings: The settings of a run, as in its `config.json`.

  Returns:
    The name of a preset where all that makes up the method is as there;
    otherwise the names of its parts.
  """
  preset = methods.ALGORITHMS[settings['algorithm']]
  chosen = methods.Algorithm(
    settings.get('selection') or preset.selection,
    settings.get('server_optimizer') or preset.server_optimizer,
  )
  names = {algorithm: name for name, algorithm in methods.ALGORITHMS.items()}
  name = names.get(chosen, '-'.join(chosen))
  proximal = settings.get('proximal', 0.0)
  return name + (f'-proximal={proximal:g}' if proximal else '')

"""The settings of a run: one frozen dataclass, checked when it is made.

Each field says what it is for; the experiments turn the fields into flags and
write them to `config.json`, so that there is one list of settings only. NumPy
level: nothing here imports TensorFlow.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import math
import types
from typing import Any, NamedTuple, Optional

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import rates


class Algorithm(NamedTuple):
  """A method of the paper: how to select, and the server's optimizer."""

  selection: str
  server_optimizer: str


ALGORITHMS: Mapping[str, Algorithm] = types.MappingProxyType({
  'fedavg': Algorithm('proportional', 'sgd'),
  'f3ast': Algorithm('f3ast', 'sgd'),
  'fedadam': Algorithm('proportional', 'adam'),
  'f3ast_adam': Algorithm('f3ast', 'adam'),
})


class LearningRates(NamedTuple):
  """The step sizes of an algorithm on a task."""

  client: float
  server: float
  epsilon: float = 0.001


def _setting(
  default: Any, help_text: str, choices: Optional[Sequence[str]] = None
) -> Any:
  return dataclasses.field(
    default=default, metadata={'help': help_text, 'choices': choices}
  )


@dataclasses.dataclass(frozen=True)
class Config:
  """The settings of a run that all tasks share."""

  algorithm: str = _setting(
    'f3ast',
    'The method: how clients are selected, and the server optimizer.',
    tuple(ALGORITHMS),
  )
  avail: str = _setting(
    'home_devices',
    'The availability model, Section 4.1 of the paper.',
    tuple(availability.MODELS),
  )
  rounds: int = _setting(500, 'The number of rounds T.')
  clients_per_round: str = _setting(
    '10',
    'The communication constraint K_t: a number, or uniform:LOW,HIGH, or '
    'schedule:K1,K2,..., or markov:K_GOOD,K_BAD,P_TURN_BAD,P_TURN_GOOD.',
  )
  beta: float = _setting(0.001, 'The step of the participation rates.')
  rate_init: str = _setting(
    'kp',
    'The rates r(0): kp (K times p, at most 1), p, or uniform (K / N).',
    rates.INITIAL_RATES,
  )
  correlation: str = _setting(
    'auto',
    'The form of H: uncorrelated (sum p^2/r), positive (sum p/r), or auto '
    '(positive where the availability model has a common factor).',
    ('auto', *rates.CORRELATIONS),
  )
  seed: int = _setting(0, 'Decides everything that is random.')
  client_learning_rate: Optional[float] = _setting(
    None, 'Step size of local SGD; by default the one of task and algorithm.'
  )
  server_learning_rate: Optional[float] = _setting(
    None, 'Step size of the server; by default that of task and algorithm.'
  )
  server_epsilon: Optional[float] = _setting(
    None, "Adam's epsilon; by default that of task and algorithm."
  )
  batch_size: int = _setting(20, 'The size of a local batch.')
  local_epochs: int = _setting(1, 'Passes over the local data per round.')
  eval_every: int = _setting(
    10, 'Test every so many rounds, and after the last one.'
  )
  eval_examples: int = _setting(
    0,
    'Test on so many random test examples, the same ones each time; 0 for all. '
    'The last test is always on all.',
  )
  checkpoint_every: int = _setting(100, 'Save the state every so many rounds.')

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      choices = field.metadata['choices']
      value = getattr(self, field.name)
      if choices and value not in choices:
        raise ValueError(
          f'{field.name} must be one of {", ".join(choices)}, but it is '
          f'{value!r}.'
        )
      if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(
          f'{field.name} must be a finite number, but it is {value}.'
        )
    for name in (
      'rounds', 'batch_size', 'local_epochs', 'eval_every', 'checkpoint_every'
    ):
      if getattr(self, name) < 1:
        raise ValueError(
          f'{name} must be at least 1, but it is {getattr(self, name)}.'
        )
    for name in (
      'client_learning_rate', 'server_learning_rate', 'server_epsilon'
    ):
      value = getattr(self, name)
      if value is not None and value <= 0:
        raise ValueError(f'{name} must be above 0, but it is {value}.')
    if not 0 < self.beta <= 1:
      raise ValueError(f'beta must be in (0, 1], but it is {self.beta}.')
    for name in ('seed', 'eval_examples'):
      if getattr(self, name) < 0:
        raise ValueError(
          f'{name} must be at least 0, but it is {getattr(self, name)}.'
        )
    constraint = communication.parse(self.clients_per_round)
    if constraint.maximum == 0:
      raise ValueError(
        'clients_per_round is 0 in every round, so nobody would ever train; '
        'give a positive number.'
      )

  def with_learning_rates(self, default: LearningRates) -> 'Config':
    """Returns the settings with learning rates that are not None."""

    def first(value: Optional[float], otherwise: float) -> float:
      return otherwise if value is None else value

    return dataclasses.replace(
      self,
      client_learning_rate=first(self.client_learning_rate, default.client),
      server_learning_rate=first(self.server_learning_rate, default.server),
      server_epsilon=first(self.server_epsilon, default.epsilon),
    )

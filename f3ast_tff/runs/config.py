"""The settings of a run: one frozen dataclass, checked when it is made.

Each field says what it is for; the experiments turn the fields into flags and
write them to `config.json`, so that there is one list of settings only. NumPy
level: nothing here imports TensorFlow.
"""

import collections
from collections.abc import Callable, Collection, Mapping
import dataclasses
import math
import os
from typing import Any, NamedTuple, Optional, Union

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import delivery as delivery_lib
from f3ast_tff import groups as groups_lib
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff import targets
from f3ast_tff import traces
from f3ast_tff.methods import released


def num_cores() -> int:
  """Returns how many cores this process may use."""
  return len(os.sched_getaffinity(0))


# Not a copy: what a program adds to the policies is a choice as well.
_OTHER_SELECTIONS: dict[str, Any] = {methods.FIXED_POLICY: None}
SELECTIONS: Collection[str] = collections.ChainMap(
  _OTHER_SELECTIONS, methods.POLICIES
)
SERVER_OPTIMIZERS = methods.SERVER_OPTIMIZERS


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

# More is a slip of the pen: it would take years, or all memory.
_MOST = 10**9
_MOST_CLIENTS = 2**31 - 1  # As in `communication`.


def _setting(
  default: Any,
  group: str,
  help_text: Union[str, Callable[[], str]],
  choices: Optional[Collection[str]] = None,
  least: Optional[int] = None,
  most: Optional[int] = None,
) -> Any:
  """Returns a field: its default, its group, its help, what it may be."""
  metadata = {
    'group': group,
    'help': help_text,
    'choices': choices,
    'least': least,
    'most': most,
  }
  return dataclasses.field(default=default, metadata=metadata)


def help_of(field: dataclasses.Field) -> str:
  """Returns the help of a setting, with what a program has added by now."""
  text = field.metadata['help']
  return text() if callable(text) else text


@dataclasses.dataclass(frozen=True)
class Config:
  """The settings of a run that all tasks share."""

  algorithm: str = _setting(
    'f3ast',
    METHOD,
    'The algorithm, made up of a selection, what a method adds to it, and a '
    'server optimizer, which the next three settings can each replace. '
    'f3ast_safe also sets rate_step and sum_cap. docs/methods.md '
    'has them all.',
    methods.ALGORITHMS,
  )
  selection: Optional[str] = _setting(
    None,
    METHOD,
    'How clients are selected: f3ast; proportional to their data; the same '
    'drawn with replacement; uniform, its updates weighted alike or by_data; '
    'power_of_choice; or fixed_policy (Algorithm 2 with the best rates). By '
    "default the algorithm's.",
    SELECTIONS,
  )
  method: Optional[str] = _setting(
    None,
    METHOD,
    'What is added to the selection: none; fedau, afl or ca_fed (other '
    'weights; ca_fed:true is told the true availability); scaffold, feddyn, '
    'fedvarp, mifa or fedawe (which keep a vector per client). A number '
    'behind a colon replaces the constant of fedau (its K), feddyn (alpha), '
    "fedvarp (FedStale's factor) and afl. By default the algorithm's.",
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
  target: str = _setting(
    'data',
    METHOD,
    "Each client's share p of the objective: of the data; uniform (all users "
    'alike); power:A (p^A, normalised); groups (all of --groups alike, inside '
    'by data); or file:PATH (a CSV file with columns client and share).',
  )
  avail: str = _setting(
    'home_devices',
    AVAILABILITY,
    lambda: f'The availability model: {", ".join(availability.usages())}.',
  )
  round_seconds: int = _setting(
    600,
    AVAILABILITY,
    'With avail=trace: the seconds from the start of a round to that of the '
    'next one.',
    least=1,
    most=_MOST,
  )
  trace_start: int = _setting(
    0,
    AVAILABILITY,
    'With avail=trace: the second of its clock at which round 1 starts; 0 is a '
    'midnight.',
    least=0,
    most=_MOST,
  )
  trace_state: str = _setting(
    'ready',
    AVAILABILITY,
    'With avail=trace: what counts as available. A state of the file, e.g. '
    'ready, charging, wifi, locked, or several at the same time: '
    'charging+wifi.',
  )
  trace_assignment: str = _setting(
    'random',
    AVAILABILITY,
    'With avail=trace: who has which phone. At random; or clients with the '
    'most data have those that are available the most, or the least; or '
    'client 0, 1, ... has the phone of that name.',
    traces.ASSIGNMENTS,
  )
  rounds: int = _setting(
    500,
    TRAINING,
    'The number of rounds T.',
    least=1,
    most=_MOST,
  )
  clients_per_round: str = _setting(
    '10',
    AVAILABILITY,
    'The communication constraint K_t: a number, or uniform:LOW,HIGH, or '
    'schedule:K1,K2,..., or markov:K_GOOD,K_BAD,P_TURN_BAD,P_TURN_GOOD.',
  )
  groups: str = _setting(
    '',
    AVAILABILITY,
    'Groups of clients: blocks:G (G equal blocks, called 0, 1, ...), labels '
    "(by a client's most frequent label), or file:PATH (a CSV file with "
    'columns client and group).',
  )
  group_quota: str = _setting(
    '',
    AVAILABILITY,
    'How many clients of a group take part in a round: LEAST..MOST for all '
    'groups, or NAME:LEAST..MOST with commas between; either number may be '
    'left out. With / between, the quotas of round 1, 2, ..., which repeat.',
  )
  delivery: str = _setting(
    '',
    AVAILABILITY,
    'Loss after selection: the probability that a selected client delivers its '
    'update; file:PATH (a CSV file with columns client and probability); or '
    'trace (those of --avail=trace:FILE that stay to the end of the round). By '
    'default all deliver.',
  )
  over_selection: float = _setting(
    1.0,
    AVAILABILITY,
    'Select so many times K_t clients; the first K_t that deliver count. With '
    '--delivery.',
    least=1,
    most=delivery_lib.MOST_OVER_SELECTION,
  )
  rates_count: str = _setting(
    delivery_lib.DELIVERED,
    RATES,
    'What r counts where not all deliver: delivered updates, so that the sum '
    'of updates is unbiased, or selected clients, which favours reliable ones.',
    delivery_lib.COUNTS,
  )
  delivery_in_score: bool = _setting(
    False,
    RATES,
    "Multiply F3AST's scores by the probabilities to deliver: the greedy step "
    'for H over delivered rates. With --delivery.',
  )
  beta: float = _setting(
    0.001,
    RATES,
    'The step of the participation rates.',
  )
  rate_step: Optional[str] = _setting(
    None,
    RATES,
    'How the step of the rates depends on the round t: constant (beta); '
    'annealed:T0, the larger one of beta and 1 / (t + T0); or corrected, which '
    "takes r(0) out of the mean as Adam does. By default the algorithm's.",
  )
  weight_cap: float = _setting(
    0.0,
    RATES,
    'The highest weight of an update; 0 for none.',
    least=0,
  )
  sum_cap: Optional[float] = _setting(
    None,
    RATES,
    'The highest sum of the weights of a round, to which higher ones are '
    "scaled down; 0 for none. By default the algorithm's.",
  )
  rate_init: Optional[str] = _setting(
    None,
    RATES,
    'The rates r(0): kp (K times p, at most 1), p, uniform (K / N), or tie, '
    'where all clients have the same score by the H in use: kp for sum p^2/r, '
    'K sqrt(p) / sum sqrt(p) for sum p/r, at most 1. By default the '
    "algorithm's.",
    rates.INITIAL_RATES,
  )
  num_candidates: int = _setting(
    30,
    METHOD,
    'How many clients Power-of-Choice queries for their loss, its d.',
    least=1,
    most=_MOST_CLIENTS,
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
    most=2**32 - 1,
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
    most=10**6,
  )
  local_epochs: int = _setting(
    1,
    TRAINING,
    'Passes over the local data per round.',
    least=1,
    most=1000,
  )
  local_steps: int = _setting(
    0,
    TRAINING,
    'Local steps per round, E of Algorithm 1: every client makes as many, each '
    'on a full batch, and goes through its data again and again for that; 0 '
    'for --local_epochs.',
    least=0,
    most=10**5,
  )
  parallel_clients: int = _setting(
    0,
    MACHINES,
    'How many clients train at a time, each on its share of the cores; 0 for '
    'as many as there are cores. Sums are rounded differently with another '
    'number.',
    least=0,
    most=10**4,
  )
  eval_every: int = _setting(
    10,
    TESTS,
    'Test every so many rounds, and after the last one.',
    least=1,
    most=_MOST,
  )
  eval_examples: int = _setting(
    0,
    TESTS,
    'Test on so many random test examples, the same ones each time; 0 for all. '
    'User averages are then over the users that hold some of them. The last '
    'test is always on all.',
    least=0,
    most=_MOST,
  )
  checkpoint_every: int = _setting(
    100,
    OUTPUT,
    'Save the state every so many rounds.',
    least=1,
    most=_MOST,
  )

  vectors_in: str = _setting(
    'auto',
    OUTPUT,
    "Where clients' vectors are kept by methods that have them: in memory, in "
    "files of the run's folder, or auto: in memory up to 100 MB, else in "
    'files. The results are the same.',
    ('auto', 'memory', 'files'),
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
      least, most = field.metadata['least'], field.metadata['most']
      if least is not None and value < least:
        raise ValueError(
          f'{field.name} must be at least {least}, but it is {value}.'
        )
      if most is not None and value > most:
        raise ValueError(
          f'{field.name} must be at most {most}, but it is {value}.'
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
    availability.check(self.avail)
    traces.parse_state(self.trace_state)
    released.parse(self.protocol)
    constraint = communication.parse(self.clients_per_round, self.seed)
    chosen = self.selection or methods.ALGORITHMS[self.algorithm].selection
    self._check_groups(chosen)
    self._check_delivery(chosen)
    most = delivery_lib.num_selected(self.over_selection, constraint.maximum)
    if chosen == 'power_of_choice' and self.num_candidates < most:
      raise ValueError(
        f'num_candidates must be at least K for Power-of-Choice, but it is '
        f'{self.num_candidates} and K is up to {most}.'
      )
    optimizer = self.server_optimizer
    optimizer = optimizer or methods.ALGORITHMS[self.algorithm].server_optimizer
    if self.server_rate_file and optimizer != 'sgd':
      raise ValueError(
        'server_rate_file is for server_optimizer=sgd only, but that is '
        f'{optimizer}.'
      )
    self._check_method(optimizer)
    if constraint.mean == 0:
      raise ValueError(
        'clients_per_round is 0 in every round, so nobody would ever train; '
        'give a positive number.'
      )
    if not any(map(constraint, range(1, self.rounds + 1))):
      raise ValueError(
        f'clients_per_round is 0 up to round {self.rounds}, the last one '
        '(--rounds), so nobody would ever train; give a positive number '
        'before that, or more rounds.'
      )

  def _check_method(self, optimizer: str) -> None:
    """Raises a `ValueError` unless a method fits the server's optimizer."""
    name = self.method or methods.ALGORITHMS[self.algorithm].method
    method = methods.parse_method(name)
    if self.rate_step is not None:
      rates.parse_step(self.rate_step)
    if self.sum_cap is not None and self.sum_cap < 0:
      raise ValueError(f'sum_cap must be at least 0, but it is {self.sum_cap}.')
    sum_cap = self.sum_cap
    if sum_cap is None:
      sum_cap = methods.ALGORITHMS[self.algorithm].sum_cap
    methods.check_caps(method, self.weight_cap, sum_cap)
    if self.server_rate_file:
      methods.check_linear('server_rate_file', method)
    if needs_sgd(name) and (
      optimizer != 'sgd' or self.server_learning_rate not in (None, 1)
    ):
      raise ValueError(
        f'The step of {name} is no sum of updates: it needs '
        'server_optimizer=sgd with server_learning_rate=1, but they are '
        f'{optimizer} and {self.server_learning_rate or "the default"}.'
      )

  def _check_groups(self, chosen: str) -> None:
    """Raises a `ValueError` unless target, groups and quotas fit together."""
    target = targets.parse(self.target)
    if self.groups:
      groups_lib.parse_grouping(self.groups)
    if self.group_quota:
      groups_lib.parse(self.group_quota)
      methods.check_quotas(chosen)
      methods.check_over_selection(self.over_selection)
      protocol = released.parse(self.protocol)
      if released.policy_with_departures(chosen, protocol) != chosen:
        raise ValueError(
          'group_quota is for selection as in the paper, but protocol is '
          f'{self.protocol}.'
        )
    is_used = bool(self.group_quota) or target.kind == 'groups'
    if is_used != bool(self.groups):
      there = 'only groups' if self.groups else 'no groups'
      raise ValueError(
        f'groups goes with group_quota or target=groups, but there is {there}; '
        'give both or none.'
      )

  def _check_delivery(self, chosen: str) -> None:
    """Raises a `ValueError` unless what is said of deliveries fits."""
    kind = delivery_lib.parse(self.delivery).kind
    if kind == 'trace' and not self.avail.startswith('trace:'):
      raise ValueError(
        f'delivery=trace needs avail=trace:FILE, but avail is {self.avail}.'
      )
    if kind == 'all':
      for name in ('over_selection', 'rates_count', 'delivery_in_score'):
        if getattr(self, name) != getattr(type(self), name):
          raise ValueError(
            f'{name} is for runs in which not all clients deliver; give '
            'delivery as well.'
          )
    if self.delivery_in_score and chosen != 'f3ast':
      raise ValueError(
        'delivery_in_score is about the scores of f3ast, but selection is '
        f'{chosen}.'
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
      Settings none of which is None.
    """

    def first(value: Any, otherwise: Any) -> Any:
      return otherwise if value is None else value

    preset = methods.ALGORITHMS[self.algorithm]
    optimizer = first(self.server_optimizer, preset.server_optimizer)
    step_sizes = defaults[optimizer]
    method = first(self.method, preset.method)
    if needs_sgd(method):
      step_sizes = step_sizes._replace(server=1.0)
    return dataclasses.replace(
      self,
      parallel_clients=self.parallel_clients or num_cores(),
      selection=first(self.selection, preset.selection),
      method=method,
      rate_init=first(self.rate_init, preset.rate_init),
      rate_step=first(self.rate_step, preset.rate_step),
      sum_cap=first(self.sum_cap, preset.sum_cap),
      server_optimizer=optimizer,
      client_learning_rate=first(self.client_learning_rate, step_sizes.client),
      server_learning_rate=first(self.server_learning_rate, step_sizes.server),
      server_epsilon=first(self.server_epsilon, step_sizes.epsilon),
    )


def needs_sgd(method: str) -> bool:
  """Whether the server's step must be that of SGD at rate 1 for a method."""
  rule = methods.parse_method(method).vectors
  return rule is not None and rule.needs_sgd


def availability_name(settings: Mapping[str, Any]) -> str:
  """Returns what to call the availability of a run: without folders."""
  text = settings['avail']
  name, _, file = text.partition(':')
  return f'trace:{os.path.basename(file)}' if name == 'trace' else text


def method_name(settings: Mapping[str, Any]) -> str:
  """Returns what to call the method of a run, e.g. `fedavg` or `f3ast-yogi`.

  Args:
    settings: The settings of a run, as in its `config.json`.

  Returns:
    The name of the algorithm that the run is, or that has the same selection,
    optimizer and method; otherwise the names of these. What differs from that
    is appended, e.g. `f3ast-sum_cap=1`.
  """
  name = settings['algorithm']
  # One that is not there comes from the run's --add; what it replaced of it is
  # not known.
  own = methods.ALGORITHMS.get(name, methods.Algorithm('', ''))
  run = own._replace(**{
    field: settings[field]
    for field in own._fields
    if settings.get(field) is not None
  })

  def changes(algorithm: methods.Algorithm) -> list[str]:
    return [
      _as_named(field, getattr(run, field))
      for field in ('rate_step', 'sum_cap')
      if getattr(run, field) != getattr(algorithm, field)
    ]

  alike = {
    other: changes(made_of)
    for other, made_of in methods.ALGORITHMS.items()
    if made_of[:3] == run[:3]
  }
  if name not in methods.ALGORITHMS:
    alike = {name: changes(own)}
  elif not alike:
    parts = '-'.join(part for part in run[:3] if part != 'none')
    alike = {parts: changes(methods.Algorithm(*run[:3]))}
  if alike.get(name) != []:
    # The same for the same run, whichever algorithm it was made from.
    name = min(alike, key=lambda other: len(alike[other]))
  extra = alike[name]
  for field in ('weight_cap', 'proximal'):
    if settings.get(field):
      extra.append(_as_named(field, settings[field]))
  return '-'.join([name, *extra])


def _as_named(name: str, value: Any) -> str:
  return f'{name}={value:g}' if isinstance(value, float) else f'{name}={value}'

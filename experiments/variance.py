"""The variance that selection adds to Delta, and the paper's bounds on it.

python -m experiments.variance --output_dir=variance

The updates v_k are real: a softmax model trains on Synthetic(1,1) with F3AST
for some rounds, then every client trains once from that model. They stay fixed,
and the fixed policy (Algorithm 2) at the best rates r* selects clients in many
rounds of each availability model. For Delta = sum over S of p_k / r_k v_k the
table has (without the paper's factor 1 / eta^2, which is on both sides)

  bias       ||mean of Delta - sum p_k v_k||, to be compared with its standard
             error: what it would be by chance for an unbiased Delta
  variance   the mean of ||Delta - sum p_k v_k||^2 over the second half of the
             rounds
  trace      the trace formula, tr(Y Y' Sigma), with Sigma estimated on the
             first half of the rounds
  any        the lemma's first bound, for any availability:
             M (sum p_k / r_k - 1)
  independent  its second bound, for availability that is uncorrelated or
             negatively correlated: M (sum p_k^2 / r_k + sum p_k^2)
  jensen     sum p_k |v_k|^2 (1 / r_k - 1), see below
  worst_case the variance under the same Sigma if all updates had norm sqrt(M)
             and the directions that make it largest (found by ascent from
             random ones)

M is the largest |v_k|^2. The paper has 4 E^2 G^2 eta^2 there, but its proof
uses no more than that all <v_i, v_j> are at most that number; M is the smallest
such number, so the test is as strict as can be.

What the proof does not show: its "-1" in the first bound needs |sum p_k v_k|^2
to be at least M, but it is at most M. The bound holds all the same, because
|sum p_k a_k|^2 <= sum p_k |a_k|^2 for a_k = (1(k in S) / r_k - 1) v_k, whose
mean is `jensen`. The second bound needs Sigma_ij <= 0, which independent
availability does not give (column `positive_pairs`: pairs with Sigma_ij > 0 by
more than 5 standard errors), and, where Sigma_ij < 0, <v_i, v_j> >= 0, which
nothing gives. The row `two_groups` is a system in which it is wrong: 60 clients
that are rarely there (q = .1) and 60 that always are, K = 10, updates +1 and
-1. Its r uses up all there is, so every policy with these rates takes all it
can of the first group and fills up with the second, and the variance is
4 Var(min(K, Binomial)) / K^2.
"""

from collections.abc import Sequence
import os
from typing import NamedTuple

from absl import app
from absl import flags
from absl import logging
import numpy as np
import tqdm

from experiments import cli
from experiments import theory
from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import methods
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff import wording
from f3ast_tff.theory import fixed_policy
from f3ast_tff.theory import optimal_rates
from f3ast_tff.theory import population as population_lib

_TRAIN_K = 10  # Clients per round of training, and their batches, as in the
_BATCH_SIZE = 20  # paper.
_NUM_BATCHES = 50  # Of rounds, for standard errors.
_CHUNK = 10_000  # Rounds selected at a time.
_SURE = 5.0  # Standard errors from 0; there are 10,000 pairs.


class Case(NamedTuple):
  """A system, the rates to attain in it, and the updates of its clients."""

  setting: theory.Setting
  r: np.ndarray
  updates: np.ndarray


def client_updates(
  num_clients: int, train_rounds: int, learning_rate: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Trains with F3AST under Home-devices, then each client once.

  Args:
    num_clients: N.
    train_rounds: Rounds before.
    learning_rate: Of local SGD.
    seed: Decides data, availability, selection and the order of examples.

  Returns:
    p, and v_k, one row per client.
  """
  # Here, because TensorFlow takes seconds to import.
  import tensorflow_federated as tff

  from f3ast_tff.datasets import synthetic
  from f3ast_tff.execution import context
  from f3ast_tff.learning import build
  from f3ast_tff.learning import clients
  from f3ast_tff.models import softmax

  dataset = synthetic.load(num_clients=num_clients, seed=seed)
  training = build.build_training(
    softmax.build(),
    clients.ClientArrays(dataset.train, _BATCH_SIZE),
    methods.build_selector(dataset.p, 'home_devices', _TRAIN_K, seed=seed),
    client_optimizer=tff.learning.optimizers.build_sgdm(learning_rate),
  )

  def weights_of(state) -> np.ndarray:
    trainable = state.global_model_weights.trainable
    return np.concatenate([np.ravel(w) for w in trainable]).astype(float)

  with context.in_process():
    state = training.initialize()
    for t in range(1, train_rounds + 1):
      state = training.next(state, t).state
    before = weights_of(state)

    def after_training(k: int) -> np.ndarray:
      # Alone and with weight 1: then w + Delta is the client's own model.
      alone = selection.Cohort(np.array([k]), np.ones(1))
      inputs = training.inputs(alone, train_rounds + 1)
      return weights_of(training.process.next(state, inputs).state)

    after = np.array([after_training(k) for k in range(num_clients)])
  return dataset.p, after - before


def two_groups(
  num_rare: int = 60,
  q: float = 0.1,
  num_always: int = 60,
  k: int = 10,
  seed: int = 0,
) -> Case:
  """Returns the system in which the second bound is wrong."""
  chances = np.repeat([q, 1.0], [num_rare, num_always])
  model = availability.Independent(chances, seed=seed)
  constraint = communication.fixed(k)
  population = population_lib.population_of(model, constraint)
  # The rare ones first. Then r = K p is the best there is, whatever the form.
  first = optimal_rates.gains(population, np.arange(chances.size))
  group = np.repeat([0, 1], [num_rare, num_always])
  sizes = np.array([num_rare, num_always])
  r = (np.bincount(group, weights=first) / sizes)[group]
  updates = np.where(group == 0, 1.0, -1.0)[:, None]
  setting = theory.Setting(
    'two_groups', r / r.sum(), model, constraint, rates.UNCORRELATED
  )
  return Case(setting, r, updates)


def simulate(
  case: Case, policy: fixed_policy.FixedPolicy, num_rounds: int, seed: int
) -> np.ndarray:
  """Returns who is selected in each round of the availability model."""
  masks, ks = theory.record(case.setting, num_rounds)
  selected = [
    fixed_policy.choose(
      policy,
      masks[first : first + _CHUNK],
      ks[first : first + _CHUNK],
      randomness.generator(seed, 'selection', first),
    )
    for first in range(0, num_rounds, _CHUNK)
  ]
  return np.concatenate(selected)


def _mean_and_error(values: np.ndarray) -> tuple[float, float]:
  """Returns a mean over rounds and its standard error, by batch means.

  Rounds may depend on those shortly before them, long batches hardly do.
  """
  batches = [b.mean() for b in np.array_split(values, _NUM_BATCHES)]
  return float(values.mean()), float(
    np.std(batches, ddof=1) / np.sqrt(_NUM_BATCHES)
  )


def worst_case(
  covariance: np.ndarray, scale: np.ndarray, rng: np.random.Generator
) -> float:
  """Returns the largest variance found for updates of norm 1.

  Args:
    covariance: Sigma.
    scale: p_k / r_k.
    rng: Draws where to start.

  Returns:
    A local maximum over directions, at least the value at the start.
  """
  form = covariance * np.outer(scale, scale)
  best = 0.0
  for _ in range(3):
    v = rng.standard_normal((scale.size, 20))
    for _ in range(300):
      # The form is positive semidefinite: going along the gradient and back to
      # norm 1 never decreases it.
      v /= np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-300)
      best = max(best, float((v * (form @ v)).sum()))
      v = form @ v + 1e-12 * v
  return best


def measure(case: Case, selected: np.ndarray, seed: int) -> theory.Row:
  """Returns the row of a case: bias, variance, trace formula and bounds.

  Args:
    case: The system, rates and updates.
    selected: Who is selected, shape [rounds, N].
    seed: Decides where the search for the worst case starts.

  Returns:
    The row.
  """
  p, r, v = case.setting.p, case.r, case.updates
  scale = rates.weights(p, r)
  y = scale[:, None] * v
  gram = y @ y.T
  first, second = np.array_split(selected.astype(float), 2)

  # Delta - sum p v = (1_S - r)' Y, and so its square needs the Gram matrix.
  deviation = second - r
  squares = ((deviation @ gram) * deviation).sum(axis=1)
  variance, variance_error = _mean_and_error(squares)
  around_mean = first - first.mean(axis=0)
  sigma = around_mean.T @ around_mean / len(first)
  trace, trace_error = _mean_and_error(
    ((around_mean @ gram) * around_mean).sum(axis=1)
  )

  batches = np.array([
    b.mean(axis=0) @ y for b in np.array_split(selected, _NUM_BATCHES)
  ])
  target = p @ v
  bias = float(np.linalg.norm(selected.mean(axis=0) @ y - target))
  bias_error = float(
    np.sqrt(batches.var(axis=0, ddof=1).sum() / _NUM_BATCHES)
  )

  norms = (v**2).sum(axis=1)
  largest = norms.max()
  products = [
    b.T @ b / len(b) for b in np.array_split(around_mean, _NUM_BATCHES)
  ]
  chance = np.std(products, axis=0, ddof=1) / np.sqrt(_NUM_BATCHES)
  pairs = ~np.eye(p.size, dtype=bool)
  is_positive = (sigma > _SURE * chance)[pairs]
  # Its diagonal is known, and with it most of what chance does to the rest.
  np.fill_diagonal(sigma, r * (1 - r))
  any_bound = float(largest * ((p / r).sum() - 1))
  independent_bound = float(largest * ((p**2 / r).sum() + (p**2).sum()))
  applies = not case.setting.availability.positively_correlated
  rng = randomness.generator(seed, 'worst case')

  def verdict(bound: float) -> str:
    return 'yes' if variance <= bound else 'NO'

  return {
    'avail': case.setting.name,
    'bias': bias,
    'bias_se': bias_error,
    'relative_bias': bias / max(float(np.linalg.norm(target)), 1e-300),
    'variance': variance,
    'variance_se': variance_error,
    'trace': trace,
    'trace_se': trace_error,
    'any': any_bound,
    'any_holds': verdict(any_bound),
    'independent': independent_bound,
    'independent_applies': 'yes' if applies else 'no',
    'independent_holds': verdict(independent_bound),
    'jensen': float((p * norms * (1 / r - 1)).sum()),
    'worst_case': float(largest) * worst_case(sigma, scale, rng),
    'positive_pairs': float(is_positive.mean()),
  }


_PRINTED = (
  'avail',
  'bias',
  'bias_se',
  'variance',
  'variance_se',
  'trace',
  'trace_se',
  'any',
  'any_holds',
  'independent',
  'independent_applies',
  'independent_holds',
  'worst_case',
  'positive_pairs',
)


def _check_names(names: Sequence[str]) -> list[str]:
  """Returns the names that need updates: all but the counterexample."""
  known = (*theory.MODELS, 'two_groups')
  for name in names or ['']:
    if name not in known:
      raise ValueError(
        f'avail must name some of {", ".join(known)}, but has {name!r}.'
      )
  return [name for name in names if name != 'two_groups']


def define_flags() -> None:
  """Defines the flags: here, so that importing the module defines none."""
  theory.define_picture_dir()
  flags.DEFINE_list(
    'avail', [*theory.MODELS, 'two_groups'], 'The availability models.'
  )
  flags.DEFINE_string(
    'clients_per_round', '10', 'The communication constraint K_t.'
  )
  flags.DEFINE_integer(
    'num_clients', 100, 'The number of clients N.', lower_bound=1
  )
  flags.DEFINE_integer(
    'train_rounds', 50, 'Rounds of training before the updates.', lower_bound=0
  )
  flags.DEFINE_float('client_learning_rate', 0.01, 'Step size of local SGD.')
  flags.DEFINE_integer(
    'rounds', 100_000, 'Rounds in which clients are selected.', lower_bound=200
  )
  flags.DEFINE_integer(
    'fit_iterations', 200, 'How long prices are fitted.', lower_bound=1
  )
  flags.DEFINE_integer(
    'seed', 0, 'Decides everything that is random.', lower_bound=0
  )


def main(argv: Sequence[str]) -> None:
  """Measures all models and writes table and picture."""
  del argv
  given = flags.FLAGS
  seed = given.seed
  with cli.one_sentence(ValueError, 2):
    real = _check_names(given.avail)
    communication.parse(given.clients_per_round, seed)
    learning_rate = given.client_learning_rate
    if not (np.isfinite(learning_rate) and learning_rate > 0):
      raise ValueError(
        f'client_learning_rate must be above 0, but it is {learning_rate}.'
      )
    tables = theory.output_dir('runs/theory')
    pictures = theory.picture_dir(tables)
  cases = []
  if real:
    logging.set_verbosity(logging.WARNING)
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    try:
      p, updates = client_updates(
        given.num_clients, given.train_rounds, learning_rate, seed
      )
    except ImportError as error:
      cli.fail(f'TensorFlow Federated cannot be imported ({error}).', 2)
    norms = np.linalg.norm(updates, axis=1)
    inner = (updates @ updates.T)[~np.eye(p.size, dtype=bool)]
    print(
      f'{wording.count(p.size, "client")}, {updates.shape[1]} parameters, '
      f'after {wording.count(given.train_rounds, "round")}: |v_k| from '
      f'{norms.min():.4g} to {norms.max():.4g}, |sum p v| = '
      f'{np.linalg.norm(p @ updates):.4g}, '
      f'<v_i, v_j> < 0 for {(inner < 0).mean():.0%} of the pairs'
    )
    with cli.one_sentence(ValueError, 2):
      for setting in theory.settings(real, p, given.clients_per_round, seed):
        best = optimal_rates.for_model(
          setting.availability, setting.constraint, p, setting.correlation
        )
        cases.append(Case(setting, best.rates, updates))
  if 'two_groups' in given.avail:
    cases.append(two_groups(seed=seed))
  rows = []
  for case in tqdm.tqdm(cases, disable=None):
    population = population_lib.population_of(
      case.setting.availability, case.setting.constraint
    )
    policy = fixed_policy.fit(population, case.r, seed, given.fit_iterations)
    selected = simulate(case, policy, given.rounds, seed)
    rows.append(measure(case, selected, seed))
  theory.write_csv(tables / 'variance.csv', rows)
  import pandas as pd  # Slow to import, as is matplotlib.

  from experiments.paper import theory_figures as report

  report.draw_variance(pd.DataFrame(rows), pictures / 'variance')
  print(theory.markdown([{k: row[k] for k in _PRINTED} for row in rows]))
  print(f'Files: {tables / "variance.csv"}, {pictures / "variance.png"}, .svg')


if __name__ == '__main__':
  define_flags()
  app.run(main, flags_parser=cli.parse_flags)

"""Where the authors' released code departs from the paper, as switches.

The paper (`--protocol=paper`) is the specification. The code that its authors
released does some things differently, and those may be part of the numbers they
report. `--protocol=released` turns all of them on; a list of names, such as
`--protocol=divide_by_k,linspace_sine`, turns on those.

What is not here: the released code reads availability probabilities from files
that were not released, and steps r twice when a failed round is repeated.
"""

import dataclasses
from typing import Union

import numpy as np

from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff.methods import f3ast as f3ast_lib
from f3ast_tff.methods import power_of_choice as power_of_choice_lib


@dataclasses.dataclass(frozen=True)
class Protocol:
  """Which departures are on.

  Attributes:
    rates_start_at_p: r(0) = p, so that weights p / r sum to K at first.
    divide_by_k: F3AST's sum of weighted updates is divided by K as well.
    count_batches: p counts a client's batches instead of its examples.
    draw_with_replacement: FedAvg and FedAdam draw with replacement, and weigh
      updates by the number of predictions: data size counts twice.
    losses_of_training: Power-of-Choice draws candidates with replacement, all
      of them train with gradients clipped to norm 1, those with the highest
      mean loss during that training count, weighted by number of predictions.
    linspace_sine: Smartphones' day is 24 points from 0 to 2 pi, both included,
      so that its first and last hour are the same.
    fill_with_unavailable: When fewer than K clients are available, F3AST takes
      unavailable ones as well; ties go to the lowest index.
    uncorrelated_h: H = sum p^2 / r for every availability model.
    one_availability: Who is available is the same for every seed.
  """

  rates_start_at_p: bool = False
  divide_by_k: bool = False
  count_batches: bool = False
  draw_with_replacement: bool = False
  losses_of_training: bool = False
  linspace_sine: bool = False
  fill_with_unavailable: bool = False
  uncorrelated_h: bool = False
  one_availability: bool = False


NAMES = tuple(field.name for field in dataclasses.fields(Protocol))

# The greatest norm of a gradient with `losses_of_training`.
CLIP_NORM = 1.0
# The seed of availability with `one_availability`.
AVAILABILITY_SEED = 1


def parse(text: str) -> Protocol:
  """Returns the protocol that a flag names.

  Args:
    text: `paper`, `released`, or names of departures with commas between.

  Returns:
    The protocol.
  """
  if text == 'paper':
    return Protocol()
  names = NAMES if text == 'released' else text.split(',')
  unknown = [name for name in names if name not in NAMES]
  if unknown:
    raise ValueError(
      f'protocol must be paper, released, or some of {", ".join(NAMES)} with '
      f'commas between, but it holds {unknown[0]!r}.'
    )
  return Protocol(**{name: True for name in names})


def share_of_batches(num_examples: np.ndarray, batch_size: int) -> np.ndarray:
  """Returns each client's share of all batches, p with `count_batches`."""
  batches = -(-num_examples // batch_size)
  return batches / batches.sum()


def _top_k_of_all(
  scores: np.ndarray, available: np.ndarray, k: int
) -> np.ndarray:
  """Returns the k highest of all clients; who is away scores 0."""
  order = np.argsort(-np.where(available, scores, 0.0), kind='stable')
  return np.sort(order[:k])


def f3ast(
  s: selection.Situation, protocol: Protocol, rng: np.random.Generator
) -> selection.Cohort:
  """F3AST, with `fill_with_unavailable` and `divide_by_k`."""
  if protocol.fill_with_unavailable:
    scores = -rates.gradient(s.p, s.r, s.correlation)
    clients = _top_k_of_all(scores, s.available, s.k)
    r = rates.update(s.r[clients], np.ones(clients.size), s.beta)
    cohort = selection.Cohort(clients, rates.weights(s.p[clients], r))
  else:
    cohort = f3ast_lib.select(s, rng)
  if protocol.divide_by_k:
    cohort = cohort._replace(weights=cohort.weights / max(1, s.k))
  return cohort


def _by_predictions(
  drawn: np.ndarray, num_predictions: np.ndarray
) -> selection.Cohort:
  """Returns a cohort weighted by data size; who was drawn twice counts twice.

  The released code lets such a client train twice, in two orders of its data.
  Here it trains once, with the weight of two.
  """
  clients, times = np.unique(drawn, return_counts=True)
  weights = times * num_predictions[clients].astype(float)
  return selection.Cohort(clients, weights / max(1.0, weights.sum()))


@selection.averages
def proportional(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """FedAvg and FedAdam with `draw_with_replacement`."""
  drawn = selection.draw_by_share_with_replacement(
    s.p, s.available, s.k, rng
  )
  return _by_predictions(drawn, s.num_predictions)


@selection.averages
@selection.needs_losses
def power_of_choice(
  s: selection.Situation, rng: np.random.Generator
) -> selection.Cohort:
  """Power-of-Choice with `losses_of_training`.

  Args:
    s: The situation; its `losses_of` are the losses during local training.
    rng: Draws the candidates and breaks ties.

  Returns:
    The cohort.
  """
  candidates = selection.draw_by_share_with_replacement(
    s.p, s.available, s.num_candidates if s.k > 0 else 0, rng
  )
  if candidates.size == 0:
    return _by_predictions(candidates, s.num_predictions)
  clients, place = np.unique(candidates, return_inverse=True)
  losses = np.asarray(s.losses_of(clients))[place]
  best = power_of_choice_lib.highest(losses, s.k, rng)
  return _by_predictions(candidates[best], s.num_predictions)


def policy_with_departures(
  name: str, protocol: Protocol
) -> Union[str, selection.Policy]:
  """Returns a policy with the departures that concern it; else its name."""
  if name == 'f3ast' and (
    protocol.fill_with_unavailable or protocol.divide_by_k
  ):

    def with_departures(
      s: selection.Situation, rng: np.random.Generator
    ) -> selection.Cohort:
      return f3ast(s, protocol, rng)

    if protocol.fill_with_unavailable:
      return selection.takes_unavailable(with_departures)
    return with_departures
  if name == 'proportional' and protocol.draw_with_replacement:
    return proportional
  if name == 'power_of_choice' and protocol.losses_of_training:
    return power_of_choice
  return name

"""Groups of clients, and quotas: how many of each may or must take part.

In round t at least l_g and at most m_g clients of group g take part, and at
most K_t in all. Where fewer than l_g clients of a group are available, all of
them take part: the bound is relaxed to what is available. So the feasible sets
are

  C_t = {S in A_t : |S| <= K_t, min(l_g, |A_t n g|) <= |S n g| <= m_g}.

Each client is in one group. The sets within the upper bounds are those of a
partition matroid, cut at K_t, so that a greedy rule finds the one with the
largest sum of scores (Rado, Edmonds): the best l_g of each group first, then
the best of the others as long as their group and the round have room. With
groups that overlap it would not.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import math
import re
from typing import NamedTuple, Optional

import numpy as np

from f3ast_tff import communication
from f3ast_tff import randomness

_ENTRY = re.compile(r'(?:(.+):)?([0-9]{0,9})\.\.([0-9]{0,9})', re.DOTALL)


class Bounds(NamedTuple):
  """How many clients of each group take part in a round.

  Attributes:
    group_of: Each client's group, from 0.
    least: l_g, one number per group.
    most: m_g, one number per group.
  """

  group_of: np.ndarray
  least: np.ndarray
  most: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Quotas:
  """The bounds of all rounds; `quotas` makes them from names and a text.

  Attributes:
    names: What the groups are called.
    group_of: Each client's group, an index into `names`.
    least: l_g, a row per round and a column per group. After the last row the
      first one comes again.
    most: m_g, of the same shape.
  """

  names: Sequence[str]
  group_of: np.ndarray
  least: np.ndarray
  most: np.ndarray

  def __post_init__(self) -> None:
    num_groups, of = len(self.names), self.group_of
    if of.ndim != 1 or of.dtype.kind not in 'iu' or not (
      (of >= 0) & (of < num_groups)
    ).all():
      raise ValueError(
        f'group_of must hold a whole number from 0 to {num_groups - 1} for '
        'each client, its group, but it does not.'
      )
    shapes = {self.least.shape, self.most.shape}
    if shapes != {(len(self.least), num_groups)} or not self.least.size:
      raise ValueError(
        'least and most must have a row per round and a column for each of the '
        f'{num_groups} groups, but their shapes are {self.least.shape} and '
        f'{self.most.shape}.'
      )
    sizes = np.bincount(of, minlength=num_groups)
    wrong = (self.least < 0) | (self.least > np.minimum(self.most, sizes))
    for row, g in np.argwhere(wrong):
      raise ValueError(
        f'At least {self.least[row, g]} and at most {self.most[row, g]} '
        f'clients of group {self.names[g]!r} are to take part, but it has '
        f'{sizes[g]}; the first number must be at least 0 and at most the '
        'others.'
      )

  def __call__(self, round_num: int) -> Bounds:
    """Returns the bounds of round t."""
    randomness.check_round(round_num)
    row = (round_num - 1) % len(self.least)
    return Bounds(self.group_of, self.least[row], self.most[row])


class Grouping(NamedTuple):
  """How clients are put into groups.

  Attributes:
    kind: `blocks`, `labels` or `file`.
    number: How many blocks.
    path: Of `file`.
  """

  kind: str
  number: int = 0
  path: str = ''


def parse_grouping(text: str) -> Grouping:
  """Returns the grouping that a flag names.

  Args:
    text: `blocks:4`, `labels` or `file:PATH`.

  Returns:
    The grouping.
  """
  kind, colon, rest = text.partition(':')
  if kind == 'blocks' and re.fullmatch('[1-9][0-9]{0,8}', rest):
    return Grouping(kind, int(rest))
  if kind == 'labels' and not colon:
    return Grouping(kind)
  if kind == 'file' and rest:
    return Grouping(kind, path=rest)
  raise ValueError(
    f'groups is {text!r}, but it must be blocks:G with a number G of groups, '
    'labels, or file:PATH.'
  )


def blocks(num_clients: int, num_groups: int) -> list[str]:
  """Returns the groups 0, 1, ... of clients in blocks of equal size, or nearly.

  Args:
    num_clients: N.
    num_groups: G, at most N.

  Returns:
    The name of each client's group.
  """
  if num_groups > num_clients:
    raise ValueError(
      f'groups=blocks:{num_groups} needs as many clients, but there are '
      f'{num_clients}.'
    )
  return [str(k * num_groups // num_clients) for k in range(num_clients)]


def by_label(label_shares: np.ndarray) -> list[str]:
  """Returns the groups of clients by their most frequent label.

  Args:
    label_shares: The share of each label among a client's examples, shape [N,
      number of labels].

  Returns:
    The name of each client's group: the label, the smallest of several.
  """
  return [str(label) for label in label_shares.argmax(axis=1)]


def numbered(groups: Sequence[str]) -> tuple[list[str], np.ndarray]:
  """Returns the names of the groups, and each client's as an index into them.

  Args:
    groups: The name of each client's group.

  Returns:
    The names in the order in which they come, and the indices.
  """
  place = {name: g for g, name in enumerate(dict.fromkeys(groups))}
  return list(place), np.array([place[name] for name in groups], np.intp)


def parse(text: str) -> Sequence[Mapping[str, tuple[int, Optional[int]]]]:
  """Returns the quotas that a text gives.

  Args:
    text: `0..3` for all groups, or `a:1..3,b:..2` for some and perhaps `0..3`
      for all others; either number may be left out. With / between, the quotas
      of rounds 1, 2, ..., which then start over.

  Returns:
    For each round, l_g and m_g (None for no bound) of the groups by name, and
    of all others under ''.
  """
  rounds = []
  for of_round in text.split('/'):
    quota: dict[str, tuple[int, Optional[int]]] = {}
    for entry in of_round.split(','):
      match = _ENTRY.fullmatch(entry)
      if match is None or (match[1] or '') in quota:
        raise ValueError(
          f'group_quota is {text!r}, but it must read like 0..3 or '
          'a:1..3,b:..2 for each group once, with / between the rounds of a '
          'schedule.'
        )
      least, most = int(match[2] or 0), int(match[3]) if match[3] else None
      if most is not None and least > most:
        raise ValueError(
          f'group_quota has {entry!r}, but the first number of clients must '
          'not exceed the second.'
        )
      quota[match[1] or ''] = least, most
    rounds.append(quota)
  return rounds


def quotas(groups: Sequence[str], text: str) -> Quotas:
  """Returns the quotas of clients whose groups have names.

  Args:
    groups: The name of each client's group.
    text: The quotas, see `parse`.

  Returns:
    The quotas. A group that the text does not name has no bounds.
  """
  names, group_of = numbered(groups)
  sizes = np.bincount(group_of, minlength=len(names))
  rounds = parse(text)
  least, most = np.zeros((2, len(rounds), len(names)), np.int64)
  for row, quota in enumerate(rounds):
    unknown = set(quota) - set(names) - {''}
    if unknown:
      raise ValueError(
        f'group_quota names the group {min(unknown)!r}, but the groups are '
        f'{", ".join(map(repr, names[:10]))}'
        f'{", ..." if len(names) > 10 else ""}.'
      )
    others = quota.get('', (0, None))
    for g, name in enumerate(names):
      least[row, g], bound = quota.get(name, others)
      most[row, g] = sizes[g] if bound is None else bound
  return Quotas(names, group_of, least, most)


def check(quotas_: Quotas, constraint: communication.Constraint) -> None:
  """Raises a `ValueError` if a round needs more clients than K_t.

  What is checked is whatever is known beforehand: a schedule of K round by
  round, else the smallest K. For a constraint of your own that has no `minimum`
  it is the round that fails, in `best_set`.

  Args:
    quotas_: The quotas.
    constraint: What gives K_t.
  """
  k: Sequence[Optional[int]] = (getattr(constraint, 'minimum', None),)
  if isinstance(constraint, communication.Schedule):
    k = constraint.values
  needed = quotas_.least.sum(axis=1)
  # Two schedules that repeat: entries i and j meet in some round if and only if
  # i - j is a multiple of this.
  step = math.gcd(len(k), len(needed))
  for i, k_t in enumerate(k):
    most = needed[i % step :: step].max()
    if k_t is not None and k_t < most:
      raise ValueError(
        f'group_quota requires {most} clients in a round, but clients_per_round'
        f' can be {k_t} there; lower the one or raise the other.'
      )


def best_set(
  scores: np.ndarray,
  available: np.ndarray,
  k: int,
  bounds: Bounds,
  rng: np.random.Generator,
  tie: float = 0.0,
) -> np.ndarray:
  """Returns the feasible set with the largest sum of scores, ascending.

  Equal scores are broken at random, as if a tiny random number had been added
  to each.

  Args:
    scores: One score >= 0 per client, infinity allowed.
    available: The mask A_t.
    k: K_t.
    bounds: The quotas of the round.
    rng: Breaks ties.
    tie: Scores this close (relatively) are equal.

  Returns:
    Client indices.

  Raises:
    ValueError: If the quotas require more than K_t clients.
  """
  clients = np.flatnonzero(available)
  clients = clients[np.argsort(-scores[clients])]
  ordered = scores[clients]
  if np.isnan(ordered).any():
    raise ValueError('Scores must be numbers, but some are NaN.')
  is_less = ordered[1:] < (1 - tie) * ordered[:-1]
  rank = np.concatenate([[0], np.cumsum(is_less)])[: clients.size]
  clients = clients[np.lexsort((rng.random(clients.size), rank))]
  # How many of a client's group come before it.
  group = bounds.group_of[clients]
  by_group = np.argsort(group, kind='stable')
  place = np.empty_like(by_group)
  place[by_group] = np.arange(group.size)
  place -= np.searchsorted(group[by_group], group)
  is_needed = place < bounds.least[group]
  room = k - np.count_nonzero(is_needed)
  if room < 0:
    raise ValueError(
      f'The quotas require {k - room} of the available clients to take part, '
      f'but K is {k}; lower them or raise K.'
    )
  others = clients[~is_needed & (place < bounds.most[group])][:room]
  return np.sort(np.concatenate([clients[is_needed], others]))

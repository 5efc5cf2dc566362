"""Clients that take part in a round without an update that counts."""

from collections.abc import Sequence

from absl import logging
import numpy as np

from f3ast_tff.datasets import federated
from f3ast_tff.execution import rounds as rounds_lib


class ExcludedClients:
  """Names in the log the clients whose updates do not count."""

  def __init__(self, train: Sequence[federated.Examples]):
    self._train = train
    self._num_examples = np.array([len(examples['y']) for examples in train])
    self._named: set[tuple[int, str]] = set()

  def log(self, round_: rounds_lib.Round, round_num: int) -> None:
    """Names each client once for each reason, so that logs stay short."""
    mask = round_.metrics['selection']['excluded_clients']
    by_reason: dict[str, list[int]] = {}
    found = np.setdiff1d(np.flatnonzero(mask), round_.lost)
    for client in found.tolist():
      if client in round_.failed:
        reason = 'whose training fails'
      elif self._num_examples[client] == 0:
        reason = 'without examples'
      elif not federated.finite_rows(self._train[client]).all():
        reason = 'whose examples are not finite'
      else:
        reason = 'whose update is not finite'
      if (client, reason) not in self._named:
        self._named.add((client, reason))
        by_reason.setdefault(reason, []).append(client)
    for reason, clients in by_reason.items():
      logging.warning(
        'Round %d excludes clients %s: %s. This is said once of each.',
        round_num,
        reason,
        ', '.join(map(str, clients)),
      )

  def expected_and_counted(self, round_: rounds_lib.Round) -> tuple[int, int]:
    """Returns how many updates were to be expected, and how many counted.

    Args:
      round_: The round.

    Returns:
      Clients with examples that deliver, and who of these gave an update. Where
      training fails, one was expected: if that is so at each client, the run
      must not go on to its end as if all were well.
    """
    expected = int((self._num_examples[round_.delivered] > 0).sum())
    measured = round_.metrics['selection']
    return expected, int(measured['selected'] - measured['excluded'])

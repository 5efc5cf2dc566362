"""Which client has which phone of a trace.

Every phone is dealt once before any is dealt again. Where there are more
clients than phones, the next client of a phone has it shifted by a whole day
more, so that its hours stay and its days are other ones; copies are alike from
there on where a phone has fewer days than clients.
"""

from typing import NamedTuple

import numpy as np

from f3ast_tff import randomness
from f3ast_tff.traces import recording as recording_lib
from f3ast_tff.traces import trace as trace_lib

BY_NAME = 'by_name'
# By how clients are ordered by their data, and phones by their time.
_ORDERS = {
  'most_data_most_available': (-1, -1),
  'most_data_least_available': (-1, 1),
}
ASSIGNMENTS = ('random', *_ORDERS, BY_NAME)


class Assignment(NamedTuple):
  """The phone of each client.

  Attributes:
    phones: The index of its phone.
    shifts: By how many days the client is ahead in the phone's recording.
  """

  phones: np.ndarray
  shifts: np.ndarray


def assign(
  trace: trace_lib.Trace, p: np.ndarray, how: str = 'random', seed: int = 0
) -> Assignment:
  """Assigns phones to clients.

  Args:
    trace: The phones.
    p: Each client's share of the data.
    how: `random` is independent of the data. `most_data_most_available` and
      `most_data_least_available` deal at random which phones are used, and then
      give the one with the most or the least time to the client with the most
      data, and so on. `by_name` gives client k = 0, 1, ... the phone of that
      name.
    seed: Decides what is drawn.

  Returns:
    The assignment.

  Raises:
    ValueError: If there is no such way, or names are not those of the clients.
  """
  if how not in ASSIGNMENTS:
    raise ValueError(
      f'trace_assignment must be one of {", ".join(ASSIGNMENTS)}, but it is '
      f'{how!r}.'
    )
  if how == BY_NAME:
    return _by_name(trace, p.size)
  rng = randomness.generator(seed, 'phones of clients')
  num_phones = len(trace.names)
  num_deals = -(-p.size // num_phones)
  deals = [rng.permutation(num_phones) for _ in range(num_deals)]
  phones = np.concatenate(deals)[: p.size]
  shifts = np.arange(p.size) // num_phones % trace.days[phones]
  if how in _ORDERS:
    of_data, of_time = _ORDERS[how]
    # Equal ones are ordered at random: phones are already, clients are here.
    clients = rng.permutation(p.size)
    clients = clients[np.argsort(of_data * p[clients], kind='stable')]
    by_time = np.argsort(of_time * trace.shares[phones], kind='stable')
    dealt = phones[by_time], shifts[by_time]
    phones, shifts = np.empty_like(phones), np.empty_like(shifts)
    phones[clients], shifts[clients] = dealt
  return Assignment(phones, shifts)


def _by_name(trace: trace_lib.Trace, num_clients: int) -> Assignment:
  """Gives each client the phone that has its number for a name."""
  phone_of = {name: phone for phone, name in enumerate(trace.names)}
  clients = [str(k) for k in range(num_clients)]
  for name in clients:
    if name not in phone_of:
      raise recording_lib.TraceError(
        f'The trace {trace.path} has no phone {name!r}, but with '
        f'trace_assignment={BY_NAME} it must have one for each of the clients '
        f'0 to {num_clients - 1}.'
      )
  if len(phone_of) > num_clients:
    other = next(name for name in trace.names if name not in set(clients))
    raise recording_lib.TraceError(
      f'The trace {trace.path} has a phone {recording_lib.short(other)}, which '
      f'is none of the clients 0 to {num_clients - 1}; leave it out, or choose '
      f'another trace_assignment than {BY_NAME}.'
    )
  return Assignment(
    np.array([phone_of[name] for name in clients]),
    np.zeros(num_clients, np.int64),
  )

"""What users' own models and policies return, checked where it comes in.

An error is one sentence with the name of what returned the value. No check of
what selects looks at all clients: masks are checked by shape and type, cohorts
by their members. What a method keeps is checked whole.
"""

from collections.abc import Iterable, Mapping
import difflib
import functools
import numbers
import reprlib
import types
from typing import Any, Optional

import numpy as np


class ResultError(ValueError):
  """A model, policy or constraint returned what it should not."""


def is_whole(value: Any, least: int) -> bool:
  """Returns whether a value is a whole number, and not too small."""
  return isinstance(value, numbers.Integral) and int(value) >= least


def name_of(thing: Any) -> str:
  """Returns what the user calls a function, a class or the class of a thing."""
  if isinstance(thing, functools.partial):
    thing = thing.func
  return getattr(thing, '__name__', type(thing).__name__)


def describe(value: Any) -> str:
  """Returns what a value is, for the end of a sentence."""
  if value is None or isinstance(value, (numbers.Number, np.generic)):
    return str(value)
  if isinstance(value, str):
    return f'the text {reprlib.repr(value)}'
  if isinstance(value, np.ndarray):
    return f'an array of shape {value.shape} and type {value.dtype}'
  if isinstance(value, type):
    return f'the class {value.__name__}'
  if isinstance(value, types.ModuleType):
    return f'the module {value.__name__}'
  if isinstance(value, (types.FunctionType, types.MethodType)):
    return f'the function {value.__name__}'
  if isinstance(value, (list, tuple)) and type(value).__name__ in (
    'list', 'tuple'
  ):
    return f'a {type(value).__name__} of {len(value)}'
  return f'a value of type {type(value).__name__}'


def unknown(
  what: str, name: str, known: Iterable[str], meant: str = ''
) -> ValueError:
  """Returns the error of a name that is none of the known ones.

  Args:
    what: What it is the name of.
    name: The name.
    known: The known ones.
    meant: What the nearest one is looked for; the name by default.

  Returns:
    The error, whose sentence ends with the nearest one.
  """
  known = list(known)
  text = (meant or name).lower().replace(' ', '_')
  near = difflib.get_close_matches(text, known, 1)
  hint = f'; did you mean {near[0]!r}?' if near else '.'
  return ValueError(
    f'{what} must be one of {", ".join(known)} or one of your own, but it is '
    f'{name!r}{hint}'
  )


def _check_members(must: str, thing: Any, *members: str) -> None:
  """Raises a `ValueError` unless a thing has members and can be called."""
  lacks = [name for name in members if not hasattr(thing, name)]
  if isinstance(thing, type) or not callable(thing) or lacks:
    is_near = lacks and callable(thing)
    without = f', which has no {lacks[0]}' if is_near else ''
    raise ValueError(
      f'{must} an object with {", ".join(members)} that can be called with a '
      f'round, but it is {describe(thing)}{without}.'
    )


def check_availability(must: str, model: Any) -> None:
  """Raises a `ValueError` unless it has what all availability models have."""
  _check_members(
    must, model, 'num_clients', 'positively_correlated', 'probabilities'
  )


def check_constraint(must: str, constraint: Any) -> None:
  """Raises a `ValueError` unless it has what all constraints have."""
  _check_members(must, constraint, 'mean', 'maximum')


def check_number_of_clients(availability: Any, num_clients: int) -> None:
  """Raises a `ValueError` unless a model is for as many clients as p."""
  if availability.num_clients != num_clients:
    raise ValueError(
      f'The availability model {name_of(availability)} has '
      f'{availability.num_clients} clients, but p has {num_clients}; build '
      'both for the same clients.'
    )


def check_rates(name: str, r: Any, num_clients: int) -> None:
  """Raises a `ValueError` unless there is a rate for each client."""
  if np.shape(r) != (num_clients,):
    raise ValueError(
      f'{name} must hold the rates of all {num_clients} clients, as '
      f'selector.initial_rates does, but it is {describe(r)}.'
    )


def check_mask(
  mask: Any, num_clients: int, availability: Any = None, round_num: int = 0
) -> None:
  """Raises a `ResultError` unless a value is a mask of all clients.

  Args:
    mask: The value.
    num_clients: N.
    availability: The model that returned it, None if it was given.
    round_num: The round that it is for.
  """
  if (
    not isinstance(mask, np.ndarray)
    or mask.dtype.kind != 'b'
    or mask.shape != (num_clients,)
  ):
    whose = 'available'
    if availability is not None:
      name = name_of(availability)
      whose = f'What the availability model {name} returns in round {round_num}'
    raise ResultError(
      f'{whose} must be an array of {num_clients} booleans, one for each '
      f'client, but it is {describe(mask)}.'
    )


def check_count(k: Any, constraint: Any, round_num: int) -> None:
  """Raises a `ResultError` unless K_t is a number of clients."""
  if not is_whole(k, 0):
    raise ResultError(
      f'The constraint {name_of(constraint)} must return a whole number >= 0, '
      f'but K_t in round {round_num} is {describe(k)}.'
    )


def check_losses(losses: Any, clients: Any) -> np.ndarray:
  """Returns losses as an array; raises unless each client has a number."""
  array = np.asarray(losses)
  if array.shape != np.shape(clients) or array.dtype.kind not in 'fiu':
    raise ResultError(
      f'losses_of must return a number for each of the {np.size(clients)} '
      f'clients that it is given, but it returned {describe(losses)}.'
    )
  return array


def check_cohort(
  cohort: Any, situation: Any, policy: Any, round_num: int
) -> None:
  """Raises a `ResultError` unless a policy returned a cohort it may return.

  Args:
    cohort: What it returned.
    situation: The `selection.Situation` that it was given.
    policy: The policy; see `selection.takes_unavailable`.
    round_num: The round.
  """

  def fail(must: str, but: str) -> None:
    raise ResultError(
      f'The policy {name_of(policy)} must return {must}, but in round '
      f'{round_num} {but}.'
    )

  fields = getattr(cohort, '_fields', None)
  if not isinstance(cohort, tuple) or fields != ('clients', 'weights'):
    fail('a selection.Cohort', f'it returned {describe(cohort)}')
  clients, weights = cohort
  if not _is_vector(clients, 'iu'):
    fail(
      'the indices of clients as an array of whole numbers, such as '
      'np.array([0, 2], int)',
      f'the clients of its cohort are {describe(clients)}',
    )
  if not _is_vector(weights, 'fiu') or weights.size != clients.size:
    fail(
      'an array with one weight for each client of the cohort',
      f'for {clients.size} clients the weights are {describe(weights)}',
    )
  if not clients.size:
    return
  num_clients = situation.available.size
  outside = (clients < 0) | (clients >= num_clients)
  if outside.any():
    fail(
      f'indices of clients from 0 to {num_clients - 1}',
      f'one is {clients[outside][0]}',
    )
  # Sorting only where they are not ascending already.
  if not (clients[1:] > clients[:-1]).all():
    found, times = np.unique(clients, return_counts=True)
    if found.size < clients.size:
      fail(
        'each client once, with all its weight',
        f'client {found[times > 1][0]} is in the cohort {times.max()} times',
      )
  available = situation.available[clients]
  if not (available.all() or getattr(policy, 'takes_unavailable', False)):
    fail(
      'available clients only',
      f'client {clients[~available][0]} is not available',
    )
  if clients.size > situation.k:
    fail(
      f'at most K_t = {situation.k} clients', f'it returned {clients.size}'
    )
  is_finite = np.isfinite(weights)
  if not is_finite.all():
    fail(
      'finite weights',
      f'that of client {clients[~is_finite][0]} is {weights[~is_finite][0]}',
    )


def kept(
  must: str, numbers_by_name: Any, before: Optional[Mapping[str, Any]] = None
) -> dict[str, np.ndarray]:
  """Returns what a method keeps, as float64 arrays.

  Args:
    must: Who must hold or return it, the beginning of a sentence.
    numbers_by_name: What is kept.
    before: What was kept at first, whose names and shapes stay; None if this
      is at first.

  Returns:
    Copies that cannot be written to, in the order of those before.

  Raises:
    ResultError: If it is no finite numbers, or of other names or shapes.
  """
  if not isinstance(numbers_by_name, Mapping) or not all(
    isinstance(name, str) and name for name in numbers_by_name
  ):
    raise ResultError(
      f"{must} arrays by name, such as {{'times': np.zeros(p.size)}}, but it "
      f'is {describe(numbers_by_name)}.'
    )
  names = list(numbers_by_name if before is None else before)
  if set(names) != set(numbers_by_name):
    raise ResultError(
      f'{must} {", ".join(names) or "nothing"}, as `initial` does, but it is '
      f'{", ".join(numbers_by_name) or "nothing"}.'
    )
  arrays = {}
  for name in names:
    value = numbers_by_name[name]
    try:
      array = np.array(value, np.float64)
    except (TypeError, ValueError):
      array = np.array(np.nan)
    shape = array.shape if before is None else np.shape(before[name])
    is_finite = np.isfinite(array)
    if array.shape != shape or not is_finite.all():
      but = describe(value)
      if array.shape == shape and array.ndim:
        but = f'one of them is {array[~is_finite][0]}'
      raise ResultError(
        f'{must} finite numbers of shape {shape} for {name!r}, but {but}.'
      )
    array.setflags(write=False)  # The next ones are new ones.
    arrays[name] = array
  return arrays


def state_weights(weights: Any, num_clients: int) -> np.ndarray:
  """Returns weights of the state sum; raises unless each client has one."""
  if (
    not _is_vector(weights, 'fiu')
    or weights.size != num_clients
    or not np.isfinite(weights).all()
  ):
    raise ResultError(
      'The state_weights of a method must be an array with a finite number for '
      f'each of the {num_clients} clients that deliver, but it is '
      f'{describe(weights)}.'
    )
  return weights


def check_vectors(rule: Any) -> None:
  """Raises a `ResultError` unless a method's step returns two tensors."""
  try:
    with np.errstate(all='ignore'):
      found = rule.step(*np.ones((3, 1), np.float32))
  except TypeError as error:
    raise ResultError(
      'The step of vectors.Vectors must take three tensors, (server, model '
      f'sum, state sum), but it failed: {error}.'
    ) from error
  if not isinstance(found, (tuple, list)) or len(found) != 2:
    raise ResultError(
      'The step of vectors.Vectors must return two tensors, Delta and the '
      f"server's vector after it, but it returned {describe(found)}."
    )


def _is_vector(value: Any, kinds: str) -> bool:
  return (
    isinstance(value, np.ndarray)
    and value.ndim == 1
    and value.dtype.kind in kinds
  )

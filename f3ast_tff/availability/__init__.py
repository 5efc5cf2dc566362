"""Who is available: models of intermittent client availability.

Each model answers two questions about a round t = 1, 2, ...:

  mask = model(t)                  which of the N clients are available (A_t)
  q = model.probabilities(t)       with which probability each one is

Both are pure functions of the model's parameters, its seed and t. There is one
file per kind of model. `parse` makes a model from a text such as `home_devices`
or `markov:0.3,0.1`. This package needs NumPy only and is useful alone.
"""

from collections.abc import Callable
import inspect
import math
from typing import Any, Optional

import numpy as np

from f3ast_tff import checks as checks_lib
from f3ast_tff import traces
from f3ast_tff.availability.by_label import labels
from f3ast_tff.availability.by_label import majority_label
from f3ast_tff.availability.correlated import Clusters
from f3ast_tff.availability.correlated import clusters
from f3ast_tff.availability.independent import Independent
from f3ast_tff.availability.independent import always
from f3ast_tff.availability.independent import home_devices
from f3ast_tff.availability.independent import scarce
from f3ast_tff.availability.independent import smartphones
from f3ast_tff.availability.independent import uneven
from f3ast_tff.availability.long_run import LongRun
from f3ast_tff.availability.markov import Markov
from f3ast_tff.availability.markov import equal_chains
from f3ast_tff.availability.markov import persistent
from f3ast_tff.availability.periodic import Cyclic
from f3ast_tff.availability.periodic import Periodic
from f3ast_tff.availability.periodic import blocks
from f3ast_tff.availability.periodic import cyclic
from f3ast_tff.availability.periodic import interleaved
from f3ast_tff.availability.periodic import sine
from f3ast_tff.availability.periodic import staircase
from f3ast_tff.availability.periodic import time_zones
from f3ast_tff.availability.presence import Presence
from f3ast_tff.availability.presence import arrivals
from f3ast_tff.availability.recorded import Recorded
from f3ast_tff.protocols import Availability

__all__ = [
  'MODELS',
  'PAPER',
  'Availability',
  'Clusters',
  'Cyclic',
  'Independent',
  'LongRun',
  'Markov',
  'Periodic',
  'Presence',
  'Recorded',
  'always',
  'arrivals',
  'blocks',
  'check',
  'clusters',
  'cyclic',
  'equal_chains',
  'home_devices',
  'interleaved',
  'labels',
  'majority_label',
  'parse',
  'persistent',
  'read',
  'scarce',
  'sine',
  'smartphones',
  'staircase',
  'time_zones',
  'uneven',
  'usages',
]

# Returns the share of each label in each client's examples, an array of shape
# [N, number of labels].
LabelShares = Callable[[], np.ndarray]


def _labels(
  base: str, p: np.ndarray, seed: int, label_shares: Optional[LabelShares]
) -> np.ndarray:
  """Returns the label shares."""
  del base, seed
  if label_shares is None:
    raise ValueError(
      'Availability that depends on labels needs those of the examples, which '
      'p does not tell; make the model with availability.labels or '
      'availability.majority_label, and give that.'
    )
  shares = label_shares()
  if len(shares) != p.size:
    raise ValueError(
      f'label_shares has {len(shares)} clients, but p has {p.size}.'
    )
  return shares


def _base(
  base: str, p: np.ndarray, seed: int, label_shares: Optional[LabelShares]
) -> Availability:
  """Returns the model that another one changes."""
  if read(base)[0] == 'trace':
    raise ValueError(
      f'The base {base!r} must not be a trace, whose clock and digest are '
      'recorded only if it is the model itself.'
    )
  return parse(base, p, seed, label_shares)


def _base_q(
  base: str, p: np.ndarray, seed: int, label_shares: Optional[LabelShares]
) -> np.ndarray:
  """Returns the probabilities that another model changes."""
  model = parse(base, p, seed, label_shares)
  if not isinstance(model, Independent) or np.ptp(model.factors) > 0:
    raise ValueError(
      f'The base {base!r} must be independent clients whose availability does '
      'not change with time, such as scarce, home_devices, uneven or labels.'
    )
  return model.probabilities(1)


def _of(
  first: Callable[..., Any],
  build: Callable[..., Availability],
  base: Optional[str] = 'home_devices',
) -> Callable[..., Availability]:
  """Returns a model of (p, seed, ...) from a function of (first, seed, ...).

  Args:
    first: Makes the first argument from a base, p, the seed and label_shares.
    build: The function.
    base: The base unless a text gives one, behind the other parameters; None
      for a model that has none.

  Returns:
    The model.
  """
  own = list(inspect.signature(build).parameters.values())[1:]

  def model(
    p: np.ndarray,
    seed: int,
    *values: Any,
    label_shares: Optional[LabelShares] = None,
  ) -> Availability:
    num_own = len(own) - 1
    chosen = values[num_own] if len(values) > num_own else base
    return build(first(chosen, p, seed, label_shares), seed, *values[:num_own])

  # For `usages` and `read`.
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  parameters = [inspect.Parameter('p', kind, default=None), *own]
  if base is not None:
    parameters.append(inspect.Parameter('base', kind, default=base))
  keyword = inspect.Parameter.KEYWORD_ONLY
  parameters.append(inspect.Parameter('label_shares', keyword, default=None))
  signature = inspect.Signature(parameters)
  model.__signature__ = signature  # type: ignore[attr-defined]
  return model


def _trace(p: np.ndarray, seed: int, file: str) -> Availability:
  """Returns a trace with the default clock."""
  return traces.load(file, p, seed=seed)


# The paper's five.
PAPER = ('always', 'scarce', 'home_devices', 'smartphones', 'uneven')

# The models by name; each takes (p, seed) and then the parameters that a text
# may give. One with a keyword `label_shares` is given these, see `parse`. A
# program may add its own, see docs/extending.md.
MODELS: dict[str, Callable[..., Availability]] = {
  'always': lambda p, seed: always(p.size, seed),
  'scarce': lambda p, seed, q=0.2: scarce(p.size, seed, q),
  'home_devices': (
    lambda p, seed, sigma=0.5: home_devices(p.size, seed, sigma)
  ),
  'smartphones': (
    lambda p, seed, sigma=0.25, amplitude=0.4, offset=0.5, period=24: (
      smartphones(p.size, seed, sigma, amplitude, offset, period)
    )
  ),
  'uneven': uneven,
  'markov': equal_chains,
  'persistent': _of(_base_q, persistent),
  'cyclic': _of(_base_q, cyclic),
  'sine': _of(_base_q, sine),
  'staircase': _of(_base_q, staircase),
  'interleaved': _of(_base_q, interleaved),
  'time_zones': _of(_base_q, time_zones, 'home_devices:0.25'),
  'clusters': _of(_base_q, clusters),
  'blocks': _of(_base_q, blocks),
  'arrivals': _of(_base, arrivals),
  'labels': _of(_labels, labels, None),
  'majority_label': _of(_labels, majority_label, None),
  'trace': _trace,
}


def _parameters(name: str) -> list[inspect.Parameter]:
  """Returns what a text may give: the parameters after p and seed."""
  all_ = list(inspect.signature(MODELS[name]).parameters.values())
  return [each for each in all_[2:] if each.kind == each.POSITIONAL_OR_KEYWORD]


def _usage(name: str) -> str:
  """Returns how to name a model, e.g. `scarce[:Q]`."""
  parameters = _parameters(name)
  needed = [p.name.upper() for p in parameters if p.default is p.empty]
  other = [p.name.upper() for p in parameters[len(needed) :]]
  text = f'{name}:{",".join(needed)}' if needed else name
  if other:
    text += f'[{"," if needed else ":"}{",".join(other)}]'
  return text


def usages() -> list[str]:
  """Returns the models, each with the parameters that a text may give."""
  return [_usage(name) for name in MODELS]


def _kind(parameter: inspect.Parameter) -> type:
  """Returns the type of a parameter, from its default or its annotation."""
  if parameter.default is not parameter.empty:
    return type(parameter.default)
  return parameter.annotation


def _value(field: str, parameter: inspect.Parameter) -> Any:
  """Returns the value of a parameter that a text gives."""
  kind = _kind(parameter)
  if kind is str:
    if not field:
      raise ValueError('nothing')
    return field
  number = float(field)
  if not math.isfinite(number) or (kind is int and number != int(number)):
    raise ValueError(f'{field!r} is no {kind}')
  return int(number) if kind is int else number


def read(text: str) -> tuple[str, list[Any]]:
  """Returns the name of a model and the parameters that a text gives.

  Args:
    text: As for `parse`.

  Returns:
    The name, and the values of the first parameters after p and seed.

  Raises:
    ValueError: If there is no such model, or it has other parameters.
  """
  name, colon, rest = text.partition(':')
  if name not in MODELS:
    raise checks_lib.unknown('availability', name, MODELS)
  parameters = _parameters(name)
  # The last one may have commas, if it is a base or the name of a file.
  fields = rest.split(',', max(0, len(parameters) - 1)) if colon else []
  num_needed = sum(each.default is each.empty for each in parameters)
  try:
    if not num_needed <= len(fields) <= len(parameters):
      raise ValueError(f'{len(fields)} parameters')
    return name, [_value(*pair) for pair in zip(fields, parameters)]
  except ValueError:
    whole = [each.name.upper() for each in parameters if _kind(each) is int]
    raise ValueError(
      f'Availability is {text!r}, but it must read like {_usage(name)}'
      f'{", with a whole number for " if whole else ""}{" and ".join(whole)}.'
    ) from None


def parse(
  text: str,
  p: np.ndarray,
  seed: int = 0,
  label_shares: Optional[LabelShares] = None,
) -> Availability:
  """Returns the model that a text names.

  Args:
    text: A name of `MODELS`, with parameters of the model after a colon where
      they are not the defaults: `home_devices`, `scarce:0.3`,
      `markov:0.3,0.1` or `sine:0.3,20,labels`.
    p: Each client's share of the data.
    seed: Decides the draws.
    label_shares: Returns the share of each label in each client's examples, an
      array of shape [N, number of labels]. Passed on to the models that have
      such a keyword, and called only where it is needed.

  Returns:
    The model.

  Raises:
    ValueError: If there is no such model, or its parameters are wrong.
  """
  name, values = read(text)
  build = MODELS[name]
  more = {}
  if 'label_shares' in inspect.signature(build).parameters:
    more['label_shares'] = label_shares
  model = build(p, seed, *values, **more)
  checks_lib.check_availability(f'MODELS[{name!r}] must return', model)
  return model


def check(text: str) -> None:
  """Raises a ValueError unless `parse` knows the text, whatever p is.

  Parameters are tried on two clients, so that wrong ones are named at once;
  files are not read.

  Args:
    text: As for `parse`.
  """
  name, values = read(text)
  if values and 'file' not in inspect.signature(MODELS[name]).parameters:
    parse(text, np.full(2, 0.5), label_shares=lambda: np.full((2, 2), 0.5))

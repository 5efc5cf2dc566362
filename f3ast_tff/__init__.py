"""F3AST: federated learning with clients that come and go.

  clients = f3ast_tff.read_clients(client_data)
  selector = f3ast_tff.build_selector(clients.p, 'home_devices', 10)
  training = f3ast_tff.build_training(model_fn, clients, selector, ...)

The names in `__all__` are the public ones, imported when they are first used.
`availability`, `traces`, `communication`, `delivery`, `groups`, `targets`,
`rates`, `selection`, `methods`, `Selector` and `build_selector` need NumPy and
SciPy only; the others need TensorFlow Federated.
"""

import importlib
from typing import TYPE_CHECKING, Any

from f3ast_tff.version import __version__

# Where each name is: a module, or a module and what it is called there.
_PLACES = {
  'ClientArrays': ('learning.clients', 'ClientArrays'),
  'Rounds': ('execution.rounds', 'Rounds'),
  'Selector': ('selector', 'Selector'),
  'Training': ('learning.training', 'Training'),
  'availability': ('availability', None),
  'build_selector': ('methods', 'build_selector'),
  'build_training': ('learning.build', 'build_training'),
  'communication': ('communication', None),
  'delivery': ('delivery', None),
  'groups': ('groups', None),
  'in_process': ('execution.context', 'in_process'),
  'methods': ('methods', None),
  'rates': ('rates', None),
  'read_clients': ('learning.clients', 'read_clients'),
  'selection': ('selection', None),
  'set_in_process': ('execution.context', 'set_in_process'),
  'targets': ('targets', None),
  'traces': ('traces', None),
}

__all__ = [
  'ClientArrays',
  'Rounds',
  'Selector',
  'Training',
  '__version__',
  'availability',
  'build_selector',
  'build_training',
  'communication',
  'delivery',
  'groups',
  'in_process',
  'methods',
  'rates',
  'read_clients',
  'selection',
  'set_in_process',
  'targets',
  'traces',
]

if TYPE_CHECKING:
  from f3ast_tff import availability
  from f3ast_tff import communication
  from f3ast_tff import delivery
  from f3ast_tff import groups
  from f3ast_tff import methods
  from f3ast_tff import rates
  from f3ast_tff import selection
  from f3ast_tff import targets
  from f3ast_tff import traces
  from f3ast_tff.execution.context import in_process
  from f3ast_tff.execution.context import set_in_process
  from f3ast_tff.execution.rounds import Rounds
  from f3ast_tff.learning.build import build_training
  from f3ast_tff.learning.clients import ClientArrays
  from f3ast_tff.learning.clients import read_clients
  from f3ast_tff.learning.training import Training
  from f3ast_tff.methods import build_selector
  from f3ast_tff.selector import Selector
else:  # Else type checkers would take any name for one of the package.

  def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used (PEP 562)."""
    if name not in _PLACES:
      raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    module, attribute = _PLACES[name]
    found = importlib.import_module(f'f3ast_tff.{module}')
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})

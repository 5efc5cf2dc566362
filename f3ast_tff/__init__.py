"""F3AST: federated learning with clients that come and go.

The names in `__all__` are the public ones. Each is a module, imported when it
is first used: `availability`, `communication`, `rates`, `selection` and
`cohorts` need NumPy only; `simulation`, `process`, `local_training` and
`execution` need TensorFlow Federated. docs/api.md lists what is in them.
"""

import importlib
import types

from f3ast_tff.version import __version__

__all__ = [
  '__version__',
  'availability',
  'cohorts',
  'communication',
  'execution',
  'local_training',
  'process',
  'rates',
  'selection',
  'simulation',
]

TYPE_CHECKING = False  # Type checkers take it for true; saves `typing`.
if TYPE_CHECKING:
  from f3ast_tff import availability
  from f3ast_tff import cohorts
  from f3ast_tff import communication
  from f3ast_tff import execution
  from f3ast_tff import rates
  from f3ast_tff import selection
  from f3ast_tff.learning import client_work
  from f3ast_tff.learning import process
  from f3ast_tff.learning import simulation
else:  # Else type checkers would take any name for one of the package.

  def __getattr__(name: str) -> types.ModuleType:
    """Imports a public module when it is first used (PEP 562)."""
    if name in __all__:
      return importlib.import_module(f'f3ast_tff.{name}')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})

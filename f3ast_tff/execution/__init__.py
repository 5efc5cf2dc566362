"""Running TFF computations in this process, without TFF's worker."""

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ['UnsupportedError', 'in_process', 'set_in_process']

if TYPE_CHECKING:
  from f3ast_tff.execution.context import UnsupportedError
  from f3ast_tff.execution.context import in_process
  from f3ast_tff.execution.context import set_in_process
else:

  def __getattr__(name: str) -> Any:
    """Imports TensorFlow not before a name is used; `cluster` has to be quick.

    What `cluster.worker` sets in the environment has to be there before.

    Args:
      name: One of `__all__`.

    Returns:
      What it stands for.
    """
    if name not in __all__:
      raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    context = importlib.import_module('f3ast_tff.execution.context')
    return getattr(context, name)

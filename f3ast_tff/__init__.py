"""F3AST: federated learning with clients that come and go.

`f3ast_tff.availability`, `communication`, `rates` and `selection` need NumPy
only. `f3ast_tff.process` and what stands on it need TensorFlow Federated.
"""

from f3ast_tff.version import __version__

__all__ = ['__version__']

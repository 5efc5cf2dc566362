"""Running TFF computations in this process, without TFF's worker."""

from f3ast_tff.execution.context import UnsupportedError
from f3ast_tff.execution.context import in_process
from f3ast_tff.execution.context import set_in_process

__all__ = ['UnsupportedError', 'in_process', 'set_in_process']

"""Runs `experiments.synthetic` with less patience for workers that hang."""

import runpy
import sys
from typing import Any

from f3ast_tff.execution.cluster import connection

_connect = connection.connect


def _connect_impatiently(where: str) -> Any:
  # TensorFlow must not be imported before the experiment does so.
  cluster: Any = sys.modules['f3ast_tff.execution.cluster.cluster']
  cluster.SILENCE_SECONDS = 5.0
  return _connect(where)


if __name__ == '__main__':
  connection.connect = _connect_impatiently
  runpy.run_module('experiments.synthetic', run_name='__main__', alter_sys=True)

"""What a benchmark ran on: versions, CPU, memory."""

from collections.abc import Sequence
from importlib import metadata
import json
import os
import pathlib
import platform

from f3ast_tff.runs import run_directory

_PACKAGES = ('tensorflow', 'tensorflow-federated', 'numpy', 'pandas')


def describe(command: Sequence[str]) -> dict[str, object]:
  """Returns what a benchmark ran on, by name.

  Args:
    command: The module and the flags of the benchmark.

  Returns:
    The command, the revision, versions, the CPU, cores, memory and load.
  """
  return {
    'command': ' '.join(command),
    'revision': run_directory.revision(),
    'python': platform.python_version(),
    **{name: metadata.version(name) for name in _PACKAGES},
    'cpu': _field('/proc/cpuinfo', 'model name') or platform.processor(),
    'cores': len(os.sched_getaffinity(0)),
    'memory': _field('/proc/meminfo', 'MemTotal'),
    'load_of_the_last_minute': os.getloadavg()[0],
  }


def write(path: pathlib.Path, command: Sequence[str]) -> None:
  """Writes what a benchmark ran on as JSON."""
  path.write_text(json.dumps(describe(command), indent=2) + '\n')


def _field(path: str, name: str) -> str:
  """Returns the first value of a name in a file of the kernel, or ''."""
  try:
    with open(path) as lines:
      for line in lines:
        key, _, value = line.partition(':')
        if key.strip() == name:
          return value.strip()
  except OSError:
    pass
  return ''

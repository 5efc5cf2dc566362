"""Result files: one small JSON file per cell of a grid, made from a run.

A cell is a run with a place in the paper's grid. Its file holds the metrics by
evaluated round, the settings, versions, revision, time, and the command that
makes it again. Runs on sample data, and runs of code that no revision names,
are no results.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import json
import pathlib
from typing import Any, Optional

from experiments.grid import metrics as metrics_lib
from experiments.paper import design
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import run_tables


class ResultError(ValueError):
  """A file is not the result that it should be."""


_METRICS = list(metrics_lib.METRICS)
# How many examples had been trained on at each test. Older files do not say.
_TRAINED = 'examples_trained'
_NUMBERS = (
  'wall_seconds',
  'mean_sum_of_weights',
  'rounds_with_fewer_than_k',
  'empty_rounds',
  'updates_left_out',
)


def path_of(root: pathlib.Path, key: design.Key) -> pathlib.Path:
  """Returns where a cell's result is."""
  return root / f'{key.name}.json'


def _short(value: float) -> float:
  """Returns a number with six digits, which is more than seeds agree on."""
  return float(f'{value:.6g}')


def from_run(
  folder: pathlib.Path, key: design.Key, command: str
) -> dict[str, Any]:
  """Returns what a cell's file holds, from the folder of a finished run."""
  config = run_directory.read_config(folder)
  rounds = run_tables.read(
    folder / 'rounds.csv',
    ('round', 'k', 'selected', 'empty', 'left_out', 'sum_of_weights'),
  )
  metrics = run_tables.with_recent_weights(
    run_tables.read(folder / 'metrics.csv', ('round', *_METRICS)),
    rounds,
  )
  timing = run_tables.read(folder / 'timing.csv', ('round', 'train_seconds'))
  seconds = timing.filter(like='_seconds').to_numpy().sum()
  settings = config['settings']
  steps = settings.get('local_steps', 0)
  trained = run_tables.examples_trained(
    folder, rounds, steps * settings['batch_size'] if steps else None
  )
  epochs = settings.get('local_epochs', 1)
  return {
    'cell': dataclasses.asdict(key),
    'command': command,
    'revision': config.get('revision', ''),
    'versions': config.get('versions', {}),
    'data': config.get('data', ''),
    'settings': settings,
    'wall_seconds': round(float(seconds), 1),
    'mean_sum_of_weights': _short(rounds['sum_of_weights'].mean()),
    'rounds_with_fewer_than_k': int((rounds['selected'] < rounds['k']).sum()),
    'empty_rounds': int(rounds['empty'].sum()),
    'updates_left_out': int(rounds['left_out'].sum()),
    'metrics': {
      'round': metrics['round'].tolist(),
      **{c: [_short(v) for v in metrics[c]] for c in _METRICS},
    },
    **(
      {}
      if trained is None
      else {_TRAINED: [epochs * int(trained[t]) for t in metrics['round']]}
    ),
  }


def refusal(
  result: Mapping[str, Any], allow_changed_code: bool = False
) -> Optional[str]:
  """Returns why a run is not a result, None if it is one.

  It is the end of a sentence that begins with the cell's name.
  """
  if result['settings'].get('data_source') == 'sample':
    return 'is a run on sample data, which is no result'
  revision = result['revision']
  if allow_changed_code or (revision and not revision.endswith('+')):
    return None
  what = 'with uncommitted changes' if revision else 'without a git revision'
  return f'is a run of code {what}, which nobody could repeat'


def _dumps(result: Mapping[str, Any]) -> str:
  """Returns JSON with a line per entry: short, and git can show changes."""
  lines = []
  for name, value in result.items():
    text = json.dumps(value)
    if name == 'metrics':
      inner = [f'    "{key}": {json.dumps(v)}' for key, v in value.items()]
      text = '{\n' + ',\n'.join(inner) + '\n  }'
    lines.append(f'  {json.dumps(name)}: {text}')
  return '{\n' + ',\n'.join(lines) + '\n}\n'


def write(root: pathlib.Path, result: Mapping[str, Any]) -> None:
  """Writes a cell's file."""
  path = path_of(root, design.Key(**result['cell']))
  path.parent.mkdir(parents=True, exist_ok=True)
  run_directory.write_atomically(path, _dumps(result))


def read(path: pathlib.Path) -> dict[str, Any]:
  """Returns what a cell's file holds; a `ResultError` if it is no such file."""
  try:
    result = json.loads(path.read_text())
    key = design.Key(**result['cell'])
    _check_types(result)
    settings = result['settings']
    is_sound = (
      path.as_posix().endswith(f'{key.name}.json')
      and settings['seed'] == key.seed
      and settings['avail'] == key.avail
      and settings['algorithm'] == key.method
    )
  except (
    OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError
  ) as error:
    reason = repr(error).partition('\n')[0]
    raise ResultError(f'{path} is not a result file ({reason}).') from error
  if not is_sound:
    raise ResultError(
      f'{path} is not the result that its name says; make it again.'
    )
  return result


def _is_number(value: Any) -> bool:
  return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_types(result: Mapping[str, Any]) -> None:
  """Raises a TypeError unless all that is looked at later has its type."""

  def check(name: str, is_so: bool) -> None:
    if not is_so:
      raise TypeError(f'{name} is not what it should be')

  def check_numbers(name: str, values: Any) -> None:
    check(
      name,
      isinstance(values, list)
      and len(values) == len(tested) > 0
      and all(map(_is_number, values)),
    )

  for name, value in result['cell'].items():
    check(f'cell.{name}', type(value) is (int if name == 'seed' else str))
  for name in ('revision', 'command'):
    check(name, isinstance(result[name], str))
  for name in ('settings', 'versions', 'metrics'):
    check(name, isinstance(result[name], dict))
  settings, metrics = result['settings'], result['metrics']
  for name in _NUMBERS:
    check(name, _is_number(result[name]))
  for name in ('rounds', 'server_learning_rate'):
    check(name, _is_number(settings[name]))
  for name, value in settings.items():
    check(f'settings.{name}', not isinstance(value, (list, dict)))
  check('metrics', set(metrics) == {'round', *_METRICS})
  tested = metrics['round']
  for name, values in metrics.items():
    check_numbers(f'metrics.{name}', values)
  if _TRAINED in result:
    check_numbers(_TRAINED, result[_TRAINED])
  check(
    'metrics.round',
    all(type(t) is int for t in tested) and tested == sorted(set(tested)),
  )


def read_all(root: pathlib.Path) -> list[dict[str, Any]]:
  """Returns all results below a folder, in the order of their names."""
  return [read(path) for path in sorted(root.glob('*/*/*.json'))]


# What may differ between the cells of a dataset; a variant's own settings too.
# The tie point of r(0) is K p for all but F3AST under Smartphones, and there
# the variant has it.
_MAY_DIFFER = {'algorithm', 'avail', 'seed', 'rate_init'}
# What belongs to a method, and is the same in all of its cells.
_OF_METHOD = {
  'selection',
  'rate_step',
  'sum_cap',
  'server_optimizer',
  'client_learning_rate',
  'server_learning_rate',
  'server_epsilon',
}


def check_alike(
  results: Sequence[Mapping[str, Any]],
  varied: Mapping[design.Key, Iterable[str]],
) -> None:
  """Checks that results that share a table were made with the same settings.

  Defaults that changed between two calls could make them differ.

  Args:
    results: From `read_all`.
    varied: The settings that the variant of each cell changes.

  Raises:
    ResultError: If two differ otherwise.
  """
  first: dict[tuple[str, ...], tuple[Any, str]] = {}
  for result in results:
    key = design.Key(**result['cell'])
    free = _MAY_DIFFER | set(varied.get(key, ()))
    for name, value in result['settings'].items():
      if name in free:
        continue
      place: tuple[str, ...] = key.preset, key.dataset, name
      if name in _OF_METHOD:
        place = (*place, key.method)
      known, other = first.setdefault(place, (value, key.name))
      if known != value:
        raise ResultError(
          f'{key.name} was made with {name}={value} and {other} with '
          f'{name}={known}; make one of them again.'
        )

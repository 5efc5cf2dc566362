"""Feeds damaged and senseless input to the programs: 2,000 cases.

  python -m tests.fuzz --cases=2000

Flags, flag files, config.json, checkpoints, rows, result files and tables of
runs are made up or damaged: bits flipped, cut off, parts lost or doubled,
values of other types. Each case must end in a clear error of one line and the
right kind, or in a right result; never in a stack trace, and no file may be
lost. The exit code is 1 if one does not.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
import contextlib
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile
from typing import Any
from unittest import mock

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app
from absl import flags
from absl import logging
import hypothesis
from hypothesis import strategies as st
import numpy as np

from experiments import cli
from experiments import synthetic as experiment
from experiments.paper import comparison
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import results
from f3ast_tff import availability
from f3ast_tff.datasets import synthetic
from f3ast_tff.models import softmax
from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import run_directory
from f3ast_tff.runs import selector as selector_lib
from f3ast_tff.runs import task as task_lib
from tests import fake_results

_CASES = flags.DEFINE_integer('cases', 2000, 'How many.', lower_bound=1)
_CHANCE = flags.DEFINE_integer('chance', 0, 'Decides which.')

# Values for flags: right ones, near misses, and nonsense.
_VALUES = st.one_of(
  st.sampled_from(
    '0 1 2 10 -1 0.5 1e-3 1e400 -0 nan inf 0x10 1_0 ٣ true None 10,10 '
    'uniform:1,3 uniform:3,1 uniform: schedule:1,2,0 schedule:0 schedule:, '
    'markov:9,1,.1,.5 markov:9,1,2,.5 markov:a,b,c,d paper released fedavg '
    'f3ast f3ast_adam power_of_choice sgd adam always scarce home_devices '
    'smartphones uneven kp p positive auto stop continue'.split(' ')
  ),
  st.integers(-10, 60).map(str),
  st.floats().map(str),
  st.text(max_size=12),
)
_NAMES = [
  *config_lib.Config.__dataclass_fields__,
  'alpha',
  'num_clients',
  'on_divergence',
  'resume',
  'cluster',
]


def _sound_values(name: str) -> st.SearchStrategy[str]:
  """Returns values that a setting may have."""
  field = config_lib.Config.__dataclass_fields__.get(name)
  if field is not None and field.metadata['choices']:
    return st.sampled_from(list(field.metadata['choices']))
  if name == 'rate_step':
    return st.sampled_from(['constant', 'annealed:10', 'corrected'])
  if name in ('beta', 'alpha', 'proximal', 'server_epsilon') or 'rate' in name:
    return st.floats(1e-9, 1).map(str)
  if name == 'cluster':
    return st.sampled_from(['', 'auto', 'local:2'])
  if name == 'avail':
    texts = 'scarce:1 markov:.3,.1 clusters:2 arrivals:3,2 sine:.3,9,labels'
    return st.sampled_from([*availability.PAPER, *texts.split()])
  if name == 'clients_per_round':
    return st.sampled_from(['3', 'uniform:1,4', 'schedule:2,0,9'])
  if name == 'groups':
    return st.sampled_from(['blocks:3', 'labels', 'file:absent.csv'])
  if name == 'group_quota':
    return st.sampled_from(['0..3', '1..', '0:1..2,..4', '..1/1:1..'])
  if name == 'method':
    return st.sampled_from(['none', 'mifa', 'fedau:5', 'ca_fed:true'])
  if name == 'target':
    return st.sampled_from(['data', 'uniform', 'power:0.5', 'groups'])
  return st.integers(1, 40).map(str)


@st.composite
def _arguments(draw) -> str:
  is_nonsense = draw(st.integers(0, 9)) == 0
  name = draw(st.text() if is_nonsense else st.sampled_from(_NAMES))
  if name in ('num_clients', 'rounds'):  # Large ones take memory and time.
    value = str(draw(st.integers(-3, 40)))
  elif draw(st.integers(0, 2)):
    value = draw(_sound_values(name))
  else:
    value = draw(_VALUES)
  form = '--{}={}'
  if draw(st.integers(0, 9)) == 0:
    form = draw(st.sampled_from(['-{}={}', '--{}', '{}']))
  return form.format(name, value)


def _is_about_help(argument: str) -> bool:
  name = argument.lstrip('-').partition('=')[0]
  # absl's own: they print, profile or debug.
  return name in flags.FLAGS and name not in _NAMES


def _main(arguments: Sequence[str]) -> tuple[int, str]:
  """Runs the experiment's program without TensorFlow.

  Its flags, settings, folder and data are real, and so is who is available and
  selected in two rounds. Nobody trains.

  Args:
    arguments: What the user types.

  Returns:
    The exit code and what it says.
  """

  def build_task(config):
    dataset = synthetic.load(
      experiment._ALPHA.value,
      experiment._ALPHA.value,
      experiment._NUM_CLIENTS.value,
      config.seed,
    )
    return task_lib.Task(dataset, softmax.build())

  def train(config, task, folder, managers):
    del managers
    dataset = task.dataset
    run_directory.append_row(folder / 'rounds.csv', {'round': 1})
    if config.selection == 'fixed_policy':  # Takes seconds to fit.
      return
    with cli.one_sentence(ValueError, 2):  # As the program does.
      selector = selector_lib.build(
        config,
        dataset.num_examples,
        dataset.num_predictions,
        lambda: dataset.label_shares,
      )
      selector_lib.check_anybody(selector, config.rounds)
    for t in (1, 2):
      available, cohort, *_ = selector.select(
        t,
        selector.initial_rates,
        lambda clients: np.ones(clients.size),
        selector.initial_kept,
      )
      assert available[cohort.clients].all()
      assert len(set(cohort.clients)) == cohort.clients.size
      most = selector.constraint(t)
      if selector.delivery is not None:
        most = selector.delivery.num_selected(most)
      assert cohort.clients.size <= most
      if selector.quotas is not None:
        of, _, most = selector.quotas(t)
        counts = np.bincount(of[cohort.clients], minlength=most.size)
        assert (counts <= most).all()

  flags.FLAGS.unparse_flags()
  for name in flags.FLAGS:
    flags.FLAGS[name].unparse()
  code: Any = 0
  errors = io.StringIO()
  with contextlib.ExitStack() as stack:
    stack.enter_context(contextlib.redirect_stderr(errors))
    stack.enter_context(mock.patch.object(sys, 'argv', ['x', *arguments]))
    stack.enter_context(mock.patch.object(cli, '_train', train))
    stack.enter_context(
      mock.patch.object(
        experiment,
        'EXPERIMENT',
        experiment.EXPERIMENT._replace(build_task=build_task),
      )
    )
    # It asks git, a process each time.
    stack.enter_context(
      mock.patch.object(run_directory, 'revision', lambda: '')
    )
    try:
      experiment.main()
    except SystemExit as end:
      code = end.code or 0
  return code, errors.getvalue()


def _assert_clear(code: int, errors: str) -> str:
  if code == 0:
    return 'right'
  assert code == 2, f'exit code {code}: {errors}'
  assert errors.startswith('error: '), errors
  assert errors.count('\n') == 1, errors
  return 'error'


# Each takes a folder of its own and hypothesis' data, and returns how it ended.


def fuzz_flags(folder: pathlib.Path, data: Any) -> str:
  """Makes up flags."""
  arguments = data.draw(st.lists(_arguments(), min_size=1, max_size=4))
  hypothesis.assume(not any(map(_is_about_help, arguments)))
  arguments.insert(0, f'--output_dir={folder / "run"}')
  code, errors = _main(arguments)
  if '--resume' in arguments and code == 0:
    code, errors = _main(arguments)  # It is there now.
  return _assert_clear(code, errors)


def fuzz_flag_files(folder: pathlib.Path, data: Any) -> str:
  """Makes up or damages a flag file."""
  lines = data.draw(st.lists(_arguments(), min_size=1, max_size=4))
  hypothesis.assume(not any(map(_is_about_help, lines)))
  content = '\n'.join(lines).encode('utf-8', 'surrogatepass')
  if data.draw(st.booleans()):
    content = _damaged(content, data)
    for word in content.replace(b'\0', b'\n').split():
      text = word.decode('utf-8', 'replace')
      hypothesis.assume(not _is_about_help(text))
  # Large numbers that damage may have made would take memory and time.
  hypothesis.assume(
    b'num_clients' not in content and b'rounds' not in content
  )
  path = folder / 'x.flags'
  path.write_bytes(content)
  code, errors = _main(
    [f'--flagfile={path}', f'--output_dir={folder / "run"}']
  )
  return _assert_clear(code, errors)


def _damaged(content: bytes, data: Any) -> bytes:
  """Returns a content with one to three damages."""
  for _ in range(data.draw(st.integers(1, 3))):
    how = data.draw(
      st.sampled_from(['flip', 'flip', 'cut', 'lose', 'double', 'put'])
    )
    place = data.draw(st.integers(0, max(0, len(content) - 1)))
    length = data.draw(st.integers(1, 40))
    some = content[place : place + length]
    before, after = content[:place], content[place + len(some) :]
    if how == 'flip' and content:
      bit = 1 << data.draw(st.integers(0, 7))
      content = before + bytes([content[place] ^ bit]) + content[place + 1 :]
    elif how == 'cut':
      content = before
    elif how == 'lose':
      content = before + after
    elif how == 'double':
      content = before + some + some + after
    else:
      content = before + data.draw(st.binary(max_size=8)) + after
  return content


_JUNK = st.sampled_from([
  None, True, 0, -1, 1.5, float('nan'), 10**30, '', 'x', '../../x', [], [[]],
  [1], {}, {'x': 1},
])


def _retyped(tree: Any, data: Any) -> Any:
  """Returns JSON with something replaced, lost or added."""
  tree = json.loads(json.dumps(tree))
  node = tree
  while True:
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = data.draw(st.sampled_from(keys))
    deeper = isinstance(node[key], (dict, list)) and node[key]
    if deeper and data.draw(st.integers(0, 3)):
      node = node[key]
      continue
    how = data.draw(st.sampled_from(['replace', 'replace', 'lose', 'add']))
    if how == 'lose':
      del node[key]
    elif how == 'add' and isinstance(node, dict):
      node[data.draw(st.text(max_size=5))] = data.draw(_JUNK)
    else:
      node[key] = data.draw(_JUNK)
    return tree


def fuzz_config(folder: pathlib.Path, data: Any) -> str:
  """Damages config.json and resumes."""
  run, arguments = folder / 'run', [f'--output_dir={folder / "run"}']
  assert _main([*arguments, '--num_clients=3'])[0] == 0
  path = run / 'config.json'
  if data.draw(st.booleans()):
    content = _damaged(path.read_bytes(), data)
  else:
    tree = _retyped(json.loads(path.read_text()), data)
    content = json.dumps(tree).encode()
  path.write_bytes(content)
  code, errors = _main([*arguments, '--num_clients=3', '--resume'])
  assert (run / 'rounds.csv').exists()
  if path.read_bytes() != content:  # A run may be given more or fewer rounds.
    there, here = (
      {**json.loads(text)['settings'], 'rounds': 0}
      for text in (content, path.read_bytes())
    )
    assert code == 0 and not run_directory.differences(there, here)
  return _assert_clear(code, errors)


_ROUNDS = 20
_ORIGIN = {'beta': 0.001, 'the data set': 'x', 'f3ast-tff': '1'}


def _state(value: float) -> tuple:
  return np.full((3, 2), value, np.float32), np.full(4, value), np.int64(value)


def _load(folder: pathlib.Path, rows: pathlib.Path) -> str:
  """Loads the newest checkpoint; it must be one that was saved."""
  try:
    found, state = checkpoint.load_latest(
      folder, _ROUNDS, _state(0), _ORIGIN, [rows]
    )
  except run_directory.RunDirectoryError as error:
    assert '\n' not in str(error), error
    return 'error'
  for ours, theirs in zip(_state(found), state):
    np.testing.assert_array_equal(ours, theirs)
  assert rows.read_text() == 'round\n' + ''.join(
    f'{t}\n' for t in range(1, found + 1)
  )
  return 'right' if found == 6 else 'the one before'


def _save(folder: pathlib.Path, rows: pathlib.Path) -> None:
  rows.write_text('round\n')
  for t in range(1, 7):
    run_directory.append_row(rows, {'round': t})
    if t in (3, 6):
      checkpoint.save(folder, t, _ROUNDS, _state(t), _ORIGIN, [rows])
  run_directory.append_row(rows, {'round': 7})


def fuzz_checkpoints(folder: pathlib.Path, data: Any) -> str:
  """Damages one or both checkpoints."""
  rows = folder / 'rows.csv'
  _save(folder / 'checkpoints', rows)
  number = data.draw(st.sampled_from([1, 1, 1, 2]))
  for t in (6, 3)[:number]:
    path = folder / 'checkpoints' / f'round_{t}.npz'
    if data.draw(st.integers(0, 9)):
      path.write_bytes(_damaged(path.read_bytes(), data))
    else:  # A sound file of something else.
      path.write_bytes(checkpoint.npz(x=np.zeros(data.draw(st.integers(0, 9)))))
  names = sorted(p.name for p in (folder / 'checkpoints').iterdir())
  outcome = _load(folder / 'checkpoints', rows)
  assert names == sorted(p.name for p in (folder / 'checkpoints').iterdir())
  return outcome


def fuzz_rows(folder: pathlib.Path, data: Any) -> str:
  """Damages the rows that belong to checkpoints."""
  rows = folder / 'rows.csv'
  _save(folder / 'checkpoints', rows)
  rows.write_bytes(_damaged(rows.read_bytes(), data))
  return _load(folder / 'checkpoints', rows)


_KEY = design.Key('paper', 'synthetic', 'always', 'f3ast', '', 1)


def fuzz_results(folder: pathlib.Path, data: Any) -> str:
  """Damages a result file."""
  sound = fake_results.result(_KEY)
  path = results.path_of(folder, _KEY)
  results.write(folder, sound)
  if data.draw(st.booleans()):
    path.write_bytes(_damaged(path.read_bytes(), data))
  else:
    path.write_text(json.dumps(_retyped(sound, data)))
  try:
    found = results.read_all(folder)
    results.check_alike([sound, *found], {})
  except results.ResultError as error:
    assert '\n' not in str(error), error
    return 'error'
  assert len(frames.values(found)) == 1
  assert len(frames.curves(found)) == len(found[0]['metrics']['round'])
  return 'right'


_TABLES = {
  'metrics.csv': 'round,accuracy,loss,user_accuracy,user_loss,sum_of_weights\n'
  '2,0.25,2.5,0.25,2.5,1.0\n4,0.5,1.5,0.5,1.5,1.0\n',
  'rounds.csv': 'round,available,k,selected,left_out,empty,sum_of_weights\n'
  + ''.join(f'{t},9,5,5,0,0,1.0\n' for t in range(1, 5)),
  'timing.csv': 'round,train_seconds\n'
  + ''.join(f'{t},0.01\n' for t in range(1, 5)),
}


def fuzz_tables(folder: pathlib.Path, data: Any) -> str:
  """Damages the tables of a run of which a result is made."""
  settings = fake_results.result(_KEY)['settings']
  config = {'settings': settings, 'versions': {}, 'revision': ''}
  (folder / 'config.json').write_text(json.dumps(config))
  for name, text in _TABLES.items():
    (folder / name).write_text(text)
  path = folder / data.draw(st.sampled_from([*_TABLES, 'config.json']))
  if path.suffix == '.json' and data.draw(st.booleans()):
    path.write_text(json.dumps(_retyped(config, data)))
  else:
    path.write_bytes(_damaged(path.read_bytes(), data))
  try:
    results.from_run(folder, _KEY, 'python')
    comparison.table(comparison.load([folder]))
  except ValueError as error:
    assert '\n' not in str(error), error
    return 'error'
  return 'right'


TARGETS: Mapping[Callable[[pathlib.Path, Any], str], float] = {
  fuzz_flags: 0.3,
  fuzz_flag_files: 0.1,
  fuzz_config: 0.1,
  fuzz_checkpoints: 0.2,
  fuzz_rows: 0.05,
  fuzz_results: 0.15,
  fuzz_tables: 0.1,
}


def run(
  target: Callable[[pathlib.Path, Any], str], num_cases: int, chance: int
) -> collections.Counter:
  """Runs cases of a target; raises what the smallest that fails raises.

  Args:
    target: One of `TARGETS`.
    num_cases: How many.
    chance: Decides which.

  Returns:
    How many ended in which way.
  """
  outcomes: collections.Counter = collections.Counter()

  @hypothesis.seed(chance)
  @hypothesis.settings(
    max_examples=num_cases,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
  )
  @hypothesis.given(st.data())
  def case(data):
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    try:
      outcomes[target(folder, data)] += 1
    finally:
      shutil.rmtree(folder)

  with tempfile.TemporaryDirectory() as scratch:
    logging.set_verbosity(logging.FATAL)  # Warnings of each damage.
    try:
      case()
    finally:
      logging.set_verbosity(logging.WARNING)
  return outcomes


def main(argv: Sequence[str]) -> None:
  """Runs all targets."""
  del argv
  num_cases, chance = _CASES.value, _CHANCE.value
  total: collections.Counter = collections.Counter()
  failed = 0
  for target, share in TARGETS.items():
    name = target.__name__.partition('_')[2].replace('_', ' ')
    try:
      outcomes = run(target, round(share * num_cases), chance)
    except Exception as error:
      failed += 1
      print(f'{name}: {error!r}')
      print('\n'.join(getattr(error, '__notes__', [])))
      continue
    total += outcomes
    details = ', '.join(f'{n} {how}' for how, n in sorted(outcomes.items()))
    print(f'{name}: {outcomes.total()} cases: {details}', flush=True)
  print(f'{total.total()} cases, {failed} kinds of input with a failure')
  sys.exit(1 if failed else 0)


if __name__ == '__main__':
  app.run(main)

"""A stand-in for training: a process that writes the files of a run.

  python -m tests.stub_training experiments.reproduce --rounds=2

runs a program with it. FAIL in the environment names methods that fail. The
accuracy of a run is beta, or 0.5 if it names none, and 0.01 times its seed.
With TRAIN in the environment the runs do train.
"""

import importlib
import json
import os
import subprocess
import sys
import textwrap
from unittest import mock

from absl import app
from absl.testing import flagsaver

from experiments import cli
from experiments import interrupts
from experiments.grid import runner
from experiments.paper import drawing
from f3ast_tff.runs import run_directory
from tests import command_lines

REVISION = 'c' * 40

# Writes the files of a run, as far as results need them. It fails in the way
# that the method's name in `fail` says, and takes note of each call.
_STUB = textwrap.dedent("""
  import csv, json, pathlib, sys
  folder, calls = map(pathlib.Path, sys.argv[1:3])
  settings, revision, versions, fail = json.loads(sys.argv[3])
  with open(calls, 'a') as file:
    file.write(folder.name + '\\n')
  folder.mkdir(parents=True, exist_ok=True)
  rounds = settings['rounds']
  config = dict(settings=settings, versions=versions, revision=revision)
  (folder / 'config.json').write_text(json.dumps(config))
  def write(name, row):
    with open(folder / name, 'w') as file:
      writer = csv.writer(file, lineterminator='\\n')
      writer.writerow(row)
      for t in range(1, rounds + 1):
        writer.writerow({**row, 'round': t}.values())
  write('rounds.csv', dict(round=0, k=10, selected=10, empty=0, left_out=0,
                           sum_of_weights=0.81234567))
  if fail:
    print('error: no such luck.')
    sys.exit(3)
  accuracy = settings.get('beta', 0.5) + settings['seed'] / 100
  write('metrics.csv', dict(round=0, accuracy=accuracy, loss=1 - accuracy,
                            user_accuracy=0.5, user_loss=1,
                            sum_of_weights=1))
  write('timing.csv', dict(round=0, train_seconds=0.5))
  (folder / 'model.npz').touch()
""")


class Stub:
  """Stands for `runner.start`."""

  def __init__(self, folder, revision=REVISION, fail=(), **settings):
    self._calls = folder / 'calls'
    self._revision, self._fail, self._settings = revision, fail, settings
    self.most = 0
    self._processes = []

  def __call__(self, cell, places):
    places.log(cell).parent.mkdir(parents=True, exist_ok=True)
    running = [p for p in self._processes if p.poll() is None]
    self.most = max(self.most, len(running) + 1)
    settings = {'server_learning_rate': 1.0, **cell.settings, **self._settings}
    versions = run_directory.versions()
    fails = settings.get('algorithm') in self._fail
    with open(places.log(cell), 'w') as log:
      process = subprocess.Popen(
        [
          sys.executable,
          '-S',
          '-c',
          _STUB,
          str(places.folder(cell)),
          str(self._calls),
          json.dumps([settings, self._revision, versions, fails]),
        ],
        stdout=log,
      )
    self._processes.append(process)
    return process

  @property
  def calls(self):
    text = self._calls.read_text() if self._calls.exists() else ''
    return sorted(text.split())


def train(cell, places):
  """Stands for `runner.start`: trains, but does not load TensorFlow again."""
  words = runner.command(cell, places.folder(cell), places.data_dir)
  program = words[words.index('-m') + 1 :]
  ended = command_lines.run(*program, tensorflow=True)
  places.log(cell).parent.mkdir(parents=True, exist_ok=True)
  places.log(cell).write_text(ended.stdout + ended.stderr)
  return subprocess.Popen(['sh', '-c', f'exit {ended.returncode}'])


def call(program, arguments, folder, capsys, start):
  """Runs a program in this process.

  Args:
    program: Its module.
    arguments: What the user types.
    folder: The folder in which the user is.
    capsys: The fixture, which has what is printed.
    start: Stands for `runner.start`.

  Returns:
    How it ended.
  """
  importlib.import_module('experiments.synthetic')  # Its flags are to stay.
  code = 0
  with (
    mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(folder)),
    flagsaver.flagsaver(),
    mock.patch.object(interrupts, 'install'),  # They would end the tests.
    mock.patch.object(runner, 'start', start),
    mock.patch.object(runner, 'revision', lambda: REVISION),
  ):
    try:
      program.main([program.__name__, *arguments])
    except SystemExit as end:
      code = end.code
  return command_lines.Ended(code, *capsys.readouterr())


def main():
  """Runs the program that the first argument names."""
  program = importlib.import_module(sys.argv.pop(1))
  if hasattr(program, '__path__'):  # A package, as `python -m` runs it.
    program = importlib.import_module(f'{program.__name__}.__main__')
  here = cli.here('.')
  if os.environ.get('TRAIN'):
    runner.start = train
  else:
    runner.start = Stub(here, fail=os.environ.get('FAIL', '').split())
  runner.revision = lambda: REVISION
  # Drawing takes long, and other tests look at pictures.
  drawing.images = lambda _: {'svg': b'<svg/>', 'png': b''}
  app.run(
    program.main,
    flags_parser=getattr(program, 'parse_flags', cli.parse_flags),
  )


if __name__ == '__main__':
  main()

"""Test of a disk that runs full: a small one, or a quota if none is mounted."""

import contextlib
import os
import resource
import subprocess
import sys

import pytest

from f3ast_tff.runs import checkpoint
from f3ast_tff.runs import loop
from tests import trials


@pytest.fixture
def place(tmp_path):
  """A folder on a disk of 128 kB where that can be mounted."""
  folder = tmp_path / 'disk'
  folder.mkdir()
  options = ['-t', 'tmpfs', '-o', 'size=128k', 'tmpfs', str(folder)]
  try:
    code = subprocess.run(['mount', *options], capture_output=True).returncode
  except OSError:
    code = 1
  yield folder
  if code == 0:
    # Lazily, for TensorFlow may still have its events open.
    subprocess.run(['umount', '--lazy', str(folder)], check=True)


@contextlib.contextmanager
def _too_little_space(place):
  """Leaves space for some checkpoints and what belongs to them."""
  if os.path.ismount(place):
    (place / 'ballast').write_bytes(bytes(88 * 1024))
    try:
      yield
    finally:
      (place / 'ballast').unlink()
    return
  # The file of events grows beyond this, and a checkpoint does not.
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (8000, before[1]))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_error_and_the_run_continues_later(
  place, task, make_config, tmp_path, capfd
):
  config = make_config(rounds=40, eval_every=1, checkpoint_every=4)
  folder = place / 'run'
  with _too_little_space(place):
    with pytest.raises(OSError, match='No space left|File too large') as caught:
      loop.run(config, task, folder)
  assert '\n' not in str(caught.value)
  assert capfd.readouterr().err == ''  # Nothing but the error.
  assert 4 <= checkpoint.rounds(folder / 'checkpoints')[-1] < 40
  assert not list(folder.rglob('*.tmp'))
  for path in (folder, tmp_path / 'whole'):
    loop.run(config, task, path)
  whole = trials.contents(tmp_path / 'whole')
  assert trials.difference(folder, whole) == ''


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

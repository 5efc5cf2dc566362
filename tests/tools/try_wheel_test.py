"""Tests of the wheel, and of the parts of tools/try_wheel.py that are quick."""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy
import pytest
import scipy

import f3ast_tff

_TOOLS = pathlib.Path(__file__).parents[2] / 'tools'

# Without site-packages: TensorFlow, pandas and the like cannot be imported.
_PROGRAM = """
import sys, f3ast_tff
selector = f3ast_tff.build_selector([0.5, 0.5], 'scarce', 1, policy=POLICY)
steps = list(selector.simulate(9))
print(f3ast_tff.__file__, f3ast_tff.__version__, len(steps))
"""


@pytest.fixture
def try_wheel(monkeypatch):
  monkeypatch.syspath_prepend(str(_TOOLS))
  return importlib.import_module('try_wheel')


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
  with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(_TOOLS))
    return importlib.import_module('try_wheel').build(
      tmp_path_factory.mktemp('wheel')
    )


def test_the_wheel_holds_the_package_and_asks_for_numpy_and_scipy(
  try_wheel, wheel
):
  try_wheel.check_content(wheel)
  assert wheel.name == f'f3ast_tff-{f3ast_tff.__version__}-py3-none-any.whl'
  with zipfile.ZipFile(wheel) as archive:
    (path,) = (n for n in archive.namelist() if n.endswith('/METADATA'))
    lines = archive.read(path).decode().splitlines()
  always = [
    line.split()[1]
    for line in lines
    if line.startswith('Requires-Dist') and 'extra ==' not in line
  ]
  assert [re.match(r'\w+', each)[0] for each in always] == ['numpy', 'scipy']
  assert not any('<' in each for each in always)
  assert 'Requires-Python: >=3.9' in lines


@pytest.mark.parametrize('policy', ['f3ast', 'fixed_policy'])
def test_the_wheel_works_with_numpy_and_scipy_alone(wheel, policy, tmp_path):
  place, packages = tmp_path / 'installed', tmp_path / 'packages'
  packages.mkdir()
  for package in (numpy, scipy):
    folder = pathlib.Path(package.__file__).parent
    for path in folder.parent.glob(f'{folder.name}*'):
      (packages / path.name).symlink_to(path)
  with zipfile.ZipFile(wheel) as archive:
    archive.extractall(place)
  done = subprocess.run(
    [sys.executable, '-S', '-c', _PROGRAM.replace('POLICY', repr(policy))],
    cwd=tmp_path,
    env={**os.environ, 'PYTHONPATH': f'{place}:{packages}'},
    capture_output=True,
    text=True,
    timeout=60,
  )
  assert done.returncode == 0, done.stderr
  file = place / 'f3ast_tff' / '__init__.py'
  assert done.stdout.split() == [str(file), f3ast_tff.__version__, '9']


def test_a_wheel_that_lacks_a_file_or_has_one_too_many(try_wheel, tmp_path):
  wheel = tmp_path / 'x.whl'
  with zipfile.ZipFile(wheel, 'w') as archive:
    archive.writestr('f3ast_tff/__init__.py', '')
    archive.writestr('experiments/__init__.py', '')
    archive.writestr('f3ast_tff-0.1.0.dist-info/METADATA', '')
  with pytest.raises(SystemExit) as end:
    try_wheel.check_content(wheel)
  assert "'f3ast_tff/py.typed'" in str(end.value)
  assert "should not have ['experiments/__init__.py']" in str(end.value)


def test_the_tests_for_the_wheel_need_the_package_only(try_wheel):
  for name in (*try_wheel.NUMPY_TESTS, *try_wheel.TRAINING_TESTS):
    path = _TOOLS.parent / name
    for file in sorted(path.glob('*.py')) if path.is_dir() else [path]:
      imports = re.findall(
        r'^(?:from|import) (experiments|benchmarks)', file.read_text(), re.M
      )
      assert not imports, file


# Nothing that the first of the two environments lacks can be imported.
_COLLECT = """
import sys
for name in 'tensorflow', 'tensorflow_federated', 'pandas', 'tqdm', 'absl':
  sys.modules[name] = None
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_the_first_tests_for_the_wheel_need_numpy_and_scipy_only(try_wheel):
  options = ['--collect-only', '-q', '-n', '0', '-p', 'no:cacheprovider']
  done = subprocess.run(
    [sys.executable, '-c', _COLLECT, *options, *try_wheel.NUMPY_TESTS],
    cwd=_TOOLS.parent,
    capture_output=True,
    text=True,
    timeout=60,
  )
  assert done.returncode == 0, done.stdout[-2000:]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

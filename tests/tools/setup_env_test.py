"""Tests of tools/setup_env.py, without a network and without TFF.

Each test gets a toy project with a copy of the script.  In all but one `.venv`
is a fake: its `bin/python` is a shell script that notes how it is called.  For
another machine or Python, `sys` is altered before the script is run.
"""

import ast
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / 'tools' / 'setup_env.py'
VERSION = '{}.{}'.format(*sys.version_info)
OTHER_VERSION = {'3.10': '3.11', '3.11': '3.10'}.get(VERSION)
FULL = ['+lock', '-lock', '+project', '-project', '+check', '-check']
# Notes what it begins (+) and ends (-).  Without --no-deps pip finds no set of
# packages.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  '-m pip install --no-deps '*' -r requirements.txt') what=lock ;;
  '-m pip install --no-deps '*' -e .') what=project ;;
  '-c import tensorflow_federated') what=check ;;
  *) what="$*" ;;
esac
echo "+$what" >> ../calls
if [ "$what" = check ]; then {on_check}; else {on_pip}; fi
echo "-$what" >> ../calls
"""
# A toy that is installable with nothing but pip, by a path to its folder.
FILES = {
    'requirements.txt': '', 'setup.py': '',
    'pyproject.toml': 'build-system = {requires = [], backend-path = ["."], '
                      'build-backend = "backend"}',
    'backend.py': r"""
import os, zipfile
def build_editable(folder, *unused):
  with zipfile.ZipFile(folder + '/toy-1-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('toy.pth', os.getcwd())
    wheel.writestr('toy-1.dist-info/METADATA',
                   'Metadata-Version: 2.1\nName: toy\nVersion: 1')
    wheel.writestr('toy-1.dist-info/WHEEL', 'Wheel-Version: 1.0')
    wheel.writestr('toy-1.dist-info/RECORD', '')
  return 'toy-1-py3-none-any.whl'
"""}

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ('linux', 'x86_64')
    or OTHER_VERSION is None,
    reason='the script refuses this machine or this Python')


class Project:
  """A throw-away project folder with the script in it."""

  def __init__(self, folder: pathlib.Path):
    self.folder = folder
    self.venv = folder / '.venv'
    self.stamp = self.venv / '.stamp'
    self.noted = folder.with_name('calls')
    (folder / 'tools').mkdir(parents=True)
    shutil.copy(SCRIPT, folder / 'tools')
    for name, text in FILES.items():
      (folder / name).write_text(text)

  def fake_venv(self, on_pip: str = ':', on_check: str = ':') -> None:
    """Makes a `.venv` that runs these shell commands and notes the calls."""
    python = self.venv / 'bin' / 'python'
    python.parent.mkdir(parents=True, exist_ok=True)
    python.with_name(f'pip{VERSION}').write_text(f'#!{python}')
    python.write_text(FAKE_PYTHON.format(on_check=on_check, on_pip=on_pip))
    python.chmod(0o755)
    self.noted.write_text('')

  def calls(self) -> list[str]:
    """Returns what the fake interpreter noted, and forgets it."""
    lines = self.noted.read_text().splitlines()
    self.noted.write_text('')
    return lines

  def command(self, prelude: str = '') -> list[str]:
    """Returns the command to run the script from /, after the prelude."""
    script = str(self.folder / 'tools' / SCRIPT.name)
    code = (f'import os, platform, runpy, sys\n{prelude}\nos.chdir("/")\n'
            f"runpy.run_path({script!r}, run_name='__main__')")
    return [sys.executable, '-c', code]

  def run(self, prelude: str = '', **variables: str):
    return subprocess.run(
        self.command(prelude), capture_output=True, text=True, timeout=60,
        cwd=self.folder, env={**os.environ, **variables})

  def start(self) -> subprocess.Popen:
    """Starts the script; pip has been called when this returns."""
    process = subprocess.Popen(
        self.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
        # Tests in the background of a shell inherit that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 20
    while not self.noted.read_text():
      assert process.poll() is None and time.monotonic() < deadline
      time.sleep(0.01)
    return process


@pytest.fixture
def project(tmp_path):
  return Project(tmp_path / 'a project')


@pytest.fixture
def ready(project):
  """A project with an up-to-date fake environment."""
  project.fake_venv()
  result = project.run()
  assert (result.returncode, result.stderr) == (0, ''), result
  assert len(result.stdout.splitlines()) == 2  # It begins, and is ready.
  assert project.calls() == FULL
  return project


def assert_one_sentence(result, exit_code: int, *parts: str) -> None:
  assert result.returncode == exit_code, result
  assert result.stderr.endswith('.\n') and result.stderr.count('\n') == 1
  assert [part for part in parts if part not in result.stderr] == [], result


def test_syntax_is_that_of_python_3_6():
  ast.parse(SCRIPT.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize('prelude, wrong, advice', [
    *((f'sys.version_info = {version!r}', '.'.join(map(str, version)),
       'make PYTHON=python3.11')
      for version in [(3, 6, 15), (3, 9, 18), (3, 12, 1), (4, 0, 0)]),
    ("sys.platform = 'darwin'", 'darwin on x86_64', 'Linux on x86_64'),
    ("sys.platform = 'win32'; del os.uname", 'win32 on', 'Linux on x86_64'),
    ("platform.machine = lambda: 'arm64'", 'linux on arm64', 'Linux on x86_64'),
    *((f'sys.modules[{name!r}] = None', name, f'install python{VERSION}-venv')
      for name in ['venv', 'ensurepip']),
    ("os.remove('requirements.txt')", "'requirements.txt'", 'is there'),
    ("os.remove('setup.py')", "'setup.py'", 'is there'),
    ("os.mkdir('.setup.lock')", "'.setup.lock'", 'permissions'),
    ("open('.venv', 'w')", 'virtual environment', 'remove .venv'),
])
def test_unsuitable_machine_python_or_folder(project, prelude, wrong, advice):
  result = project.run(prelude)
  assert_one_sentence(result, 2, wrong, advice)
  assert 'ready' not in result.stdout and not project.venv.is_dir()


@pytest.mark.parametrize(
    'name', ['requirements.txt', 'setup.py', '.venv/.stamp'])
def test_change_is_noticed_once(ready, name):
  (ready.folder / name).write_bytes(b'\xff\x00')
  assert ready.run().returncode == 0
  assert ready.calls() == FULL
  before = {p: p.stat().st_mtime_ns for p in ready.folder.rglob('*')}
  result = ready.run()
  assert (result.returncode, result.stdout, result.stderr) == (0, '', '')
  assert before == {p: p.stat().st_mtime_ns for p in ready.folder.rglob('*')}
  assert ready.calls() == []


@pytest.mark.parametrize('version, damage', [
    (OTHER_VERSION, 'true'),
    (VERSION, 'mv "a project" moved'),
    (VERSION, 'rm */.venv/bin/python'),
    (VERSION, 'rm */.venv/bin/pip*'),
])
def test_venv_that_does_not_fit_is_made_anew(ready, tmp_path, version, damage):
  subprocess.run(damage, shell=True, cwd=tmp_path, check=True)
  ready.folder = next(tmp_path.glob('*/tools')).parent
  # A base Python that cannot make environments shows that it was asked to.
  python = tmp_path / 'bin' / f'python{version}'
  python.parent.mkdir()
  python.write_text('#!/bin/sh\necho asked for\necho "$*"\nexit 1\n')
  python.chmod(0o755)
  result = ready.run(f'sys.version_info = ({version.replace(".", ",")}, 1)\n'
                     f'sys.base_prefix = {str(tmp_path)!r}')
  assert_one_sentence(result, 2, '(-m venv --clear .venv)', 'remove .venv')


def test_environment_of_another_folder_is_not_emptied(project, tmp_path):
  other = tmp_path / 'of another'
  other.mkdir()
  (other / 'kept').touch()
  project.venv.symlink_to(other)
  assert_one_sentence(project.run(), 2, f'a link to {other}', 'remove the link')
  assert [path.name for path in other.iterdir()] == ['kept']


@pytest.mark.parametrize('fake, exit_code, parts', [
    ({'on_pip': 'exit 1'}, 1, ['-r requirements.txt', '.venv/setup.log']),
    ({'on_pip': 'test $what = lock || exit 1'}, 1, ['-e .', 'setup.log']),
    ({'on_check': f'exec "{sys.executable}" "$@"'}, 1,
     ['(RuntimeError: two)', 'make distclean setup']),
    ({'on_check': 'kill -ILL $$'}, 1, ['signal 4', 'make distclean setup']),
    ({'on_check': 'exit 7'}, 1, ['exit code 7', 'make distclean setup']),
    ({'on_check': 'ln -s /dev/full .venv/.stamp'}, 2,
     ['No space left', 'free space', 'make setup']),
])
def test_failure_is_named_and_leaves_no_stamp(ready, fake, exit_code, parts):
  (ready.folder / 'requirements.txt').write_text('# changed\n')
  (ready.folder / 'tensorflow_federated.py').write_text(
      "raise RuntimeError('two\\nlines')\n")
  ready.fake_venv(**fake)
  assert_one_sentence(ready.run(), exit_code, *parts)
  assert not ready.stamp.is_file()


@pytest.mark.parametrize('send, number, exit_code, part', [
    (os.killpg, signal.SIGINT, 130, 'make setup'),  # As a terminal does.
    (os.kill, signal.SIGTERM, 143, ''),
])
def test_interruption_is_recovered_from(ready, send, number, exit_code, part):
  (ready.folder / 'requirements.txt').write_text('# changed\n')
  ready.fake_venv(on_pip='exec sleep 600')
  process = ready.start()
  time.sleep(1)  # Let it come from starting pip to waiting for it.
  send(process.pid, number)
  stderr = process.communicate(timeout=20)[1]
  assert process.returncode == exit_code and part in stderr
  assert 'Traceback' not in stderr and not ready.stamp.exists()
  ready.fake_venv()
  assert ready.run().returncode == 0  # Would wait for a pip left running.
  assert ready.calls() == FULL and ready.stamp.exists()


@pytest.mark.parametrize('killed', [False, True])
def test_second_waits_for_the_first_and_for_its_pip(project, killed):
  project.fake_venv(on_pip='until [ -e ../go ]; do sleep 0.05; done')
  first = project.start()
  if killed:
    first.kill()
    first.communicate()
  second = project.start()
  assert second.stdout.readline().startswith('Waiting')
  project.noted.with_name('go').touch()
  for process in (first, second):
    process.communicate(timeout=20)
  assert [first.returncode, second.returncode] == [-9 if killed else 0, 0]
  # Those of an orphaned pip come first, and are not mixed with the second's.
  assert project.calls() == (FULL[:2] if killed else []) + FULL


def test_real_environment_from_failure_to_success(project, tmp_path):
  variables = {'PIP_NO_INDEX': '1', 'PIP_CONFIG_FILE': os.devnull,
               'PIP_TARGET': str(tmp_path / 'stray'), 'PIP_USER': '1'}
  requirements = project.folder / 'requirements.txt'
  requirements.write_text('f3ast-package-that-cannot-exist==1.2.3\n')
  assert_one_sentence(project.run(**variables), 1, '.venv/setup.log')
  log = project.venv / 'setup.log'
  assert 'f3ast-package-that-cannot-exist' in log.read_text()

  site = project.venv / 'lib' / f'python{VERSION}' / 'site-packages'
  whole = {path.name for path in site.glob('*.dist-info')}
  (site / 'half-1.dist-info').mkdir()  # As pip leaves it when killed early.
  requirements.write_text('')
  (project.folder / 'tensorflow_federated.py').write_text('')
  (project.venv / 'marker').touch()
  result = project.run(**variables)
  assert result.returncode == 0, (result, log.read_text())
  assert project.stamp.exists() and not (tmp_path / 'stray').exists()
  assert (project.venv / 'marker').exists()  # It was not made anew.
  found = {path.name for path in site.glob('*.dist-info')}
  assert found == {*whole, 'toy-1.dist-info'} and whole
  subprocess.run(
      [project.venv / 'bin' / 'python', '-c', 'import tensorflow_federated'],
      cwd='/', check=True)

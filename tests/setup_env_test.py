"""Tests of tools/setup_env.py, without a network and without TFF.

Each test gets a small project of its own with a copy of the script.  Where the
long way through a real environment is not the point, `.venv` is a fake: its
`bin/python` is a shell script that notes how it is called.  Conditions of the
machine (another Python version, a missing module) are made by a wrapper which
alters `sys` before it runs the unchanged script.
"""

import ast
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from typing import Optional

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / 'tools' / 'setup_env.py'
VERSION = '{}.{}'.format(*sys.version_info[:2])

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith('linux') or os.uname().machine != 'x86_64',
        reason='the script refuses this platform',
    ),
    pytest.mark.skipif(
        sys.version_info[:2] not in ((3, 10), (3, 11)),
        reason='the script refuses this Python',
    ),
]

# Makes the toy project installable with nothing but pip: an editable wheel that
# puts the project folder on the path.
BUILD_BACKEND = """
import os
import zipfile


def build_editable(wheel_directory, *unused_arguments):
  name = 'toy-1-py3-none-any.whl'
  with zipfile.ZipFile(os.path.join(wheel_directory, name), 'w') as wheel:
    wheel.writestr('toy.pth', os.getcwd() + os.linesep)
    wheel.writestr(
        'toy-1.dist-info/METADATA',
        'Metadata-Version: 2.1\\nName: toy\\nVersion: 1\\n',
    )
    wheel.writestr(
        'toy-1.dist-info/WHEEL',
        'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    )
    wheel.writestr('toy-1.dist-info/RECORD', '')
  return name
"""


class Project:
  """A throw-away project folder with the script in it."""

  def __init__(self, folder: pathlib.Path):
    self.folder = folder
    self.venv = folder / '.venv'
    self.stamp = self.venv / '.stamp'
    self.log = self.venv / 'setup.log'
    self.calls_file = folder / 'calls'
    self.go = folder / 'go'
    self.wait_for_go = f"until [ -e '{self.go}' ]; do sleep 0.05; done"
    self.script = folder / 'tools' / 'setup_env.py'
    self.script.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, self.script)
    (folder / 'requirements.txt').write_text('# none\n')
    (folder / 'setup.py').write_text('# Not used by the build backend.\n')
    (folder / 'pyproject.toml').write_text(
        '[build-system]\n'
        "requires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
    (folder / 'backend.py').write_text(BUILD_BACKEND)

  def fake_venv(self, on_pip: str = ':', on_check: str = ':') -> None:
    """Makes a `.venv` whose interpreter only notes its calls.

    Args:
      on_pip: What the interpreter does, in shell, when asked to run pip.
      on_check: The same when asked to import TensorFlow Federated.
    """
    bin_folder = self.venv / 'bin'
    bin_folder.mkdir(parents=True, exist_ok=True)
    (self.venv / 'pyvenv.cfg').write_text(f'version = {VERSION}.0\n')
    (bin_folder / 'pip').write_text(f'#!{bin_folder}/python\n')
    python = bin_folder / 'python'
    python.write_text(
        textwrap.dedent("""\
            #!/bin/sh
            case "$*" in
              *'-r requirements.txt') what=lock ;;
              *'-e .') what=project ;;
              *) what=check ;;
            esac
            echo "begin $what" >> '{calls}'
            if [ $what = check ]; then
              {on_check}
            else
              {on_pip}
            fi
            echo "end $what" >> '{calls}'
            """).format(
            calls=self.calls_file, on_check=on_check, on_pip=on_pip
        )
    )
    python.chmod(0o755)

  def calls(self) -> list[str]:
    """Returns what the fake interpreter noted, and forgets it."""
    if not self.calls_file.exists():
      return []
    lines = self.calls_file.read_text().splitlines()
    self.calls_file.unlink()
    return lines

  def command(self, prelude: Optional[str] = None) -> list[str]:
    """Returns the command that runs the script.

    Args:
      prelude: Python statements to run before the script.
    """
    if prelude is None:
      return [sys.executable, str(self.script)]
    code = (
        f'import os, runpy, sys\n{prelude}\n'
        f"runpy.run_path({str(self.script)!r}, run_name='__main__')\n"
    )
    return [sys.executable, '-c', code]

  def run(self, prelude: Optional[str] = None, **variables: str):
    """Runs the script to its end, from another folder than the project."""
    return subprocess.run(
        self.command(prelude),
        capture_output=True,
        text=True,
        cwd='/',
        env={**os.environ, **variables},
        timeout=60,
    )

  def start(self) -> subprocess.Popen:
    """Starts the script; pip has been called when this returns."""
    process = subprocess.Popen(
        self.command(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd='/',
        start_new_session=True,
        # Tests in the background of a shell inherit that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 20
    while not self.calls_file.exists():
      assert process.poll() is None, process.communicate()
      assert time.monotonic() < deadline
      time.sleep(0.01)
    return process


FULL = [
    f'{when} {what}'
    for what in ('lock', 'project', 'check')
    for when in ('begin', 'end')
]


@pytest.fixture
def project(tmp_path):
  return Project(tmp_path / 'a project')


def assert_one_sentence(result, exit_code: int, *parts: str) -> None:
  assert result.returncode == exit_code, result
  assert result.stderr.endswith('.\n')
  assert result.stderr.count('\n') == 1
  for part in parts:
    assert part in result.stderr


@pytest.mark.parametrize(
    'version', [(3, 6, 15), (3, 9, 18), (3, 12, 1), (4, 0, 0)]
)
def test_wrong_python_is_named(project, version):
  result = project.run(
      prelude=f"sys.version_info = {version + ('final', 0)!r}"
  )
  found = '.'.join(map(str, version))
  assert_one_sentence(
      result, 2, f'this is Python {found}:', 'make PYTHON=python3.11'
  )
  assert result.stdout == ''
  assert not project.venv.exists()


@pytest.mark.parametrize(
    'prelude, found',
    [
        ("sys.platform = 'darwin'", 'darwin on x86_64'),
        (
            'import types\n'
            "os.uname = lambda: types.SimpleNamespace(machine='aarch64')",
            'linux on aarch64',
        ),
        ("sys.platform = 'win32'; del os.uname", 'win32 on unknown machine'),
    ],
)
def test_wrong_machine_is_named(project, prelude, found):
  result = project.run(prelude=prelude)
  assert_one_sentence(result, 2, found, 'Linux on x86_64')
  assert not project.venv.exists()


@pytest.mark.parametrize('module', ['venv', 'ensurepip'])
def test_missing_module_names_the_package(project, module):
  result = project.run(prelude=f'sys.modules[{module!r}] = None')
  assert_one_sentence(result, 2, module, f'install python{VERSION}-venv')
  assert not project.venv.exists()


def test_syntax_is_that_of_python_3_6():
  # Best effort, but it knows the usual suspects such as the walrus.
  ast.parse(SCRIPT.read_text(), feature_version=(3, 6))


def test_venv_that_cannot_be_made(project):
  project.venv.write_text('in the way')
  result = project.run()
  assert_one_sentence(result, 2, 'Cannot make a virtual environment in .venv')
  assert project.venv.read_text() == 'in the way'


@pytest.mark.parametrize('name', ['requirements.txt', 'setup.py'])
def test_missing_input_file(project, name):
  (project.folder / name).unlink()
  assert_one_sentence(project.run(), 2, f'Cannot read {name}')
  assert not project.venv.exists()


def test_fake_environment_is_installed_into_and_stamped(project):
  project.fake_venv()
  result = project.run()
  assert result.returncode == 0, result
  assert result.stderr == ''
  assert len(result.stdout.splitlines()) == 2
  assert project.calls() == FULL
  assert re.fullmatch('[0-9a-f]{64}\n', project.stamp.read_text())
  assert '--no-deps' in project.log.read_text()


def test_current_stamp_means_no_work(project):
  project.fake_venv()
  assert project.run().returncode == 0
  project.calls()
  before = {p: p.stat().st_mtime_ns for p in project.folder.rglob('*')}
  result = project.run()
  assert (result.returncode, result.stdout, result.stderr) == (0, '', '')
  assert project.calls() == []
  after = {p: p.stat().st_mtime_ns for p in project.folder.rglob('*')}
  assert after == before


@pytest.mark.parametrize('name', ['requirements.txt', 'setup.py'])
def test_changed_input_is_noticed(project, name):
  project.fake_venv()
  assert project.run().returncode == 0
  project.calls()
  stamp = project.stamp.read_text()
  with open(project.folder / name, 'a') as file:
    file.write('# changed\n')
  assert project.run().returncode == 0
  assert project.calls() == FULL
  assert project.stamp.read_text() != stamp


def test_damaged_stamp_is_not_trusted(project):
  project.fake_venv()
  assert project.run().returncode == 0
  project.calls()
  project.stamp.write_bytes(b'\xff\x00')
  assert project.run().returncode == 0
  assert project.calls() == FULL


def test_environment_of_another_python_is_not_current(project):
  project.fake_venv()
  assert project.run().returncode == 0
  other = (3, 10) if sys.version_info[:2] == (3, 11) else (3, 11)
  # It would be made anew, were that possible.
  result = project.run(
      prelude=f"sys.version_info = {other + (1, 'final', 0)!r}\n"
      "sys.modules['ensurepip'] = None"
  )
  assert_one_sentence(result, 2, 'ensurepip')


def test_failed_pip_leaves_no_stamp(project):
  project.fake_venv()
  assert project.run().returncode == 0
  (project.folder / 'requirements.txt').write_text('# changed\n')
  project.fake_venv(on_pip='echo the reason; exit 1')
  result = project.run()
  assert_one_sentence(result, 1, 'the last lines', '.venv/setup.log')
  assert str(project.folder) not in result.stderr
  assert project.log.read_text().endswith('the reason\n')
  assert not project.stamp.exists()


@pytest.mark.parametrize(
    'on_check, reason',
    [
        (f'exec "{sys.executable}" "$@"', '(RuntimeError: two)'),
        ('kill -ILL $$', 'died of signal 4'),
        ('exit 7', 'exit code 7'),
    ],
)
def test_failed_import_is_named(project, on_check, reason):
  project.fake_venv(on_check=on_check)
  (project.venv / 'tensorflow_federated.py').write_text(
      "raise RuntimeError('two\\nlines')\n"
  )
  result = project.run()
  assert_one_sentence(result, 1, reason, 'make distclean setup')
  assert not project.stamp.exists()


@pytest.mark.parametrize(
    'number, exit_code', [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_interruption_leaves_no_stamp_and_is_recovered_from(
    project, number, exit_code
):
  project.fake_venv()
  assert project.run().returncode == 0
  project.calls()
  (project.folder / 'requirements.txt').write_text('# changed\n')
  project.fake_venv(on_pip='exec sleep 60')
  process = project.start()
  if number == signal.SIGINT:  # A terminal sends it to all in the foreground.
    os.killpg(process.pid, number)
  else:
    process.send_signal(number)
  process.communicate(timeout=20)
  assert process.returncode == exit_code
  assert not project.stamp.exists()
  with pytest.raises(ProcessLookupError):  # Nothing is left running.
    for _ in range(100):  # The killed may take a moment to go.
      os.killpg(process.pid, 0)
      time.sleep(0.1)
  project.calls()

  project.fake_venv()
  assert project.run().returncode == 0
  assert project.calls() == FULL
  assert project.stamp.exists()


def test_half_installed_packages_are_installed_again(project):
  project.fake_venv()
  site = project.venv / 'lib' / f'python{VERSION}' / 'site-packages'
  for name, installer, files in [
      ('whole', True, ['whole.py', 'cache.pyc']),
      ('nofiles', True, ['lost.py']),
      ('early', False, ['whole.py']),
  ]:
    info = site / f'{name}-1.dist-info'
    info.mkdir(parents=True)
    (info / 'RECORD').write_text(''.join(f'{f},,\n' for f in files))
    if installer:
      (info / 'INSTALLER').write_text('pip\n')
  (site / 'norecord-1.dist-info').mkdir()
  (site / 'whole.py').write_text('')
  assert project.run().returncode == 0
  kept = [path.name for path in site.glob('*.dist-info')]
  assert kept == ['whole-1.dist-info']


def test_two_at_once_install_once(project):
  project.fake_venv(on_pip=project.wait_for_go)
  first = project.start()
  second = project.start()
  assert second.stdout.readline().startswith('Waiting')
  project.go.touch()
  first.communicate(timeout=20)
  second.communicate(timeout=20)
  assert (first.returncode, second.returncode) == (0, 0)
  assert project.calls() == FULL


def test_killed_set_up_keeps_the_lock_until_its_pip_has_ended(project):
  project.fake_venv(on_pip=project.wait_for_go)
  first = project.start()
  first.kill()
  first.communicate()
  second = project.start()
  assert second.stdout.readline().startswith('Waiting')
  project.go.touch()
  second.communicate(timeout=20)
  assert second.returncode == 0
  # The orphan's notes come first and are not mixed with those of the second.
  assert project.calls() == FULL[:2] + FULL


def test_moved_environment_is_not_trusted(project):
  project.fake_venv()
  assert project.run().returncode == 0
  moved = project.folder.with_name('elsewhere')
  project.folder.rename(moved)
  project.script = moved / 'tools' / 'setup_env.py'
  # It would be made anew, were that possible.
  result = project.run(prelude="sys.modules['ensurepip'] = None")
  assert_one_sentence(result, 2, 'ensurepip')


def test_real_environment_from_failure_to_success(project):
  offline = {'PIP_NO_INDEX': '1', 'PIP_CONFIG_FILE': os.devnull}
  requirements = project.folder / 'requirements.txt'
  requirements.write_text('f3ast-package-that-cannot-exist==1.2.3\n')
  result = project.run(**offline)
  assert_one_sentence(result, 1, 'requirements.txt', '.venv/setup.log')
  assert 'f3ast-package-that-cannot-exist' in project.log.read_text()
  assert not project.stamp.exists()
  assert (project.venv / 'bin' / 'python').exists()

  requirements.write_text('# none\n')
  (project.folder / 'tensorflow_federated.py').write_text('')
  marker = project.venv / 'marker'
  marker.write_text('')
  result = project.run(**offline)
  assert result.returncode == 0, (result, project.log.read_text())
  assert project.stamp.exists()
  assert marker.exists()  # The environment was used again, not made anew.

#!/usr/bin/env python3
"""Checks that the BUILD files say what the Python files need.

Three things have to hold, and each that does not is one line of output:

- Every Python file is named in the BUILD file of its folder.
- A target names in `deps` the targets whose modules its files import, directly
  or as a string such as 'experiments.cifar100' that starts a program, and no
  others. (What stands behind those targets is their own business.)
- Packages from elsewhere that f3ast_tff imports are in setup.py, and those of
  its NumPy part, //f3ast_tff:core and :report, in `install_requires`.

BUILD files are run as the Python that they nearly are, with rules that write
down their arguments. Only the standard library is used.
"""

import ast
from collections.abc import Iterator
import dataclasses
import pathlib
import sys
from typing import Any, Optional

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The rules that make targets; all others, such as `package`, say nothing here.
_RULES = ('py_binary', 'py_library', 'py_test', 'test_suite')

# What pytest reads without being told.
_CONFTEST = '//tests:conftest'

# Targets that must do without TensorFlow.
_LIGHT = ('//f3ast_tff:core', '//f3ast_tff/report:report')

# Where the name to install is another than the name to import.
_DISTRIBUTIONS = {'absl': 'absl-py', 'grpc': 'grpcio'}


@dataclasses.dataclass(frozen=True)
class Target:
  """A target of a BUILD file.

  Attributes:
    label: Its full label, e.g. `//tests:rates_test`.
    rule: The rule that made it, e.g. `py_test`.
    files: Its sources and data, as paths from the root.
    sources: Its sources alone.
    deps: The full labels it depends on.
    tests: Those of a test suite.
  """

  label: str
  rule: str
  files: frozenset[str]
  sources: frozenset[str]
  deps: tuple[str, ...]
  tests: tuple[str, ...]


def _full(label: str, package: str) -> str:
  """Returns a label with package and name."""
  if label.startswith(':'):
    return f'//{package}{label}'
  if ':' in label:
    return label
  return f'{label}:{label.rpartition("/")[2]}'


def _ignored(root: pathlib.Path) -> list[pathlib.Path]:
  path = root / '.bazelignore'
  lines = path.read_text().split() if path.exists() else []
  return [root / line for line in lines]


def _files(root: pathlib.Path, name: str) -> Iterator[pathlib.Path]:
  """Yields the files whose names match, but for what Bazel does not look at."""
  ignored = {*_ignored(root), root / 'build', root / 'dist'}
  folders = [root]
  while folders:
    folder = folders.pop()
    yield from sorted(path for path in folder.glob(name) if path.is_file())
    folders += sorted(
      path
      for path in folder.iterdir()
      if path.is_dir()
      and path not in ignored
      and not path.name.startswith(('.', 'bazel-'))
    )


def _run(path: pathlib.Path, package: str) -> tuple[list[Target], set[str]]:
  """Runs a BUILD file; returns its targets and the files it exports."""
  folder = path.parent
  targets: list[Target] = []
  exported: set[str] = set()

  def glob(include: list[str], exclude: Optional[list[str]] = None) -> list:
    found = {p for pattern in include for p in folder.glob(pattern)}
    found -= {p for pattern in exclude or [] for p in folder.glob(pattern)}
    return sorted(str(p.relative_to(folder)) for p in found)

  def in_package(names: list[str]) -> frozenset[str]:
    return frozenset(
      str(pathlib.PurePath(package) / name.lstrip(':'))
      for name in names
      if not name.startswith('//')
    )

  def rule(kind: str) -> Any:
    def record(
      name: str, srcs=(), data=(), deps=(), tests=(), **unused: Any
    ) -> None:
      targets.append(
        Target(
          label=f'//{package}:{name}',
          rule=kind,
          files=in_package([*srcs, *data]),
          sources=in_package(list(srcs)),
          deps=tuple(_full(dep, package) for dep in deps),
          tests=tuple(_full(test, package) for test in tests),
        )
      )

    return record

  def exports_files(names: list[str]) -> None:
    exported.update(in_package(names))

  tree = ast.parse(path.read_text(), str(path))
  names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
  namespace: dict[str, Any] = {
    name: lambda *unused, **also_unused: None for name in names
  }
  namespace |= {kind: rule(kind) for kind in _RULES}
  namespace |= {'glob': glob, 'exports_files': exports_files, 'len': len}
  # Constants of the file itself are bound when it runs.
  exec(compile(tree, str(path), 'exec'), namespace)
  return targets, exported


def read(root: pathlib.Path = ROOT) -> tuple[dict[str, Target], set[str]]:
  """Returns all targets by label, and all exported files."""
  targets: dict[str, Target] = {}
  exported: set[str] = set()
  for path in _files(root, 'BUILD'):
    package = path.parent.relative_to(root).as_posix()
    some, more = _run(path, '' if package == '.' else package)
    targets |= {target.label: target for target in some}
    exported |= more
  return targets, exported


def _module_file(root: pathlib.Path, module: str) -> Optional[str]:
  """Returns the file of a module of ours, None if it is not ours."""
  stem = module.replace('.', '/')
  for path in (f'{stem}.py', f'{stem}/__init__.py'):
    if (root / path).is_file():
      return path
  return None


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
  """Yields all nodes but those that only a type checker reads."""
  yield tree
  for node in ast.iter_child_nodes(tree):
    if isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.dump(node.test):
      continue
    yield from _walk(node)


def _imported(tree: ast.AST) -> Iterator[tuple[str, ...]]:
  """Yields what a file imports, each as candidates for a module's name."""
  for node in _walk(tree):
    if isinstance(node, ast.Import):
      yield from ((alias.name,) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
      for alias in node.names:
        yield f'{node.module}.{alias.name}', node.module


def _named(tree: ast.AST, packages: set[str]) -> Iterator[tuple[str, ...]]:
  """Yields the modules that strings name, e.g. for `python -m`."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
      package, _, rest = node.value.partition('.')
      parts = [part for part in rest.split('.') if part]
      if package in packages and all(part.isidentifier() for part in parts):
        # The beginning of f'experiments.{name}' names the package.
        yield node.value.rstrip('.'), package


def _uses(
  root: pathlib.Path, source: str, packages: set[str]
) -> tuple[dict[str, str], set[str]]:
  """Returns the files of ours that a file uses, by name, and others' packages.

  Args:
    root: The checkout.
    source: A Python file, as a path from the root.
    packages: The names of our own top-level packages.

  Returns:
    Our modules, file by name, and the names of packages from elsewhere.
  """
  tree = ast.parse((root / source).read_text(), source)
  own: dict[str, str] = {}
  others: set[str] = set()
  for candidates in (*_imported(tree), *_named(tree, packages)):
    if candidates[0].split('.')[0] not in packages:
      others.add(candidates[0].split('.')[0])
      continue
    for module in candidates:
      path = _module_file(root, module)
      if path is not None:
        own[module] = path
        break
  return own, others - set(sys.stdlib_module_names)


def _check_deps(
  root: pathlib.Path, targets: dict[str, Target], packages: set[str]
) -> Iterator[str]:
  """Yields what is wrong with the deps of targets."""
  owners: dict[str, set[str]] = {}
  for target in targets.values():
    if target.rule == 'py_library':
      for path in target.files:
        owners.setdefault(path, set()).add(target.label)
  for target in targets.values():
    used: set[str] = set()
    for source in sorted(target.sources):
      if not source.endswith('.py') or not (root / source).is_file():
        continue
      from_library = owners.get(source, set()) & set(target.deps)
      if from_library:  # A binary; its file is checked in that library.
        used |= from_library
        continue
      own, _ = _uses(root, source, packages)
      for module, path in sorted(own.items()):
        labels = owners.get(path, set())
        used |= labels
        if labels and not labels & {target.label, *target.deps}:
          yield (
            f'{target.label} lacks {min(labels)} in deps: {source} uses '
            f'{module}.'
          )
    if target.rule == 'py_test':
      used.add(_CONFTEST)
    for dep in target.deps:
      if dep not in targets:
        yield f'{target.label} has {dep} in deps, which does not exist.'
      elif dep not in used:
        yield f'{target.label} has {dep} in deps, but uses none of its modules.'


def _requirements(root: pathlib.Path) -> tuple[set[str], set[str]]:
  """Returns the packages that setup.py requires, and those of its extras."""
  tree = ast.parse((root / 'setup.py').read_text())
  found: dict[str, set[str]] = {
    'install_requires': set(), 'extras_require': set()
  }
  for node in ast.walk(tree):
    if isinstance(node, ast.keyword) and node.arg in found:
      value = ast.literal_eval(node.value)
      lists = value.values() if isinstance(value, dict) else [value]
      found[node.arg] |= {
        _distribution(text) for texts in lists for text in texts
      }
  return found['install_requires'], found['extras_require']


def _distribution(requirement: str) -> str:
  """Returns the name in a requirement such as `numpy>=1.25,<2`."""
  name = requirement
  for separator in '<>=!~ ;[':
    name = name.split(separator)[0]
  return name.lower().replace('_', '-')


def _check_requirements(
  root: pathlib.Path, targets: dict[str, Target], packages: set[str]
) -> Iterator[str]:
  """Yields packages from elsewhere that setup.py does not name."""
  required, extras = _requirements(root)
  for target in targets.values():
    if not target.label.startswith('//f3ast_tff'):
      continue
    for source in sorted(target.sources):
      if not (root / source).is_file():
        continue
      for name in sorted(_uses(root, source, packages)[1]):
        distribution = _DISTRIBUTIONS.get(name, name.replace('_', '-'))
        if distribution in required:
          continue
        if target.label in _LIGHT:
          yield (
            f'{source} imports {name}, which install_requires in setup.py does '
            f'not name; {target.label} may use nothing else.'
          )
        elif distribution not in extras:
          yield f'{source} imports {name}, which setup.py does not name.'


def problems(root: pathlib.Path = ROOT) -> list[str]:
  """Returns all that is wrong, one sentence each."""
  targets, exported = read(root)
  python_files = {
    path.relative_to(root).as_posix() for path in _files(root, '*.py')
  }
  named = exported.union(*(target.files for target in targets.values()))
  packages = {
    path.split('/')[0] for path in python_files if path.endswith('/__init__.py')
  }
  found = []
  for path in sorted(python_files - named):
    build = pathlib.PurePath(path).with_name('BUILD')
    found.append(f'{build} does not name {path}.')
  for path in sorted(named - python_files):
    if not (root / path).exists():
      build = pathlib.PurePath(path).with_name('BUILD')
      found.append(f'{build} names {path}, which does not exist.')
  found += _check_deps(root, targets, packages)
  found += _check_requirements(root, targets, packages)
  return found


def main() -> int:
  """Prints all problems and returns the exit code."""
  found = problems()
  for problem in found:
    print(problem, file=sys.stderr)
  return 1 if found else 0


if __name__ == '__main__':
  sys.exit(main())

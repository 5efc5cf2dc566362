"""The pages of the report on the benchmarks of methods, one for each task."""

import pathlib

from experiments.benchmark import report
from experiments.benchmark import results

_REFERENCE = 'f3ast'
_REPORT = 'report.html'
# The tasks, by the names of their folders.
_TITLES = {
  'synthetic': 'Synthetic(1,1)',
  'shakespeare': 'Shakespeare, compact model',
  'cifar100': 'CIFAR-100, compact model',
}


def build(folder: pathlib.Path) -> dict[str, tuple[str, str]]:
  """Returns the pages.

  Args:
    folder: Has a folder for each task that was run, with the benchmark's files.

  Returns:
    Title and content of each page by the name of its file.
  """
  found = {
    f'benchmark-{task}.html': results.read(
      task, folder / task, _REFERENCE, title
    )
    for task, title in _TITLES.items()
    if (folder / task).exists()
  }
  titles = {name: f'Benchmark: {each.title}' for name, each in found.items()}
  pages = {}
  for name, each in found.items():
    others = {'The paper next to our runs': _REPORT} | {
      title: other for other, title in titles.items() if other != name
    }
    content = report.page(
      each, report.content(each), report.pictures(each), others
    )
    pages[name] = titles[name], content
  return pages

"""Tests of `benchmark_pages`: a page per task, with links to the others."""

import re
import sys

import pytest

from experiments.paper import benchmark_pages
from experiments.paper import paper_report
from tests import fake_results


def test_a_page_for_each_task_that_was_run(tmp_path):
  assert benchmark_pages.build(tmp_path / 'absent') == {}
  for task in ('synthetic', 'cifar100'):
    (tmp_path / task).mkdir()
    accuracies = {'f3ast': [0.5, 0.6], 'fedavg': [0.4, 0.7]}
    table = fake_results.benchmark(accuracies)
    table.to_csv(tmp_path / task / 'runs.csv', index=False)
  pages = benchmark_pages.build(tmp_path)
  assert list(pages) == ['benchmark-synthetic.html', 'benchmark-cifar100.html']
  links = {
    name: set(re.findall(r'href="([^#"]+)"', page))
    for name, (_, page) in pages.items()
  }
  assert links == {
    'benchmark-synthetic.html': {'report.html', 'benchmark-cifar100.html'},
    'benchmark-cifar100.html': {'report.html', 'benchmark-synthetic.html'},
  }
  files = paper_report.build([], {}, pages)
  for name, (title, page) in pages.items():
    assert files[name].decode() == page
    assert f'<a href="{name}">{title}</a>' in files['report.html'].decode()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

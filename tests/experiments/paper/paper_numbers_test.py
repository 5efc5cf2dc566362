"""Tests of `paper_numbers` against the paper's source, and sums."""

import pathlib
import re
import sys

import pytest

from experiments.paper import paper_numbers

_PAPER = pathlib.Path(__file__).parents[4] / 'shared' / 'paper' / 'f3ast.tex'

# Sums of the paper's rows and columns, added from its source and not from the
# file: one digit or one place wrong changes a row's sum and a column's.
_ROW_SUMS = {
  ('accuracy', 'cifar100'): (0.562, 1.014, 1.432, 1.504, 0.535),
  ('accuracy', 'shakespeare'): (2.689, 2.818, 2.674, 2.774, 2.695),
  ('loss', 'cifar100'): (23.50, 20.84, 18.11, 17.87, 24.65),
  ('loss', 'shakespeare'): (6.14, 5.56, 6.38, 5.77, 6.37),
  ('user_accuracy', 'shakespeare'): (2.626, 2.753, 2.616, 2.718, 2.637),
  ('user_loss', 'shakespeare'): (5.06, 4.57, 5.28, 4.75, 5.24),
  ('heterogeneity', 'synthetic'): (2.12, 2.34),
}
_COLUMN_SUMS = {
  'accuracy': (3.721, 3.759, 3.756, 3.717, 3.744),
  'loss': (26.87, 26.88, 27.17, 27.31, 26.96),
  'user_accuracy': (2.691, 2.689, 2.615, 2.699, 2.656),
  'user_loss': (4.87, 4.81, 5.53, 4.68, 5.01),
  'heterogeneity': (1.55, 1.47, 1.44),
}
_METHODS = ('fedavg', 'f3ast', 'fedadam', 'f3ast_adam', 'power_of_choice')
# In the order of the paper's columns.
_AVAILS = ('always', 'scarce', 'home_devices', 'uneven', 'smartphones')
_ALPHAS = (0.0, 0.5, 1.0)

# The paper's own names.
_NAMES = {
  r'\fedavg': 'fedavg',
  r'\feast': 'f3ast',
  r'\fedadam': 'fedadam',
  r'\feast+Adam': 'f3ast_adam',
  r'\poc': 'power_of_choice',
  'Always': 'always',
  'Scarce': 'scarce',
  'HomeDevice': 'home_devices',
  'Uneven': 'uneven',
  'SmartPhones': 'smartphones',
  r'$\alpha=0$': 0.0,
  r'$\alpha=0.5$': 0.5,
  r'$\alpha=1$': 1.0,
}
# Each table by the first words of its caption.
_CAPTIONS = {
  'Test sample accuracy of all': 'accuracy',
  'Sample loss of all': 'loss',
  'User accuracy of all': 'user_accuracy',
  'User loss of all': 'user_loss',
  'Test accuracy on the synthetic': 'heterogeneity',
}


def _by_key(numbers):
  """Returns the value of (table, dataset, method, column, metric)."""
  column = numbers['alpha'].where(
    numbers['alpha'].notna(), numbers['availability']
  )
  keys = ('table', 'dataset', 'method', 'metric')
  return dict(
    zip(zip(*(numbers[key] for key in keys), column), numbers['value'])
  )


def _cells(row):
  """Returns the cells of a row of a LaTeX table without what decorates them."""
  row = re.sub(r'\\textcolor\{[\w-]+\}\{\([-+.\d]+\\%\)\}|\\\w*rule', '', row)
  row = re.sub(r'\\multirow\{5\}\{\*\}', '', row)
  row = re.sub(r'\\clineThicknessColor(\{[^}]*\}){3}', '', row)
  row = re.sub(r'\\textcolor\{[\w-]+\}\{(\\\w+)\}', r'\1', row)
  row = re.sub(r'\\textbf\{([^}]*)\}', r'\1', row)
  return [re.sub(r'[\s{}~]', '', cell) for cell in row.split('&')]


def _in_source(source):
  """Returns what `_by_key` does, from the paper's source."""
  values = {}
  for body in re.findall(r'\\begin\{table\*?\}(.*?)\\end\{table', source, re.S):
    caption = re.search(r'\\caption\{(.*)', body)
    names = [n for c, n in _CAPTIONS.items() if caption[1].startswith(c)]
    if not names:
      continue
    table, columns = names[0], []
    dataset = 'synthetic' if table == 'heterogeneity' else 'shakespeare'
    for row in map(_cells, body[body.index('rule') :].split(r'\\')):
      if row[-1] in _NAMES:
        columns = [_NAMES[cell] for cell in row if cell in _NAMES]
      row = [cell for cell in row if cell]
      if row and row[0] in ('CIFAR100', 'Shakespeare'):
        dataset = row.pop(0).lower()
      if not row or not re.fullmatch(r'[\d.]+', row[-1]):
        continue
      metric = 'accuracy' if table == 'heterogeneity' else table
      assert len(row) == 1 + len(columns), row
      for column, cell in zip(columns, row[1:]):
        key = table, dataset, _NAMES[row[0]], metric, column
        assert key not in values
        values[key] = float(cell)
  return values


@pytest.mark.skipif(not _PAPER.exists(), reason='the source is not here')
def test_all_numbers_are_the_papers():
  values = _in_source(_PAPER.read_text())
  assert len(values) == 156
  assert _by_key(paper_numbers.load()) == values


def test_sums_are_the_papers():
  numbers = paper_numbers.load()
  assert len(numbers) == 156
  by_row = numbers.groupby(['table', 'dataset', 'method'])['value'].sum()
  for table_and_dataset, sums in _ROW_SUMS.items():
    by_method = by_row[table_and_dataset]
    assert set(by_method.index) == set(_METHODS[: len(sums)])
    assert list(by_method[list(_METHODS[: len(sums)])]) == pytest.approx(sums)
  for table, sums in _COLUMN_SUMS.items():
    part = numbers[numbers['table'] == table]
    heterogeneity = table == 'heterogeneity'
    column = 'alpha' if heterogeneity else 'availability'
    by_column = part.groupby(column)['value'].sum()
    order = list(_ALPHAS if heterogeneity else _AVAILS)
    assert set(by_column.index) == set(order)
    assert list(by_column[order]) == pytest.approx(sums)


def test_the_grid_is_complete():
  numbers = paper_numbers.load()
  cells = numbers.groupby(['table', 'dataset', 'metric']).size()
  assert dict(cells) == {
    ('accuracy', 'cifar100', 'accuracy'): 25,
    ('accuracy', 'shakespeare', 'accuracy'): 25,
    ('loss', 'cifar100', 'loss'): 25,
    ('loss', 'shakespeare', 'loss'): 25,
    ('user_accuracy', 'shakespeare', 'user_accuracy'): 25,
    ('user_loss', 'shakespeare', 'user_loss'): 25,
    ('heterogeneity', 'synthetic', 'accuracy'): 6,
  }
  synthetic = numbers[numbers['dataset'] == 'synthetic']
  assert set(synthetic['availability']) == {'smartphones'}


@pytest.mark.parametrize(
  'old, new, message',
  [
    ('method', 'algorithm', 'columns'),
    ('cifar100,fedavg', 'cifar100,sgd', 'method of fedavg'),
    ('0.141', '1.41', 'accuracies in'),
    ('0.141', 'x', 'accuracies in'),
    ('0.141', '', 'accuracies in'),
    ('always,,', 'always,1,', 'alpha'),
    ('fedavg,scarce', 'fedavg,always', 'once'),
  ],
)
def test_a_wrong_file_is_refused(tmp_path, old, new, message):
  path = pathlib.Path(paper_numbers.__file__).with_suffix('.csv')
  wrong = tmp_path / 'wrong.csv'
  wrong.write_text(path.read_text().replace(old, new, 1))
  with pytest.raises(ValueError, match=message):
    paper_numbers.load(wrong)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

"""Tests of `benchmarks.selection_scale` on few clients."""

import pathlib
import sys

import pandas as pd
import pytest

from benchmarks import selection_scale
from tests import programs

_RESULTS = pathlib.Path(__file__).parents[2] / 'results' / 'benchmarks'


def test_curves_of_few_clients(tmp_path):
  programs.succeed(
    tmp_path,
    'benchmarks.selection_scale',
    '--least=2',
    '--most=4',
    '--repeats=3',
    '--output_dir=scale',
  )
  assert (tmp_path / 'scale' / 'selection_scale.png').stat().st_size > 0
  table = pd.read_csv(tmp_path / 'scale' / 'selection_scale.csv')
  cases = table[['num_clients', 'cohort']].drop_duplicates()
  assert cases.to_numpy().tolist() == [
    [100, 10], [1000, 10], [10000, 10], [10000, 1000]
  ]
  assert (table.groupby(['num_clients', 'cohort']).size() == 2 * 5).all()
  assert (table['quartile_1_ms'] <= table['median_ms']).all()
  assert (table['median_ms'] <= table['quartile_3_ms']).all()
  # What a step holds is the same at all sizes but for small things.
  large = table[(table['num_clients'] == 10**4) & (table['part'] == 'step')]
  assert large['peak_vectors'].between(1, 10).all()


@pytest.mark.parametrize('cohorts', [(10,), (10, 1000)])
def test_the_picture(tmp_path, cohorts):
  table = pd.read_csv(_RESULTS / 'selection_scale.csv')
  # Saving it checks its layout.
  selection_scale.draw(
    table[table['cohort'].isin(cohorts)], tmp_path / 'picture.png'
  )
  assert (tmp_path / 'picture.png').stat().st_size > 1000


@pytest.mark.parametrize(
  'flag, message', [('--most=1', 'no size'), ('--repeats=0', 'repeats')]
)
def test_bad_input_is_one_sentence(tmp_path, flag, message):
  assert message in programs.one_error(
    tmp_path, 'benchmarks.selection_scale', flag
  )


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

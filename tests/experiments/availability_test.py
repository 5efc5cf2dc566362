"""Tests of `experiments.availability`."""

import sys

import numpy as np
import pandas as pd
import pytest

from experiments import population
from experiments.paper import population_figures
from f3ast_tff import availability
from f3ast_tff.datasets import synthetic
from f3ast_tff.runs import config as config_lib
from tests import programs

_DATA = synthetic.load(num_clients=12, seed=3)


def _observe(avail, **settings):
  config = config_lib.Config(
    avail=avail, seed=3, **{'rounds': 30, **settings}
  )
  return population.observe(config, _DATA)


def _lines(shown):
  """Returns the numbers of the text by what they are of."""
  title, *lines = population.text(shown).splitlines()
  assert len(lines) < 12 and all(len(line) <= 80 for line in lines)
  assert title == shown.title
  return {line[:18].strip(): line[18:].strip() for line in lines}


def test_the_rounds_are_those_of_a_run():
  shown = _observe('smartphones', clients_per_round='uniform:1,5')
  model = availability.smartphones(12, seed=3)
  for t in (1, 2, 30):
    np.testing.assert_array_equal(shown.masks[t - 1], model(t))
  assert shown.k.min() >= 1 and shown.k.max() <= 5 and np.ptp(shown.k) > 0
  np.testing.assert_allclose(shown.p, _DATA.p)
  assert (np.diff(shown.p[shown.order]) <= 0).all()
  assert shown.order_name == 'most data on top' and shown.is_positive


def test_clients_of_a_group_stay_together():
  shown = _observe('blocks:3,5,always')
  assert shown.order_name == 'by group'
  # In the first turn the four of block 0 are there, and so on.
  turns = shown.masks[[0, 5, 10]][:, shown.order]
  np.testing.assert_array_equal(turns, np.repeat(np.eye(3), 4, axis=1))
  first = shown.p[shown.order][:4]
  assert (np.diff(first) <= 0).all()


def test_the_text_by_hand():
  # Blocks of 6, 6 rounds each, always there in them, in 18 rounds: block 0 has
  # rounds 1-6 and 13-18, block 1 rounds 7-12.
  shown = _observe('blocks:2,6,always', rounds=18, clients_per_round='7')
  second = shown.order[6:]
  lines = _lines(shown)
  assert lines['a round has'] == '6.0 of 12 clients, from 6 to 6'
  assert lines['too few'] == 'fewer than K_t in 18 of 18 rounds, none in 0'
  by_p = 2 / 3 - shown.p[second].sum() / 3
  assert lines['a client has'] == (
    f'0.50 of the rounds, {by_p:.2f} by p; quartiles 0.33, 0.50, 0.67'
  )
  assert lines['never available'] == '0 clients, with 0.0 % of the data'
  for name in ('available for', 'absent for'):
    assert lines[name] == '6.0 rounds in a row on average, at most 6'
  # 30 pairs of one block are 1 and 36 are -1.
  assert lines['correlation'].startswith(f'{-6 / 66:.3f}, mean')
  assert lines['H of F3AST'].startswith('sum p^2/r')


def test_who_is_never_available_is_counted_with_its_data():
  # Nobody of block 1 in the first 6 rounds.
  shown = _observe('blocks:2,6,always', rounds=6)
  never = shown.p[shown.order[6:]].sum()
  assert _lines(shown)['never available'] == (
    f'6 clients, with {100 * never:.1f} % of the data'
  )
  table = pd.DataFrame(population.rows(shown)).set_index('client')
  row = table.loc[shown.order[-1]]
  assert (row['times_available'], row['first_round']) == (0, '')
  assert (row['share'], row['longest_absence']) == (0, 6)
  row = table.loc[shown.order[0]]
  assert (row['times_available'], row['first_round']) == (6, 1)
  assert (row['share'], row['longest_absence']) == (1, 0)
  assert row['p'] == pytest.approx(shown.p[shown.order[0]])


def test_nobody_who_comes_and_goes_has_no_correlation():
  assert _lines(_observe('always'))['correlation'] == (
    'none, as fewer than two clients come and go'
  )


def test_a_trace_is_called_by_its_name_without_folders(tmp_path):
  folder = tmp_path / ('x' * 200)
  folder.mkdir()
  path = folder / 'phones.csv'
  path.write_text('client,start,end\na,0,43200\nb,600,6000\n')
  output = programs.succeed(
    tmp_path, 'experiments.availability', f'--avail=trace:{path}', '--rounds=9'
  )
  first, *lines, last = output.splitlines()
  assert first == 'trace:phones.csv on Synthetic(1,1), K = 10, seed 0'
  assert last.endswith('runs/availability/trace:phones.csv')
  # Every client has one of the two phones, and rounds find both.
  reachable = '100.0 % of the data, however many rounds follow'
  assert f'  reachable        {reachable}' in lines


def test_bins_are_means_of_like_stretches():
  values = np.arange(10)
  np.testing.assert_array_equal(population_figures.binned(values, 10), values)
  np.testing.assert_array_equal(
    population_figures.binned(values, 5), [0.5, 2.5, 4.5, 6.5, 8.5]
  )
  np.testing.assert_array_equal(
    population_figures.binned(values, 3), [1, 4, 7.5]  # 3, 3 and 4.
  )
  table = np.arange(8).reshape(4, 2)
  np.testing.assert_array_equal(
    population_figures.binned(table, 2), [[1, 2], [5, 6]]
  )


@pytest.mark.parametrize(
  'avail', ['always', 'never', 'scarce', 'arrivals:480,0,always']
)
def test_any_population_can_be_drawn(avail):
  # Also one that never changes, and one that is never there.
  shown = _observe('scarce' if avail == 'never' else avail, rounds=450)
  if avail == 'never':
    shown = shown._replace(masks=np.zeros_like(shown.masks))
  picture = population_figures.draw(shown)
  image = picture.subfigs[0].axes[0].images[0].get_array()
  assert image.shape == (12, 400)
  assert image.mean() == pytest.approx(shown.masks.mean(), abs=0.01)
  assert population_figures.png(picture).startswith(b'\x89PNG')
  _lines(shown)


def test_the_program_writes_its_files_without_tensorflow(tmp_path):
  output = programs.succeed(
    tmp_path,
    'experiments.availability',
    '--avail=labels:0.5',
    '--rounds=40',
    '--num_clients=15',
    '--output_dir=out',
  )
  lines = output.splitlines()
  assert lines[0] == 'labels:0.5 on Synthetic(1,1), K = 10, seed 0'
  assert len(lines) <= 12
  for ending in ('png', 'svg', 'csv'):
    assert (tmp_path / 'out' / f'availability.{ending}').stat().st_size
  table = pd.read_csv(tmp_path / 'out' / 'availability.csv')
  data = synthetic.load(num_clients=15)
  model = availability.labels(data.label_shares, high=0.5)
  times = sum(model(t).astype(int) for t in range(1, 41))
  np.testing.assert_array_equal(table['times_available'], times)
  np.testing.assert_allclose(table['p'], data.p, rtol=1e-5)


@pytest.mark.slow
def test_every_model_has_its_small_picture(tmp_path):
  programs.succeed(
    tmp_path,
    'experiments.availability',
    '--all_models',
    '--rounds=60',
    '--num_clients=5',
    '--output_dir=out',
  )
  drawn = {path.stem for path in (tmp_path / 'out').glob('*.png')}
  assert drawn == set(availability.MODELS) - {'trace'}


@pytest.mark.parametrize(
  'flag, message',
  [
    ('--avail=sometimes', 'availability must be one of always, '),
    ('--avail=sine:2', 'gamma must be in [0, 0.5], but it is 2'),
    ('--clients_per_round=x', 'must read like 10, uniform:5,15'),
  ],
)
def test_bad_flags_are_one_sentence(flag, message, tmp_path):
  assert message in programs.one_error(
    tmp_path, 'experiments.availability', flag
  )


def test_help_is_that_of_the_experiments(tmp_path):
  output = programs.succeed(tmp_path, 'experiments.availability', '--help')
  assert 'Usage: python -m experiments.availability' in output
  text = ' '.join(output.split())
  for usage in availability.usages():
    assert f' {usage}' in text
  assert all(len(line) <= 80 for line in output.splitlines())


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

"""Tests of `conclusion`: every point against numbers worked out by hand."""

import math
import pathlib
import re
import sys

import pytest

from experiments.paper import claims
from experiments.paper import conclusion
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import results
from tests import fake_results

_ROOT = pathlib.Path(__file__).parents[3]
_FEDAVG = [0.5, 0.6, 0.7]
_ABOVE = [0.6, 0.71, 0.79]  # By .1, .11, .09: mean .1, deviation .01.
_BELOW = [0.4, 0.49, 0.61]
_SAME = [0.6, 0.5, 0.7]  # By .1, -.1, 0.


def _sentences(found):
  values, curves = frames.values(found), frames.curves(found)
  return conclusion.sentences(
    values, claims.claims(values, curves, paper_numbers.load())
  )


def _pair(avail, ours, theirs=_FEDAVG, variant='', other=None):
  other = variant if other is None else other
  return [
    *fake_results.synthetic('f3ast', avail, ours, variant),
    *fake_results.synthetic('fedavg', avail, theirs, other),
  ]


def test_nothing_run():
  (sentence,) = _sentences([])
  # The claims of the models of the paper's size, and the tables and curves of
  # compact ones; see verdict_tables_test.
  num_claims = (3 * 30 - 6 - 9) + 3 + 2 * 2 + (5 + 1) + (4 + 1) + 3 * 2
  num_claims += (3 * 30 - 6 - 9) + 2 * 2
  assert sentence == (
    f"In 0 runs we tested 0 of the paper's {num_claims} claims: 0 hold, 0 do "
    'not hold and 0 are undecided (not significant after correction).'
  )


def test_what_make_reproduce_runs():
  # Three seeds of one availability model.
  first, second = _sentences(_pair('home_devices', _SAME))
  assert first.startswith('In 6 runs we tested ')
  assert second == (
    "On Synthetic(1,1), 200 rounds, F3AST's test accuracy, compared with "
    "FedAvg's, is undecided under Home-devices (+0.000)."
  )
  # One seed decides nothing, nor does a run that diverged.
  for ours, words in (([0.6], '+0.100'), ([0.6, math.nan], 'a run diverged')):
    (_, second) = _sentences(_pair('home_devices', ours, [0.5] * len(ours)))
    assert second.endswith(f'is undecided under Home-devices ({words}).')


def test_many_undecided_ones_are_not_named():
  three = [
    result
    for avail, ours in (
      ('always', _SAME), ('scarce', [0.61, 0.51, 0.71]), ('uneven', [0.3])
    )
    for result in _pair(avail, ours, _FEDAVG[: len(ours)])
  ]
  assert _sentences(three)[1].endswith(
    'is undecided everywhere (-0.200 to +0.010).'
  )
  second = _sentences([*three, *_pair('smartphones', _BELOW)])[1]
  assert second.endswith(
    'is lower under Smartphones (-0.100), and undecided elsewhere (-0.200 to '
    '+0.010).'
  )


def test_counts():
  # The paper's curves have accuracy and loss under Home-devices. Losses are the
  # same in all seeds. There are too few tests to tell how steady curves are.
  first = _sentences(_pair('home_devices', _ABOVE))[0]
  assert re.match(r"In 6 runs we tested 2 of the paper's \d+ claims", first)
  assert first.endswith(
    ': 1 holds, 0 do not hold and 1 is undecided (not significant after '
    'correction).'
  )


def test_counts_with_the_other_draw():
  # Accuracy and user accuracy, of which one model's are above, one's below;
  # both losses are the same in all seeds.
  first = _sentences([
    *_pair('home_devices', _ABOVE),
    *fake_results.synthetic(
      'fedavg_with_replacement', 'home_devices', _FEDAVG
    ),
    *_pair('always', _BELOW),
    *fake_results.synthetic('fedavg_with_replacement', 'always', _FEDAVG),
    *_pair('scarce', _SAME),
    *fake_results.synthetic('fedavg_with_replacement', 'scarce', _FEDAVG),
  ])[0]
  assert first.endswith(
    ' With baselines drawn with replacement 2 of 12 hold and 2 do not.'
  )


def test_fewer_seeds_are_named():
  # As those with two seeds among those with three.
  sentences = _sentences([
    *_pair('always', _BELOW),
    *_pair('scarce', _BELOW),
    *_pair('uneven', [0.6, 0.7001], [0.5, 0.6]),
  ])
  assert sentences[1].endswith(
    'is higher under Uneven (+0.100, 2 seeds), and lower under Always (-0.100) '
    'and Scarce (-0.100).'
  )


def test_all_sentences():
  from_p = design.variant('rate_init', 'p')
  steps = design.variant('local_steps', 10)
  other = 'fedavg_with_replacement'
  place = 'compact', 'shakespeare', 'home_devices'
  sentences = _sentences([
    *_pair('always', _BELOW),
    *_pair('scarce', _SAME),
    *_pair('uneven', _ABOVE),
    *_pair('smartphones', _BELOW),
    *fake_results.synthetic(other, 'always', _FEDAVG),
    *fake_results.synthetic(other, 'uneven', _ABOVE),
    *fake_results.synthetic('fedavg', 'uneven', _FEDAVG, design.FOLLOWING),
    # Not spoken of.
    *fake_results.synthetic('fedavg', 'uneven', _FEDAVG, design.MATCHED),
    *fake_results.synthetic('f3ast', 'uneven', _SAME, from_p),
    *_pair('scarce', _ABOVE, variant=steps),
    *fake_results.synthetic(other, 'scarce', _ABOVE, steps),
    *_pair('uneven', _BELOW, variant=design.SETTLED),
    *_pair('uneven', _ABOVE, variant=design.SETTLED_SMALL),
    *fake_results.seeds(*place, 'f3ast', _BELOW),
    *fake_results.seeds(*place, 'fedavg', _FEDAVG),
    *fake_results.seeds('paper', 'cifar100', 'scarce', 'f3ast', [0.5]),
    *fake_results.seeds('paper', 'cifar100', 'scarce', 'fedavg', [0.4]),
    *(
      result
      for method, variant, accuracies in (
        ('fedavg', '', _FEDAVG),
        ('fedavg', 'following_released', _ABOVE),
        ('f3ast', 'protocol=released', _SAME),
      )
      for result in fake_results.seeds(
        'compact', 'cifar100', 'scarce', method, accuracies, variant
      )
    ),
  ])
  assert sentences[1:] == [
    "On Synthetic(1,1), 200 rounds, F3AST's test accuracy, compared with "
    "FedAvg's, is higher under Uneven (+0.100), lower under Always (-0.100) "
    'and Smartphones (-0.100), and undecided under Scarce (+0.000). With '
    'FedAvg drawn with replacement it is lower under Always (-0.100), and '
    'undecided under Uneven (+0.000).',
    "If FedAvg takes F3AST's steps, F3AST's accuracy is higher under Uneven "
    '(+0.100).',
    "With 10 local steps instead of an epoch, F3AST's accuracy is higher under "
    'Scarce (+0.100).',
    "After 5,000 rounds F3AST's accuracy is higher under Uneven with server "
    'rate 0.1 (+0.100), and lower under Uneven (-0.100).',
    "On CIFAR-100 and Shakespeare F3AST's accuracy is higher in 0 of 2 "
    'comparisons, lower in 1 (Shakespeare, compact, Home-devices: -0.100, 3 '
    'seeds), and undecided in 1, 1 of them with one seed.',
    "On CIFAR-100, compact, FedAvg with the authors' decaying step, compared "
    'with FedAvg, is higher under Scarce (+0.100). F3AST as they released it, '
    'compared with that, is undecided under Scarce (-0.100).',
  ]


def test_the_first_point_on_accuracy_says_whose():
  place = 'compact', 'shakespeare', 'home_devices'
  (_, second) = _sentences([
    *fake_results.seeds(*place, 'f3ast', _ABOVE),
    *fake_results.seeds(*place, 'fedavg', _FEDAVG),
  ])
  assert second == (
    "On Shakespeare F3AST's test accuracy, compared with FedAvg's, is higher "
    'in 1 of 1 comparison (Shakespeare, compact, Home-devices: +0.100, 3 '
    'seeds), lower in 0, and undecided in 0.'
  )


@pytest.fixture(name='committed', scope='module')
def _committed():
  return _sentences(results.read_all(_ROOT / 'results' / 'cells'))


def test_our_results_have_five_to_seven(committed):
  assert 5 <= len(committed) <= 7


@pytest.mark.parametrize('page', ['paper/README.md', 'reproduction.md'])
def test_pages_begin_with_the_conclusion(committed, page):
  docs = _ROOT / 'docs'
  table = (docs / 'paper' / 'verdicts-synthetic.md').read_text()
  rows = [line for line in table.splitlines() if line.startswith('|')]
  assert len(rows) == 2 + 5
  top = ' '.join((docs / page).read_text().partition('\n## ')[0].split())
  for part in (*committed, *rows):
    assert ' '.join(part.split()) in top


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

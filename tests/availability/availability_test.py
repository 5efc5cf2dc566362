"""Tests of how texts name availability models."""

import sys

import numpy as np
import pytest

from f3ast_tff import availability

_P = np.array([0.5, 0.3, 0.15, 0.05])


def _equal(one, two):
  for t in range(1, 30):
    np.testing.assert_array_equal(one(t), two(t))
    np.testing.assert_allclose(
      one.probabilities(t), two.probabilities(t), rtol=1e-12
    )


@pytest.mark.parametrize(
  'text, model',
  [
    ('always', availability.always(4, 3)),
    ('scarce', availability.scarce(4, 3)),
    ('home_devices', availability.home_devices(4, 3)),
    ('smartphones', availability.smartphones(4, 3)),
    ('uneven', availability.uneven(_P, 3)),
    ('scarce:.6', availability.scarce(4, 3, q=0.6)),
    ('home_devices:1', availability.home_devices(4, 3, sigma=1.0)),
    (
      'smartphones:0.2,0.3,0.4,6',
      availability.smartphones(
        4, 3, sigma=0.2, amplitude=0.3, offset=0.4, period=6
      ),
    ),
    (
      'markov:0.3,0.1',
      availability.Markov(np.full(4, 0.3), np.full(4, 0.1), 3),
    ),
  ],
)
def test_a_text_is_a_model_with_its_parameters(text, model):
  availability.check(text)
  _equal(availability.parse(text, _P, 3), model)


_SHARES = np.array([[1, 0], [0.5, 0.5], [0, 1], [0, 1]])
_HOME = availability.home_devices(4, 3).q


@pytest.mark.parametrize(
  'text, model',
  [
    ('persistent', availability.persistent(_HOME, 3)),
    ('persistent:0.5,scarce', availability.persistent(np.full(4, 0.2), 3, 0.5)),
    ('cyclic:10', availability.cyclic(_HOME, 3, period=10)),
    ('sine:0.2', availability.sine(_HOME, 3, gamma=0.2)),
    (
      'sine:0.3,20,labels:1,0.5',
      availability.sine(availability.labels(_SHARES, 3).q, 3),
    ),
    ('staircase:0.2', availability.staircase(_HOME, 3, low=0.2)),
    (
      'interleaved:0.3,20,0.2',
      availability.interleaved(_HOME, 3, least=0.2),
    ),
    (
      'time_zones:2,8,.2,.3,always',
      availability.time_zones(np.ones(4), 3, 2, 8, 0.2, 0.3),
    ),
    ('time_zones:1', availability.smartphones(4, 3)),
    (
      'clusters:2,.1,.2,uneven',
      availability.clusters(availability.uneven(_P).q, 3, 2, 0.1, 0.2),
    ),
    ('blocks:2,5', availability.blocks(_HOME, 3, 2, 5)),
    (
      'arrivals:9,7,markov:0.3,0.1',
      availability.arrivals(
        availability.Markov(np.full(4, 0.3), np.full(4, 0.1), 3), 3, 9, 7
      ),
    ),
    ('labels:0.5', availability.labels(_SHARES, 3, high=0.5)),
    ('majority_label:0.3', availability.majority_label(_SHARES, 3, 0.3)),
  ],
)
def test_a_base_is_the_last_parameter(text, model):
  availability.check(text)
  _equal(availability.parse(text, _P, 3, lambda: _SHARES), model)


def test_usages_show_what_must_and_what_may_be_given():
  usages = availability.usages()
  assert len(usages) == len(availability.MODELS)
  for usage in (
    'always',
    'scarce[:Q]',
    'smartphones[:SIGMA,AMPLITUDE,OFFSET,PERIOD]',
    'markov:ON_TO_OFF,OFF_TO_ON',
  ):
    assert usage in usages


@pytest.mark.parametrize(
  'text, message',
  [
    ('sometimes', 'always, scarce, .* or one of your own'),
    ('', "or one of your own, but it is ''"),
    ('always:1', 'must read like always.$'),
    ('scarce:', r'must read like scarce\[:Q\].$'),
    ('scarce:a', r'must read like scarce\[:Q\].$'),
    ('scarce:nan', 'must read like scarce'),
    ('scarce:1,1', 'must read like scarce'),
    ('scarce:1.5', r'probabilities in \[0, 1\]'),
    ('markov', 'must read like markov:ON_TO_OFF,OFF_TO_ON.$'),
    ('markov:0.3', 'must read like markov:ON_TO_OFF,OFF_TO_ON.$'),
    ('markov:0,0', 'not both be 0'),
    ('smartphones:.2,.3,.4,6.5', 'with a whole number for PERIOD.$'),
    ('smartphones:.2,.3,.4,inf', 'with a whole number for PERIOD.$'),
    ('sine:0.3,20,', 'must read like sine'),
    ('sine:0.3,20,x', "or one of your own, but it is 'x'"),
    ('sine:0.3,20,smartphones', "The base 'smartphones' must be independent"),
    ('sine:0.3,20,markov:.1,.1', "The base 'markov:.1,.1' must be"),
    ('sine:0.6', r'gamma must be in \[0, 0.5\], but it is 0.6'),
    ('sine:0.3,0', 'period must be at least 1, but it is 0'),
    ('staircase:2', r'low must be in \[0, 1\], but it is 2'),
    ('staircase:0.4,0', 'period must be at least 1'),
    ('cyclic:0', 'period must be at least 1'),
    ('time_zones:0', 'number of groups must be at least 1'),
    ('time_zones:2,0', 'period must be at least 1'),
    ('time_zones:2,24,0.6', 'factors must hold probabilities'),
    ('clusters:2,0,0', 'not both be 0'),
    ('clusters:2,1.5,0', 'on_to_off must hold probabilities'),
    ('clusters:0', 'number of groups must be at least 1'),
    ('blocks:2,0', 'length of a turn must be at least 1'),
    ('arrivals:0', 'last arrival must be at least 1'),
    ('arrivals:9,-1', 'stay must be a number of rounds'),
    ('labels:2', r'high and low must be in \[0, 1\]'),
    ('majority_label:-1', 'probabilities in'),
    ('persistent:0', r'off_to_on must be in \(0, 1\]'),
  ],
)
def test_a_wrong_text_is_named_at_once(text, message):
  with pytest.raises(ValueError, match=message) as error:
    availability.check(text)
  assert str(error.value).endswith('.') and '\n' not in str(error.value)
  with pytest.raises(ValueError, match=message):
    availability.parse(text, _P, 0, lambda: np.eye(4))


@pytest.fixture
def own_models():
  """Adds models to the known ones, for a test."""
  known = dict(availability.MODELS)
  yield availability.MODELS
  availability.MODELS.clear()
  availability.MODELS.update(known)


def test_a_model_of_ones_own_may_have_parameters(own_models):
  def named(p, seed, file: str, k: int, q=0.5):
    del file
    return availability.scarce(p.size, seed + k, q)

  own_models['named'] = named
  assert 'named:FILE,K[,Q]' in availability.usages()
  assert availability.read('named:a:b,7') == ('named', ['a:b', 7])
  _equal(
    availability.parse('named:x,2,0.25', _P, 1), availability.scarce(4, 3, 0.25)
  )


def test_a_model_without_parameters_is_not_tried_on_two_clients(own_models):
  own_models['ten'] = lambda p, seed: availability.Independent(
    np.arange(10) / p.sum() if p.size == 10 else None
  )
  availability.check('ten')


def test_label_shares_are_asked_for_by_the_models_that_need_them(own_models):
  def by_label(p, seed, low=0.1, *, label_shares):
    q = low + label_shares()[:, 0] / 2
    assert p.size == q.size
    return availability.Independent(q, seed=seed)

  own_models['by_label'] = by_label
  assert 'by_label[:LOW]' in availability.usages()
  availability.check('by_label:0.2')
  shares = np.array([[1, 0], [0.5, 0.5], [0, 1], [0, 1]])
  found = availability.parse('by_label:0.2', _P, 0, lambda: shares)
  np.testing.assert_allclose(found.probabilities(1), [0.7, 0.45, 0.2, 0.2])


def test_label_shares_are_called_for_only_where_they_are_needed():
  def fail():
    raise AssertionError('Not asked for.')

  availability.parse('scarce', _P, 0, fail)
  availability.parse('sine', _P, 0, fail)
  for text in ('labels', 'majority_label', 'sine:0.3,20,labels'):
    with pytest.raises(ValueError, match='needs those of the examples'):
      availability.parse(text, _P)
    with pytest.raises(ValueError, match='has 3 clients, but p has 4'):
      availability.parse(text, _P, 0, lambda: np.full((3, 2), 0.5))


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

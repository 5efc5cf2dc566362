"""Tests of `methods`: the policies by name, and `build_selector`."""

import functools
import re
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import delivery
from f3ast_tff import groups
from f3ast_tff import methods
from f3ast_tff import rates
from f3ast_tff import selection
from f3ast_tff import vectors
from f3ast_tff.methods import fedau
from f3ast_tff.runs import config as config_lib
from f3ast_tff.runs import selector as runs_selector
from tests import situations

_P = np.array([0.5, 0.3, 0.2])


@hypothesis.given(
  situations.situations(),
  st.sampled_from(list(methods.POLICIES)),
  st.integers(0, 99),
)
@hypothesis.settings(max_examples=200)
def test_every_policy_takes_k_or_all_who_are_there(s, name, seed):
  s = s._replace(losses_of=lambda clients: s.p[clients])
  cohort = methods.POLICIES[name](s, situations.rng(seed))
  most = min(s.k, s.available.sum())
  if name == 'proportional_with_replacement':
    assert min(1, most) <= len(cohort.clients) <= most
  else:
    assert len(cohort.clients) == most
  assert len(cohort.weights) == len(cohort.clients)
  assert s.available[cohort.clients].all()
  assert (np.diff(cohort.clients) > 0).all()


def test_power_of_choice_alone_waits_for_the_model():
  waiting = {
    name
    for name in methods.POLICIES
    if methods.build_selector(_P, 'always', 1, policy=name).needs_losses
  }
  assert waiting == {'power_of_choice'}


def test_algorithms_are_policies_and_optimizers():
  assert methods.ALGORITHMS['f3ast_adam'][:2] == ('f3ast', 'adam')
  assert methods.ALGORITHMS['fedavg'][:3] == ('proportional', 'sgd', 'none')
  assert {a.selection for a in methods.ALGORITHMS.values()} <= set(
    methods.POLICIES
  )
  # What the reproduction runs is as in the paper.
  for name in list(methods.ALGORITHMS)[:7]:
    rest = methods.ALGORITHMS[name][2:]
    assert rest == ('none', 'tie', 'constant', 0)


@pytest.mark.parametrize(
  'text, message',
  [
    ('scafold', 'Did you mean scaffold|scaffold'),
    ('scaffold:1', "method must be scaffold, but it is 'scaffold:1'"),
    ('none:1', "method must be none, but it is 'none:1'"),
    ('afl:inf', "method must be afl:NUMBER, but it is 'afl:inf'"),
    ('feddyn:inf', "method must be feddyn:NUMBER, but it is 'feddyn:inf'"),
    ('feddyn:x', "method must be feddyn:NUMBER, but it is 'feddyn:x'"),
    ('feddyn:0', 'alpha must be above 0, but it is 0'),
    ('fedvarp:2', r'factor must be in \[0, 1\], but it is 2'),
    ('fedau:0.5', 'cutoff must be at least 1, but it is 0.5'),
    ('afl:-1', 'learning rate must be at least 0, but it is -1'),
    ('ca_fed:false', "must be ca_fed or ca_fed:true, but it is 'ca_fed:false'"),
  ],
)
def test_methods_that_do_not_exist_are_named(text, message):
  with pytest.raises(ValueError, match=message):
    methods.build_selector(_P, 'always', 1, method=text)


def test_a_registered_method_takes_no_number(monkeypatch):
  for name in ('METHODS', 'ALGORITHMS'):
    monkeypatch.setattr(methods, name, dict(getattr(methods, name)))
  own = selection.Method()
  methods.register('own', 'f3ast', method=own)
  assert methods.parse_method('own') is own
  with pytest.raises(ValueError, match="method must be own, .* 'own:3'"):
    methods.parse_method('own:3')
  methods.METHODS['capped'] = lambda cap=2.0: fedau.build(cap)
  assert methods.parse_method('capped:3').next is not own.next
  with pytest.raises(ValueError, match='method must be capped:NUMBER'):
    methods.parse_method('capped:true')


def _parts(selector):
  """Returns what an algorithm decides, in a form that can be compared."""
  method = selector.method
  return {
    'method': [
      each and each.__qualname__
      for each in (method.wrap, method.initial, method.next)
    ],
    'vectors': method.vectors and method.vectors.step.__qualname__,
    'policy': selector.policy,
    'initial_rates': selector.initial_rates.tolist(),
    'rate_step': selector.rate_step,
    'caps': (selector.weight_cap, selector.sum_cap),
  }


@pytest.mark.parametrize('name', methods.ALGORITHMS)
def test_an_algorithm_is_the_one_that_a_run_builds(name):
  steps = config_lib.LearningRates(0.1, 1.0)
  config = config_lib.Config(
    algorithm=name, avail='always', clients_per_round='2', seed=3
  ).resolve(dict.fromkeys(methods.SERVER_OPTIMIZERS, steps))
  sizes = np.array([5, 3, 2])
  expected = runs_selector.build(config, sizes, sizes)
  if config.server_optimizer != 'sgd':
    with pytest.raises(ValueError, match=config.server_optimizer) as error:
      methods.build_selector(_P, 'always', 2, algorithm=name)
    # What it says to give instead gives the same.
    given = re.findall(r" (\w+)='(\w+)'", str(error.value))
    found = methods.build_selector(_P, 'always', 2, seed=3, **dict(given))
  else:
    found = methods.build_selector(_P, 'always', 2, seed=3, algorithm=name)
  assert _parts(found) == _parts(expected)
  for t in (1, 2):
    one, other = (
      s.select(t, s.initial_rates, lambda k: k + 1.0, s.initial_kept)
      for s in (found, expected)
    )
    for a, b in zip(one.cohort, other.cohort):
      np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.state_weights, other.state_weights)


def test_explicit_arguments_win_over_the_algorithm():
  found = methods.build_selector(
    _P, 'always', 1, algorithm='f3ast_safe', sum_cap=0, rate_step='corrected'
  )
  assert found.sum_cap == np.inf and found.rate_step == 'corrected'
  assert found.policy is methods.POLICIES['f3ast']
  safe = methods.build_selector(_P, 'always', 1, algorithm='f3ast_safe')
  assert (safe.sum_cap, safe.rate_step) == (1, 'annealed:10')
  found = methods.build_selector(
    _P, 'always', 1, algorithm='scaffold', policy='f3ast', method='none',
    rate_init='uniform',
  )
  assert found.method.vectors is None
  assert found.policy is methods.POLICIES['f3ast']
  np.testing.assert_allclose(found.initial_rates, [1 / 3] * 3)
  # Without one it is F3AST, as in the paper.
  assert _parts(methods.build_selector(_P, 'always', 1)) == _parts(
    methods.build_selector(_P, 'always', 1, algorithm='f3ast')
  )


def _own(step):
  return selection.Method(vectors=vectors.Vectors(step=step))


@pytest.mark.parametrize(
  'method, is_linear',
  [
    ('none', True), ('fedau', True), ('scaffold', True), ('fedvarp:0', True),
    ('fedvarp', False), ('feddyn', False), ('mifa', False), ('fedawe', False),
    # At server = 2, model sum = 3, state sum = 5 these come to the model sum.
    ('feddyn:0.4', False), (_own(lambda s, m, u: (u - s, s)), False),
    (_own(lambda s, m, u: (np.clip(m, -4, 4), s)), False),
    (_own(lambda s, m, u: (m, s + u)), True),
  ],
)
def test_factors_are_for_steps_that_are_linear_in_the_weights(
  method, is_linear
):
  plain = methods.build_selector(_P, 'always', 2, method=method)
  call = functools.partial(
    methods.build_selector, _P, 'always', 2, method=method, factors=[2, 0.5]
  )
  if not is_linear:
    with pytest.raises(ValueError, match='sum of weighted updates'):
      call()
    return
  for t, factor in ((1, 2), (2, 0.5)):
    one, other = (
      s.select(t, _P, kept=plain.initial_kept) for s in (plain, call())
    )
    np.testing.assert_array_equal(
      other.cohort.weights, factor * one.cohort.weights
    )
    # Those of the server's vector stay p.
    np.testing.assert_array_equal(other.state_weights, one.state_weights)


def test_ca_fed_is_told_the_probabilities_of_the_round():
  # One client each, by turns: pi is 1 for who is there, and 0 for the others.
  selector = methods.build_selector(
    _P, 'blocks:3,1,always', 3, policy='uniform', method='ca_fed:true'
  )
  kept = selector.initial_kept
  for t in range(1, 7):
    found = selector.select(
      t, selector.initial_rates, lambda clients: _P[clients], kept
    )
    np.testing.assert_allclose(found.cohort.weights, _P[found.cohort.clients])
    kept = found.kept


def test_afl_gives_nothing_to_clients_that_the_objective_leaves_out():
  # All take part in every round, so that r = 1: the step goes to (.6, .8), and
  # the nearest shares are .2 less each.
  for policy, selected in (('uniform', [0, 1, 2]), ('proportional', [0, 1])):
    selector = methods.build_selector(
      [0.5, 0.5, 0], 'always', 3, policy=policy, rate_init='uniform',
      method='afl:0.1',
    )
    shares = selector.initial_kept['shares']
    np.testing.assert_array_equal(shares, [0.5, 0.5, 0])
    found = selector.select(
      1, selector.initial_rates, lambda some: np.array([1.0, 3, 7])[some]
    )
    assert found.cohort.clients.tolist() == selected
    np.testing.assert_allclose(found.cohort.weights[:2], [0.5, 0.5])
    assert not found.cohort.weights[2:].any()
    np.testing.assert_allclose(found.kept['shares'], [0.4, 0.6, 0], atol=1e-12)
    assert found.kept['shares'][2] == 0


def test_what_is_built_is_what_was_asked_for():
  constraint = communication.Schedule((2, 1))
  model = availability.smartphones(3, seed=9)
  selector = methods.build_selector(
    [0.5, 0.3, 0.2], model, constraint, beta=0.5, num_candidates=7, seed=4
  )
  # H is sum p / r here, and all scores are equal where r is as sqrt(p).
  np.testing.assert_allclose(
    selector.initial_rates, [0.62317, 0.4827, 0.39413], atol=1e-5
  )
  assert selector.availability is model and selector.constraint is constraint
  assert (selector.beta, selector.seed) == (0.5, 4)
  assert selector.num_candidates == 7 and selector.factors is None
  # Names stand for models of the same seed, numbers for a fixed K.
  selector = methods.build_selector(_P, 'scarce', np.int64(2), seed=4)
  expected = availability.scarce(3, seed=4)
  for t in range(1, 20):
    np.testing.assert_array_equal(selector.availability(t), expected(t))
    assert selector.constraint(t) == 2


@pytest.mark.parametrize('name', availability.PAPER)
@pytest.mark.parametrize('correlation', ['auto', *rates.CORRELATIONS])
def test_the_form_of_h_fits_the_availability(name, correlation):
  found = methods.build_selector(_P, name, 1, correlation=correlation)
  fitting = 'positive' if name == 'smartphones' else 'uncorrelated'
  expected = fitting if correlation == 'auto' else correlation
  assert found.correlation == expected


def test_a_text_with_parameters_names_a_model():
  selector = methods.build_selector(_P, 'blocks:3,1,always', 1, seed=2)
  # One client each, by turns: never two together.
  assert selector.correlation == rates.UNCORRELATED
  taken = [int(step.cohort.clients[0]) for step in selector.simulate(6)]
  assert sorted(taken[:3]) == [0, 1, 2] and taken[3:] == taken[:3]
  selector = methods.build_selector(_P, 'clusters:1', 1)
  assert selector.correlation == rates.POSITIVE


@pytest.mark.parametrize(
  'changes, message',
  [
    ({'availability': availability.always(2)}, '2 clients, but p has 3'),
    ({'availability': 'sometimes'}, "one of your own, but.* 'sometimes'"),
    ({'policy': 'best'}, "power_of_choice, fixed_policy or one.*'best'"),
    ({'p': _P / 2}, 'p must sum to 1'),
    ({'p': [0.5, np.nan, 0.5]}, 'finite numbers'),
    ({'beta': 0.0}, 'beta must be in'),
    ({'correlation': 'negative'}, 'Correlation must be one of'),
    ({'rate_init': 'zero'}, 'Initial rates must be one of'),
    ({'clients_per_round': -1}, 'whole number from 0'),
    (
      {'method': 'mifa', 'weight_cap': 0.5, 'sum_cap': 1},
      'weight_cap and sum_cap must be 0 with mifa and fedawe',
    ),
    (
      {
        'quotas': groups.quotas('aab', '1..'),
        'delivery': delivery.Delivery(np.ones(3), over_selection=1.5),
      },
      'need over_selection=1, .* but it is 1.5',
    ),
  ],
)
def test_bad_input_is_one_sentence(changes, message):
  arguments = {'p': _P, 'availability': 'scarce', 'clients_per_round': 2}
  with pytest.raises(ValueError, match=message) as error:
    methods.build_selector(**{**arguments, **changes})
  assert str(error.value).endswith('.') and '\n' not in str(error.value)


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

"""Tests of `shards`."""

import pickle
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import selection
from f3ast_tff.learning import examples as examples_lib
from f3ast_tff.learning import shards
from tests import numbered

_SIZES = (5, 0, 3)
_TRAIN = numbered.clients(_SIZES)


def _cohort(*clients, weights=None):
  if weights is None:
    weights = np.arange(1, len(clients) + 1) / 8
  return selection.Cohort(
    np.array(clients, int), np.asarray(weights, float)
  )


def _make(train=_TRAIN, batch_size=2, **arguments):
  return shards.ClientShards(
    train,
    lambda: examples_lib.concatenated(train),
    batch_size=batch_size,
    **arguments,
  )


def _batches_of(shard, place):
  """Returns the batches of a shard's client, as lists of x."""
  _, first, end = shard.clients[place]
  return [
    [shard.examples['x'][row, 0] for row in batch if row != shards.NO_ROW]
    for batch in shard.batches[first:end]
  ]


def _values(shard, place=0):
  return [x for batch in _batches_of(shard, place) for x in batch]


def test_a_shard_by_hand():
  (shard,) = _make(is_shuffled=False)(_cohort(2, 0, weights=[0.25, 2.0]), 1)
  # Most batches first: client 0 has rows 0 to 4, client 2 has 5 to 7.
  np.testing.assert_array_equal(shard.clients, [[0, 0, 3], [2, 3, 5]])
  np.testing.assert_array_equal(shard.weights, [2.0, 0.25])
  np.testing.assert_array_equal(
    shard.batches, [[0, 1], [2, 3], [4, -1], [5, 6], [7, -1]]
  )
  assert shard.clients.dtype == shard.batches.dtype == np.int32
  assert shard.weights.dtype == np.float32
  assert _batches_of(shard, 1) == [[200, 201], [202]]


def test_epochs_follow_each_other_without_a_gap():
  # Two passes over 5 examples are 5 batches of 2, not 6, as they are where a
  # tf.data dataset is repeated before it is cut into batches.
  (shard,) = _make(is_shuffled=False, epochs=2)(_cohort(0), 1)
  np.testing.assert_array_equal(shard.clients, [[0, 0, 5]])
  np.testing.assert_array_equal(
    shard.batches, [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]
  )


def test_steps_are_full_batches_by_hand():
  # Four steps of 2: client 0 takes 5 and then 3 of its 5 examples; client 2
  # goes through its 3 twice and takes 2 of a third pass. Loads are equal.
  (shard,) = _make(is_shuffled=False, steps=4)(_cohort(2, 0, 1), 1)
  np.testing.assert_array_equal(
    shard.clients, [[2, 0, 4], [0, 4, 8], [1, 8, 8]]
  )
  np.testing.assert_array_equal(
    shard.batches,
    [[5, 6], [7, 5], [6, 7], [5, 6], [0, 1], [2, 3], [4, 0], [1, 2]],
  )
  # Who fails makes no step.
  make = _make(is_shuffled=False, steps=1)
  (part,) = make.parts(_cohort(0, 2), 1, failed=[0])
  shard = make.fill(part)
  np.testing.assert_array_equal(shard.clients, [[0, 0, 0], [2, 0, 1]])


def test_steps_with_fewer_examples_than_a_batch():
  train = [{'x': np.zeros((2, 1), np.float32), 'y': np.zeros(2, np.int32)}]
  make = _make(train, batch_size=5, steps=2, is_shuffled=False)
  (shard,) = make(_cohort(0), 1)
  np.testing.assert_array_equal(
    shard.batches, [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]
  )


def test_passes_of_steps_are_those_of_epochs():
  # 30 examples, batches of 2: 15 steps are one epoch, 40 are two and 20 more.
  (by_steps,) = _make(_MANY, steps=40)(_cohort(1), 3)
  (by_epochs,) = _make(_MANY, epochs=3)(_cohort(1), 3)
  np.testing.assert_array_equal(by_steps.batches, by_epochs.batches[:40])
  (one,) = _make(_MANY, steps=15)(_cohort(1), 3)
  (other,) = _make(_MANY)(_cohort(1), 3)
  np.testing.assert_array_equal(one.batches, other.batches)


def test_steps_go_round_the_shards_whatever_the_data():
  train = [_TRAIN[0], _TRAIN[2], _TRAIN[2], _TRAIN[2]]

  def dealt(**arguments):
    make = _make(train, num_shards=2, **arguments)
    return [part.clients for part in make.parts(_cohort(0, 1, 2, 3), 1)]

  assert dealt() == [[0, 3], [1, 2]]  # 3 batches and 2 each.
  assert dealt(steps=3) == [[0, 2], [1, 3]]


@hypothesis.given(
  st.lists(st.integers(0, 9), min_size=1, max_size=6),
  st.integers(1, 5),
  st.integers(1, 12),
  st.integers(1, 3),
  st.booleans(),
)
def test_every_client_makes_its_steps_and_no_example_is_ahead_by_two(
  sizes, batch_size, steps, num_shards, is_augmented
):
  train = numbered.clients(sizes)
  capacity = shards.capacity(
    np.array(sizes), batch_size, 1, len(sizes), steps
  )
  num_with_data = np.count_nonzero(sizes)
  assert capacity == (len(sizes), max(1, steps * num_with_data))
  make = _make(
    train,
    batch_size=batch_size,
    steps=steps,
    num_shards=num_shards,
    augment=(lambda examples, rng: dict(examples)) if is_augmented else None,
    filled_up_to=capacity,
  )
  found = set()
  for shard in make(_cohort(*range(len(sizes))), 1):
    assert shard.batches.shape == (capacity.batches, batch_size)
    for k, first, end in shard.clients[shard.clients[:, 0] != shards.NOBODY]:
      assert end - first == (steps if sizes[k] else 0)
      rows = shard.batches[first:end].ravel()
      assert (rows != shards.NO_ROW).all()  # Every batch is full.
      values = shard.examples['x'][rows, 0] - 100 * k
      for begin in range(0, rows.size, max(1, sizes[k])):  # Pass by pass.
        some = values[begin : begin + sizes[k]]
        assert np.unique(some).size == some.size
        assert ((some >= 0) & (some < sizes[k])).all()
      found.add(int(k))
  assert found == set(range(len(sizes)))


def test_shards_that_are_filled_up():
  make = _make(
    is_shuffled=False, num_shards=2, filled_up_to=shards.Capacity(3, 4)
  )
  first, second = make(_cohort(0), 1)
  nobody = [shards.NOBODY] * 3
  np.testing.assert_array_equal(first.clients, [[0, 0, 3], nobody, nobody])
  np.testing.assert_array_equal(first.weights, [0.125, 0, 0])
  np.testing.assert_array_equal(
    first.batches, [[0, 1], [2, 3], [4, -1], [-1, -1]]
  )
  np.testing.assert_array_equal(second.clients, [nobody] * 3)
  np.testing.assert_array_equal(second.weights, np.zeros(3))
  np.testing.assert_array_equal(second.batches, np.full((4, 2), shards.NO_ROW))


def test_nobody_and_somebody_without_examples():
  (nobody,) = _make()(_cohort(), 1)
  np.testing.assert_array_equal(nobody.clients, [[shards.NOBODY] * 3])
  assert (nobody.batches == shards.NO_ROW).all()
  (empty,) = _make()(_cohort(1), 1)
  np.testing.assert_array_equal(empty.clients, [[1, 0, 0]])
  assert (empty.batches == shards.NO_ROW).all()


def test_who_fails_is_there_without_examples():
  make = _make(is_shuffled=False)
  (part,) = make.parts(_cohort(0, 2), 1, failed=[0])
  shard = make.fill(part)
  np.testing.assert_array_equal(shard.clients, [[0, 0, 0], [2, 0, 2]])
  np.testing.assert_array_equal(shard.weights, [0.125, 0.25])
  np.testing.assert_array_equal(shard.batches, [[5, 6], [7, -1]])


def test_without_a_number_each_client_is_a_shard():
  make = _make(num_shards=None, is_shuffled=False)
  one, other = make(_cohort(2, 0), 1)
  np.testing.assert_array_equal(one.clients, [[2, 0, 2]])
  np.testing.assert_array_equal(other.clients, [[0, 0, 3]])
  assert make(_cohort(), 1) == []


def test_examples_are_made_only_where_they_are_needed():
  def fail():
    raise AssertionError

  def augment(examples, rng):
    del rng
    return examples

  make = shards.ClientShards(_TRAIN, fail, batch_size=2, augment=augment)
  make(_cohort(0), 1)
  plain = shards.ClientShards(_TRAIN, fail, batch_size=2)
  plain.parts(_cohort(0), 1)  # Who only deals has no use for them.
  with pytest.raises(AssertionError):
    plain(_cohort(0), 1)


def test_parts_by_hand_and_shards_that_are_filled_anywhere():
  make = _make(num_shards=2, epochs=2)
  parts = make.parts(_cohort(2, 0, weights=[0.25, 2.0]), 7, failed=[2])
  # Client 0 has 3 batches and comes first, client 2 goes to the other shard.
  assert [part.clients for part in parts] == [[0], [2]]
  assert [part.weights.tolist() for part in parts] == [[2.0], [0.25]]
  assert [part[2:] for part in parts] == [(7, [2], ())] * 2
  # Where another process has the same examples, a part is the same shard.
  there = _make(
    examples_lib.split(examples_lib.concatenated(_TRAIN), np.array(_SIZES)),
    num_shards=2,
    epochs=2,
  )
  sent = pickle.loads(pickle.dumps(make.parts(_cohort(2, 0), 7)))
  for one, other in zip(make(_cohort(2, 0), 7), map(there.fill, sent)):
    _assert_equal(one, other)


def _assert_equal(one, other):
  assert type(one) is type(other) and list(one.examples) == ['x', 'y']
  for field in one.examples:
    np.testing.assert_array_equal(one.examples[field], other.examples[field])
  for leaf, other_leaf in zip(one[1:4], other[1:4]):
    np.testing.assert_array_equal(leaf, other_leaf)


@hypothesis.given(
  st.lists(st.integers(0, 30), max_size=12), st.integers(1, 4)
)
def test_deal_gives_every_client_once_and_loads_evenly(loads, num_shards):
  dealt = shards.deal(loads, num_shards)
  assert len(dealt) == num_shards
  assert sorted(sum(dealt, [])) == list(range(len(loads)))
  totals = [sum(loads[place] for place in some) for some in dealt]
  # No shard is ahead of another by more than its last, smallest client.
  for some, total in zip(dealt, totals):
    if some:
      assert loads[some[-1]] == min(loads[place] for place in some)
      assert total - loads[some[-1]] <= min(totals)


@hypothesis.given(
  st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(1, 3)
)
def test_the_largest_load_is_near_the_least_possible(loads, num_shards):
  best = min(
    max(np.bincount(choice, loads, num_shards))
    for choice in np.ndindex(*([num_shards] * len(loads)))
  )
  dealt = shards.deal(loads, num_shards)
  largest = max(sum(loads[place] for place in some) for some in dealt)
  # Graham (1969), of the rule that takes the largest first.
  assert best <= largest <= (4 / 3 - 1 / (3 * num_shards)) * best + 1e-9


@hypothesis.given(
  numbered.cohorts(),
  st.integers(1, 4),
  st.integers(1, 3),
  st.integers(1, 3),
  st.booleans(),
)
@hypothesis.settings(max_examples=200)
def test_every_example_of_a_cohort_comes_once_in_each_epoch(
  case, batch_size, epochs, num_shards, is_augmented
):
  train, clients = case
  sizes = np.array([len(part['y']) for part in train])
  size = shards.capacity(sizes, batch_size, epochs, max(1, len(clients)))
  make = _make(
    train,
    batch_size=batch_size,
    epochs=epochs,
    num_shards=num_shards,
    augment=(lambda examples, rng: examples) if is_augmented else None,
    filled_up_to=size,
  )
  made = make(_cohort(*clients), 1)
  assert len(made) == num_shards
  found = {}
  for shard in made:
    assert shard.clients.shape == (size.clients, 3)
    assert shard.batches.shape == (size.batches, batch_size)
    is_used = np.zeros(size.batches, bool)
    is_there = shard.clients[:, 0] != shards.NOBODY
    # Who is there comes first.
    assert (np.diff(is_there.astype(int)) <= 0).all()
    for place in np.flatnonzero(is_there):
      k, first, end = shard.clients[place]
      assert not is_used[first:end].any()  # No two share a batch.
      is_used[first:end] = True
      rows = shard.batches[first:end].ravel()
      # Only the last batch is not full, and it is filled up at its end.
      num_rows = epochs * sizes[k]
      assert (rows[:num_rows] != shards.NO_ROW).all()
      assert (rows[num_rows:] == shards.NO_ROW).all()
      assert end - first == -(-num_rows // batch_size)
      found[k] = [
        sorted(shard.examples['x'][some, 0])
        for some in np.split(rows[:num_rows], epochs)
      ]
      assert shard.weights[place] == (clients.index(k) + 1) / 8
    assert (shard.batches[~is_used] == shards.NO_ROW).all()
    assert (shard.weights[~is_there] == 0).all()
  assert sorted(found) == clients
  for k, passes in found.items():
    assert passes == [train[k]['x'][:, 0].tolist()] * epochs


@hypothesis.given(
  st.lists(st.integers(0, 9), min_size=1, max_size=6),
  st.integers(1, 4),
  st.integers(1, 3),
  st.integers(1, 8),
)
def test_capacity_is_just_enough_for_every_cohort(
  sizes, batch_size, epochs, most
):
  size = shards.capacity(np.array(sizes), batch_size, epochs, most)
  needs = [
    sum(-(-epochs * sizes[k] // batch_size) for k in cohort)
    for cohort in _subsets(range(len(sizes)), most)
  ]
  assert size.batches == max(1, *needs)
  assert size.clients == max(1, min(most, len(sizes)))


def _subsets(items, most):
  items = list(items)
  for mask in np.ndindex(*([2] * len(items))):
    chosen = [item for item, bit in zip(items, mask) if bit]
    if len(chosen) <= most:
      yield chosen


_MANY = [
  {
    'x': np.arange(60, dtype=np.float32).reshape(30, 2),
    'y': np.arange(30, dtype=np.int32),
  }
] * 2


def test_the_order_is_a_function_of_seed_round_client_and_epoch():
  def order(client=0, round_num=1, seed=0, epoch=0, with_other=False):
    clients = (0, 1) if with_other else (client,)
    (shard,) = _make(_MANY, epochs=2, seed=seed)(_cohort(*clients), round_num)
    place = list(shard.clients[:, 0]).index(client)
    rows = _values(shard, place)
    return rows[30 * epoch : 30 * (epoch + 1)]

  first = order()
  assert first == order() == order(with_other=True)  # Whoever else is there.
  assert sorted(first) == _MANY[0]['x'][:, 0].tolist()
  others = [
    order(client=1), order(round_num=2), order(seed=1), order(epoch=1)
  ]
  for place, other in enumerate(others):
    assert other not in (first, *others[:place])


def test_examples_are_augmented_anew_in_each_epoch_round_and_client():
  def augment(examples, rng):
    noise = np.full((len(examples['y']), 1), rng.integers(1 << 40))
    return {'x': noise, 'y': examples['y']}

  make = _make(augment=augment, epochs=2)
  (shard,) = make(_cohort(0, 2), 1)
  first = _values(shard)
  # Two passes, each with a draw of its own.
  assert len(set(first[:5])) == len(set(first[5:])) == 1
  draws = [first[0], first[5], _values(shard, 1)[0], _values(shard, 1)[3]]
  draws.append(_values(make(_cohort(0), 2)[0])[0])
  draws.append(_values(_make(augment=augment, seed=1)(_cohort(0), 1)[0])[0])
  assert len(set(draws)) == 6
  assert _values(make(_cohort(0), 1)[0]) == first  # Whoever else is there.
  # Where nobody is there, the fields are of the same types all the same.
  (empty,) = make(_cohort(), 1)
  assert empty.examples['x'].dtype == shard.examples['x'].dtype
  assert empty.examples['x'].shape[1:] == (1,)
  assert (empty.batches == shards.NO_ROW).all()
  assert make.some_examples['x'].shape == (5, 1)
  # Steps draw anew for each pass, too: 2 of 2 are 4 of 5, 3 are 5 and 1.
  (by_steps,) = _make(augment=augment, steps=3)(_cohort(0), 1)
  assert _values(by_steps) == first[:6]




if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

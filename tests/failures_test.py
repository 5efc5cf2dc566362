"""Tests of `failures`."""

import sys

import grpc
import pytest

from f3ast_tff import failures
from f3ast_tff import runtime
from tests import fake_grpc


@pytest.mark.parametrize(
  ('code', 'is_of_the_computation'),
  [
    (grpc.StatusCode.INTERNAL, True),
    (grpc.StatusCode.INVALID_ARGUMENT, True),
    (grpc.StatusCode.UNAVAILABLE, False),
    (grpc.StatusCode.DEADLINE_EXCEEDED, False),
  ],
)
def test_tells_a_lost_worker_from_a_failed_computation(
  code, is_of_the_computation
):
  error = fake_grpc.Error(code)
  assert failures.is_of_the_computation(error) == is_of_the_computation
  # A worker's error is judged by what it was raised from.
  of_worker = runtime.WorkerError('The worker has failed.')
  of_worker.__cause__ = error
  assert failures.is_of_the_computation(of_worker) == is_of_the_computation

  def fail():
    raise error

  if is_of_the_computation:
    assert failures.unless_it_fails(fail) is None
  else:
    with pytest.raises(grpc.RpcError) as raised:
      failures.unless_it_fails(fail)
    assert raised.value is error


def test_a_worker_that_died_is_not_a_failed_computation():
  assert not failures.is_of_the_computation(runtime.WorkerError('It died.'))


def test_a_call_that_does_not_fail_and_an_error_of_ones_own():
  assert failures.unless_it_fails(max, 1, 2) == 2
  with pytest.raises(ZeroDivisionError):
    failures.unless_it_fails(lambda: 1 / 0)


def test_details_are_one_line():
  code = grpc.StatusCode.INTERNAL
  error = fake_grpc.Error(code, 'Bad shape.\nFile a, line 1')
  assert failures.details_of(error) == 'Bad shape.'
  assert failures.details_of(fake_grpc.Error(code, None)) == ''
  assert failures.details_of(runtime.WorkerError('It died.')) == 'It died.'


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

"""Tests of `addresses`."""

import socket
import sys

import hypothesis
from hypothesis import strategies as st
import pytest

from f3ast_tff import addresses


def test_addresses_of_all_kinds():
  found = addresses.parse('alpha:7000, 10.0.0.2:1,[::1]:65535')
  assert found == (('alpha', 7000), ('10.0.0.2', 1), ('::1', 65535))
  assert [str(a) for a in found] == ['alpha:7000', '10.0.0.2:1', '[::1]:65535']
  assert addresses.parse('') == ()


@pytest.mark.parametrize(
  'text',
  [
    'alpha',
    ':7000',
    'alpha:',
    'alpha:0',
    'alpha:65536',
    'alpha:-1',
    'alpha:7000,',
    'alpha:7000,,beta:7000',
    '::1',
    '::1:7000',
    'alpha:7000 beta:7000',
  ],
)
def test_what_is_no_address_is_named(text):
  with pytest.raises(ValueError, match='must be given as host:port'):
    addresses.parse(text)


def test_an_address_twice():
  with pytest.raises(ValueError, match='a:1 is given twice'):
    addresses.parse('a:1,b:1,a:1')


@hypothesis.given(st.text())
def test_any_text_is_addresses_or_one_sentence(text):
  try:
    found = addresses.parse(text)
  except ValueError as error:
    assert '\n' not in str(error)
  else:
    assert addresses.parse(','.join(map(str, found))) == found


def test_an_unreachable_address_is_named():
  with socket.create_server(('127.0.0.1', 0)) as open_, socket.socket() as shut:
    shut.bind(('127.0.0.1', 0))  # Taken, but nobody listens.
    here = addresses.Address(*open_.getsockname())
    gone = addresses.Address(*shut.getsockname())
    addresses.check_reachable([here])
    with pytest.raises(ValueError, match=f'{gone} cannot be reached'):
      addresses.check_reachable([here, gone])


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

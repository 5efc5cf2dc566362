"""Tests of `experiments.convert_trace`: pickles of FedScale, hostile ones."""

import json
import os
import pickle
import sys

import pytest

from experiments import convert_trace
from f3ast_tff import traces
from tests import programs

_DAY = 86_400
# As FedScale's file has them: names are numbers.
_PHONES = {
  3834: {
    'duration': 160,
    'inactive': [120, 400],
    'finish_time': 6 * _DAY,
    'active': [60, 300],
    'model': 'CPH1801',
  },
  7: {'duration': 5, 'inactive': [9], 'finish_time': _DAY, 'active': [4]},
}


@pytest.fixture
def convert(tmp_path):
  """Converts bytes; returns the trace and what was left out."""

  def convert(content, name='out.json'):
    source, target = tmp_path / 'in', tmp_path / name
    source.write_bytes(content)
    try:
      num_phones, reasons = convert_trace.convert(source, target)
    except ValueError:
      assert not target.exists()
      raise
    trace = traces.read(target)
    assert len(trace.names) == num_phones
    return trace, reasons

  return convert


@pytest.mark.parametrize('name', ['out.json', 'out.json.xz', 'out.json.gz'])
@pytest.mark.parametrize('protocol', range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_becomes_a_trace(name, protocol, convert):
  trace, reasons = convert(pickle.dumps(_PHONES, protocol), name)
  assert reasons == []
  assert trace.names == ('3834', '7')
  assert trace.days.tolist() == [6, 1]
  stride = 6 * _DAY + 1
  assert trace.bounds.tolist() == [60, 120, 300, 400, stride + 4, stride + 9]


def test_phones_that_are_wrong_are_left_out_and_named(convert):
  wrong = {
    **_PHONES,
    'a': {**_PHONES[7], 'active': [10]},
    'b': {**_PHONES[7], 'active': [4, 5]},
    'c': {**_PHONES[7], 'active': [(4,)]},
    'd': [1, 2],
    'e': {'model': 'x'},
    'f': {**_PHONES[7], 'inactive': [float('nan')]},
  }
  trace, reasons = convert(pickle.dumps(wrong))
  assert trace.names == ('3834', '7')
  assert len(reasons) == 6
  for name, reason in zip('abcdef', reasons):
    assert f"phone '{name}'" in reason
  # JSON may be cleaned so, too.
  del wrong['c']  # Which JSON has no word for.
  text = json.dumps(wrong)
  trace, reasons = convert(text.encode(), 'again.json')
  assert trace.names == ('3834', '7') and len(reasons) == 5


class _Call:
  """What a pickle calls when it is read."""

  def __init__(self, function, *arguments):
    self._reduced = function, arguments

  def __reduce__(self):
    return self._reduced


def _bomb():
  """Returns a small pickle of 10^10 numbers."""
  times = list(range(0, 20_000, 2))
  ends = list(range(1, 20_000, 2))
  phone = {'active': times, 'inactive': ends, 'finish_time': _DAY}
  return dict.fromkeys(range(500_000), phone)


@pytest.mark.parametrize(
  'content, message',
  [
    (pickle.dumps(_Call(os.mkdir, 'pwned')), 'it asks for posix.mkdir'),
    (pickle.dumps({1: _Call(print, 'pwned')}), 'it asks for builtins.print'),
    (pickle.dumps({1: {'active': {1, 2}}}, 2), 'it asks for __builtin__.set'),
    (b'\x80\x04\x8c\x05posix\x8c\x06system\x93.', 'it asks for posix.system'),
    (b'cposix\nsystem\n(S"touch pwned"\ntR.', 'it asks for posix.system'),
    (b'\x80\x02P1\n.', 'is no pickle that is safe to read'),
    (b'\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.', 'is no pickle that is'),
    (pickle.dumps(_PHONES)[:-9], 'is no pickle that is safe to read'),
    (b'', 'is no pickle that is safe to read'),
    (b'\x80\x04' + b'(' * 10_000, 'is no pickle that is safe to read'),
    (pickle.dumps([_PHONES]), 'does not map phones to what they did'),
    (pickle.dumps({}), 'has no phones that can be used.'),
    (pickle.dumps({1: 2}), "has no phones that can be used ("),
    (pickle.dumps({**_PHONES, '7': {}}), "has '7' twice"),
    (pickle.dumps({(1, 2): {}}), "has '(1, 2)' twice, or not as a text"),
    (pickle.dumps(_bomb()), 'holds more than its size allows'),
    (b'{"a": 1', 'is no JSON'),
  ],
  ids=lambda value: value[:30] if isinstance(value, str) else '',
)
def test_hostile_pickles_are_one_sentence_and_run_nothing(
  content, message, convert, tmp_path, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(traces.TraceError) as error:
    convert(content)
  assert message in str(error.value) and '\n' not in str(error.value)
  assert [path.name for path in tmp_path.iterdir()] == ['in']


def test_fields_that_are_not_needed_are_not_kept(convert):
  # Of a list in a list in a list ... that is 2^40 numbers when it is written.
  nested = [1]
  for _ in range(40):
    nested = [nested, nested]
  trace, reasons = convert(pickle.dumps({7: {**_PHONES[7], 'model': nested}}))
  assert trace.names == ('7',) and reasons == []


def test_the_program(tmp_path):
  (tmp_path / 'in').write_bytes(pickle.dumps({**_PHONES, 8: 8}))
  program = 'experiments.convert_trace'
  said = programs.succeed(tmp_path, program, 'in', 'out.json')
  assert "Left out: the trace has a int instead of an object for phone '8" in (
    said
  )
  assert 'out.json has 2 phones.' in said
  assert len(traces.read(tmp_path / 'out.json').names) == 2
  assert 'out.json exists already' in programs.one_error(
    tmp_path, program, 'in', 'out.json'
  )


@pytest.mark.parametrize(
  'arguments, message',
  [
    (('in',), 'name the trace to read and the file to write'),
    (('absent', 'new.json'), 'absent is not a file'),
    (('in', 'no/such/folder/new.json'), 'cannot write'),
  ],
)
def test_wrong_arguments(arguments, message, tmp_path, monkeypatch, capsys):
  monkeypatch.setenv('BUILD_WORKING_DIRECTORY', str(tmp_path))
  (tmp_path / 'in').write_bytes(pickle.dumps(_PHONES))
  with pytest.raises(SystemExit) as end:
    convert_trace.main(['program', *arguments])
  said = capsys.readouterr()
  assert (end.value.code, said.out) == (2, '')
  assert message in said.err and said.err.count('\n') == 1


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

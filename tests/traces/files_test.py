"""Tests of `traces.files` and `traces.json_formats`: formats, bad files."""

import gzip
import json
import lzma
import os
import pickle
import sys

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from f3ast_tff import traces
from f3ast_tff.traces import files

_DAY = 86_400

# One phone that is ready from 60 to 120 and from 300 to 400 of its one day, and
# one that is from 30 to 90, in each of the formats.
_READY = {'a': [(60, 120), (300, 400)], 'b': [(30, 90)]}
_INTERVALS = {
  'a': {'trace_start': 0, 'trace_end': _DAY, 'ready': [[300, 400], [60, 120]]},
  'b': {'trace_start': 0, 'trace_end': _DAY, 'ready': [[30, 90]]},
}
_PARTS = {
  'a': {
    'guid': 'a',
    'trace_start': 0,
    'trace_end': _DAY,
    'charging': [[60, 400]],
    'wifi': [[0, 500]],
    'locked': [[20, 120], [300, 800]],
  },
  'b': {
    'trace_start': 0,
    'trace_end': _DAY,
    'charging': [[0, 30], [30, 90]],
    'wifi': [[0, 500]],
    'locked': [[30, 800]],
  },
}
_FEDSCALE = {
  'a': {
    'duration': 160,
    'active': [60, 300, _DAY],
    'inactive': [120, 400, _DAY + 5],
    'finish_time': _DAY,
    'model': 'CPH1801',
  },
  'b': {'active': [30], 'inactive': [90], 'finish_time': _DAY},
}
_MINUTES = '2020-01-31 00:0{}\t{}\n'.format
_LOGS = {
  'a': {
    'guid': 'a',
    'messages': ''.join([
      _MINUTES('0:00', 'wifi'),
      _MINUTES('0:20', 'screen_lock'),
      _MINUTES('1:00', 'battery_charged_on'),
      _MINUTES('2:00', 'screen_unlock'),
      _MINUTES('5:00', 'screen_lock'),
      _MINUTES('6:40', 'battery_charged_off'),
      _MINUTES('8:20', '4G'),
      '2020-02-01 00:00:00\t99.0%\n',
    ]),
  },
  'b': {
    'messages': ''.join([
      _MINUTES('0:00', 'battery_charged_on'),
      _MINUTES('0:00', 'wifi'),
      _MINUTES('0:30', 'screen_lock'),
      _MINUTES('1:30', 'battery_charged_off'),
      '2020-02-01 00:00:00\tscreen_off\n',
    ]),
  },
}
_CSV = 'client,start,end\na,300,400\nb,30,90\n\na,59.5,120\n'


def _write(folder, content, name='trace'):
  path = folder / name
  if isinstance(content, dict):
    content = json.dumps(content)
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return path


def _ready(trace):
  """Returns the intervals of each phone."""
  found = {name: [] for name in trace.names}
  for start, end in trace.bounds.reshape(-1, 2).tolist():
    phone, start = divmod(start, trace.stride)
    found[trace.names[phone]].append((start, end - phone * trace.stride))
  return found


@pytest.mark.parametrize(
  'content',
  [_INTERVALS, _PARTS, _FEDSCALE, _LOGS, _CSV],
  ids=['intervals', 'parts', 'fedscale', 'logs', 'csv'],
)
@pytest.mark.parametrize(
  'pack', [bytes, gzip.compress, lzma.compress], ids=lambda f: f.__name__
)
def test_all_formats_are_recognised_and_say_the_same(content, pack, tmp_path):
  plain = content if isinstance(content, str) else json.dumps(content)
  path = _write(tmp_path, pack(plain.encode()))
  trace = traces.read(path)
  assert trace.names == ('a', 'b')
  assert _ready(trace) == _READY
  assert trace.days.tolist() == [1, 1]
  assert (trace.begins % _DAY == 0).all()  # Hours stay hours.
  np.testing.assert_allclose(trace.shares, [160 / _DAY, 60 / _DAY])


def test_parts_of_packed_files_one_behind_the_other(tmp_path):
  for compress in (gzip.compress, lzma.compress):
    parts = compress(_CSV[:20].encode()), compress(_CSV[20:].encode())
    assert _ready(traces.read(_write(tmp_path, b''.join(parts)))) == _READY


@pytest.mark.parametrize(
  'state, a',
  [
    ('charging', [(60, 400)]),
    ('wifi', [(0, 500)]),
    ('locked', [(20, 120), (300, 800)]),
    ('charging+wifi', [(60, 400)]),
    ('wifi+locked', [(20, 120), (300, 500)]),
    ('locked+charging+wifi', [(60, 120), (300, 400)]),
    ('ready', [(60, 120), (300, 400)]),
  ],
)
def test_states_and_combinations(state, a, tmp_path):
  trace = traces.read(_write(tmp_path, _PARTS), state)
  assert _ready(trace)['a'] == a
  if 'wifi' not in state.split('+')[0]:  # 'b' stays on it until its log ends.
    log = traces.read(_write(tmp_path, _LOGS), state)
    expected = [(s, _DAY if e == 800 else e) for s, e in a]
    assert _ready(log)['a'] == expected


def test_what_is_recorded_as_ready_goes_before_its_parts(tmp_path):
  phone = {**_PARTS['a'], 'ready': [[1, 2]]}
  assert _ready(traces.read(_write(tmp_path, {'a': phone}))) == {'a': [(1, 2)]}


def test_days_of_csv_are_common_and_begin_at_midnight(tmp_path):
  path = _write(
    tmp_path, f'client,start,end\nx,{3 * _DAY + 7},{3 * _DAY + 9}\n'
    f'"y,""z",{5 * _DAY},{5 * _DAY + 1}\n'
  )
  trace = traces.read(path)
  assert trace.names == ('x', 'y,"z')
  assert trace.begins.tolist() == [3 * _DAY] * 2
  assert trace.days.tolist() == [3, 3]


_DEEP = '[' * 200_000
_A = {'a': {'trace_start': 0, 'trace_end': _DAY, 'ready': [[1, 2]]}}


def _changed(**fields):
  return {**_A, 'b': {**_A['a'], **fields}}


def _fedscale(**fields):
  return {**_FEDSCALE, 'b': {**_FEDSCALE['b'], **fields}}


@pytest.mark.parametrize(
  'content, message',
  [
    # Not a trace at all.
    (b'', 'is empty'),
    (b'\0' * 1000, 'is neither JSON nor CSV'),
    (b'\xff\xfe\x00x' * 100, 'is neither JSON nor CSV'),
    ('round,available\n1,2\n', 'is neither JSON nor CSV that begins'),
    ('x' * 500_000, 'is neither JSON nor CSV (after line 1: field larger'),
    *(
      (pickle.dumps(_FEDSCALE, protocol), 'is a pickle, which could run a prog')
      for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ),
    ('{"a": ', 'is no JSON (Expecting value'),
    (b'{"\xff": 1}', 'is no JSON ('),
    ('{"a": ' + '1' * 5000 + '}', 'is no JSON (Exceeds the limit'),
    (_DEEP, 'is nested too deeply'),
    ('{"a": ' + _DEEP, 'is nested too deeply'),
    ('[]', 'does not map phones'),
    ('{}', 'has no phones'),
    ('client,start,end\n', 'has no phones'),
    ('{"a": 3}', "has a int instead of an object for phone 'a'"),
    ('{"a": {"x": 1}}', "has for phone 'a' neither trace_start (inter"),
    # Twice.
    ('{"a": {}, "b": {}, "a": {}}', "has 'a' twice"),
    ('{"a": {"active": [], "active": []}}', "has 'active' twice"),
    # Wrong kinds.
    (_changed(ready=None), "has for phone 'b' no field 'ready' that is a list"),
    (_changed(ready=[[1, 2, 3]]), "'b' something else than [start, end] in"),
    (_changed(ready=[3, 4]), "'b' something else than [start, end] in 'ready'"),
    (_changed(ready=[[1, '2']]), "'b' something else than numbers in 'ready'"),
    (_changed(ready=[[True, 2]]), "'b' something else than numbers in 'ready'"),
    (_changed(ready=[[[1], 2]]), "'b' something else than numbers in 'ready'"),
    (_changed(trace_end='x'), "'b' no field 'trace_end' that is a number"),
    (_changed(trace_start=True), "'b' no field 'trace_start' that is a number"),
    (_fedscale(active=[1, 2]), "'b' 2 times in active and 1 in inactive"),
    (_fedscale(inactive=['x']), "'b' something else than numbers in 'ina"),
    (_fedscale(finish_time=None), "'b' no field 'finish_time' that is a"),
    ({**_LOGS, 'c': {'messages': ['x']}}, "'c' no field 'messages' that is a"),
    ({**_LOGS, 'c': {'messages': 'x'}}, "has for phone 'c' the event ''"),
    ({**_LOGS, 'c': {'messages': ' '}}, "has for phone 'c' no events"),
    ('client,start,end\nx,1,2\ny,1\n', "'y' a row of 2 columns instead of 3"),
    # Wrong times.
    (_changed(ready=[[1, float('nan')]]), "'b' in state 'ready' the inter"),
    (_changed(trace_end=float('nan')), "'b' a recording from 0 to nan"),
    (_changed(trace_end=0), "'b' a recording from 0 to 0, but it must"),
    (_changed(trace_end=10**400), "'b' a recording from 0 to inf"),
    (_changed(ready=[[1, 10**400]]), "'b' in state 'ready' the interval"),
    (_changed(ready=[[1, -2]]), 'the interval 1 to -2, which ends before'),
    (_changed(ready=[[-1, 2]]), 'the interval -1 to 2, which begins before 0'),
    (_changed(ready=[[1, 9], [5, 7]]), 'the interval 5 to 7, which overlaps'),
    (_changed(ready=[[1, _DAY + 1]]), '1 to 86401, which is not inside of its'),
    (_fedscale(active=[99]), "'b' in state 'ready' the interval 99 to"),
    ('client,start,end\nx,1,2\ny,1,nan\n', "'y' in state 'ready' the int"),
    ('client,start,end\nx,1,2\ny,two,3\n', "'y' in state 'ready' the inte"),
    ('client,start,end\nx,1,2\ny,-1,3\n', "'y' in state 'ready' the inte"),
    ('client,start,end\nx,1,2\ny,1,2e12\n', 'but times are seconds up to'),
    ('client,start,end\nx,5,9\ny,1,2\nx,1,6\n', "'x' in state 'ready' the in"),
    # Nobody.
    ({'a': {**_A['a'], 'ready': []}}, 'no phone that is ever ready; choose'),
    # Names that a stranger chose.
    ({'a\n\x1b[31m' + 'z' * 999: 3}, r"phone 'a\n\x1b[31mzz"),
  ],
  ids=lambda value: value[:30] if isinstance(value, str) else '',
)  # fmt: skip
def test_bad_traces_are_one_sentence(content, message, tmp_path):
  path = _write(tmp_path, content)
  with pytest.raises(traces.TraceError) as error:
    traces.read(path)
  text = str(error.value)
  assert text.startswith(f'The trace {path} ') and message in text
  assert text.endswith('.') and '\n' not in text and len(text) < 500


@pytest.mark.parametrize(
  'content, state, message',
  [
    (_FEDSCALE, 'charging', "is FedScale's, which has one state only; leave"),
    (_CSV, 'ready+wifi', 'is CSV, which has one state only; leave trace_state'),
    (_INTERVALS, 'wifi', "has for phone 'a' no field 'wifi' that is a list"),
    (_PARTS, 'guid', "has for phone 'a' no field 'guid' that is a list"),
    (_LOGS, 'idle', "is FLASH's, which has the states ready, charging, locked"),
  ],
)
def test_states_that_are_not_recorded(content, state, message, tmp_path):
  with pytest.raises(traces.TraceError) as error:
    traces.read(_write(tmp_path, content), state)
  assert message in str(error.value)


@pytest.mark.parametrize('state', ['', '+', 'wifi+', 'wifi+wifi'])
def test_states_that_are_none(state):
  with pytest.raises(ValueError, match='trace_state must read like ready'):
    traces.parse_state(state)


def test_what_is_no_file(tmp_path):
  fifo = tmp_path / 'fifo'
  os.mkfifo(fifo)  # Which nobody writes to: to open it would take for ever.
  for path in (tmp_path, tmp_path / 'absent', fifo, '/dev/zero'):
    with pytest.raises(traces.TraceError, match='is not a file'):
      traces.read(path)


@pytest.mark.parametrize('compress', [gzip.compress, lzma.compress])
def test_packed_files_that_are_cut_or_damaged(compress, tmp_path):
  packed = compress(json.dumps(_INTERVALS).encode())
  for content in (
    packed[: len(packed) // 2],
    packed[:-1],
    packed[:20] + b'\x55\xaa' + packed[22:],
    packed + packed[:20],
  ):
    with pytest.raises(traces.TraceError, match='cannot be unpacked'):
      traces.read(_write(tmp_path, content))


def test_large_files_are_refused_before_they_are_read(tmp_path, monkeypatch):
  path = tmp_path / 'trace'
  with open(path, 'wb') as file:
    file.truncate(2**40)  # A hole: it takes no space.
  with pytest.raises(traces.TraceError, match='has more than 256 MB, unpacked'):
    traces.read(path)
  monkeypatch.setattr(files, 'MOST_BYTES', 10_000)
  plain = json.dumps(_INTERVALS).encode()
  for compress in (bytes, gzip.compress, lzma.compress):
    traces.read(_write(tmp_path, compress(plain.ljust(10_000))))
    bomb = compress(plain.ljust(10_001))
    with pytest.raises(traces.TraceError, match='leave some phones out, or'):
      traces.read(_write(tmp_path, bomb))


def test_an_xz_file_that_asks_for_much_memory_is_refused(tmp_path):
  filters = [{'id': lzma.FILTER_LZMA2, 'preset': 0, 'dict_size': 2**30}]
  greedy = lzma.compress(b'{}', filters=filters)
  with pytest.raises(traces.TraceError, match='Memory usage limit'):
    traces.read(_write(tmp_path, greedy))


_JSON = st.recursive(
  st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
  lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(
      ['trace_start', 'trace_end', 'ready', 'active', 'inactive', 'finish_time']
    ) | st.text(max_size=2),
    inner,
    max_size=4,
  ),
  max_leaves=12,
)


@hypothesis.given(
  st.binary(max_size=60)
  | _JSON.map(lambda value: json.dumps(value).encode())
  | _JSON.map(lambda value: json.dumps({'a': value}).encode())
  | st.builds(
    lambda rows: '\n'.join(['client,start,end', *rows]).encode(),
    st.lists(st.text(',0123456789.e-"x', max_size=9), max_size=4),
  )
)
def test_any_content_is_a_trace_or_one_sentence(tmp_path_factory, content):
  path = _write(tmp_path_factory.getbasetemp(), content)
  try:
    trace = traces.read(path)
  except traces.TraceError as error:
    assert str(error).endswith('.') and '\n' not in str(error)
  else:
    assert ((trace.shares >= 0) & (trace.shares <= 1)).all()
    assert (np.diff(trace.bounds) > 0).all()


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

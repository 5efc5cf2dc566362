"""Checks docs/availability.md: its table, pictures and output."""

import pathlib
import re
import sys

import numpy as np
import pytest

from experiments import population
from f3ast_tff import availability
from f3ast_tff import traces
from f3ast_tff.datasets import synthetic
from f3ast_tff.runs import config as config_lib

_DOCS = pathlib.Path(__file__).parents[2] / 'docs'
_PAGE = (_DOCS / 'availability.md').read_text()


def test_the_table_has_every_model_with_its_parameters():
  listed = re.findall(r'^\| `([a-z_]+[^`]*)` \|', _PAGE, re.MULTILINE)
  assert listed == availability.usages()


def test_every_model_with_defaults_has_its_picture():
  shown = set(re.findall(r'!\[(\w+)\]\(availability/\1\.png\)', _PAGE))
  files = {path.stem for path in (_DOCS / 'availability').iterdir()}
  assert shown == files
  for path in (_DOCS / 'availability').iterdir():
    assert path.stat().st_size < 60_000, path
  with_defaults = {
    usage.partition('[')[0]
    for usage in availability.usages()
    if ':' not in usage.partition('[')[0]
  }
  assert with_defaults <= shown


def test_the_output_is_that_of_the_program():
  (output,) = re.findall(r'```\n(clusters on .*?)\n```', _PAGE, re.DOTALL)
  config = config_lib.Config(avail='clusters', rounds=200)
  shown = population.observe(config, synthetic.load())
  *lines, files = output.splitlines()
  assert lines == population.text(shown).splitlines()
  assert files.endswith('in runs/availability/clusters')


def test_the_texts_of_the_page_are_models():
  texts = re.findall(r'--avail=(\S+)', re.sub(r'`', ' ', _PAGE))
  assert len(texts) > 3
  for text in texts:
    availability.check(text)


def test_the_formats_of_traces_are_read(tmp_path):
  blocks = re.findall(r'```(text|json)\n(.*?)```', _PAGE, re.DOTALL)
  assert [kind for kind, _ in blocks] == ['text', 'json', 'json', 'json']
  ready = []
  for kind, text in blocks:
    assert len(text.splitlines()) <= 5
    path = tmp_path / f'trace.{"csv" if kind == "text" else kind}'
    path.write_text(text)
    trace = traces.read(path)
    assert trace.names[0] == '0'
    ready.append(trace.bounds[trace.bounds < trace.stride].tolist())
  assert ready == [
    [3600, 7200, 82_800, 86_400],
    [600, 25_200, 82_800, 86_400],
    [3600, 7200, 82_800, 86_400],
    [1200, 25_200],
  ]


def test_the_example_of_traces(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  (text,) = re.findall(r'```text\n(.*?)```', _PAGE, re.DOTALL)
  (tmp_path / 'phones.csv').write_text(text)
  example, _ = re.findall(r'```python\n(.*?)```', _PAGE, re.DOTALL)
  names = {'p': np.full(4, 0.25)}
  exec(example, names)
  reachable, stays = capsys.readouterr().out.splitlines()
  assert float(reachable) == 1
  # One phone is ready from 0:00 to 0:30 of its two days, and its second client
  # is a day ahead, where it is from 1:00 on.
  assert sorted(stays.strip('[]').split()) == ['False'] * 3 + ['True']
  assert names['selector'].availability is names['model']


def test_the_example_of_deliveries():
  _, example = re.findall(r'```python\n(.*?)```', _PAGE, re.DOTALL)
  names = {}
  exec(example, names)
  cohort, lost = names['cohort'], names['lost']
  assert names['available'][[*cohort.clients, *lost]].all()
  # 1.3 times 5, rounded up, of which 5 may count.
  assert cohort.clients.size + lost.size == 7 and cohort.clients.size <= 5


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

"""Opens the committed report in headless Chromium, on a phone and on a desk."""

import pathlib
import shutil
import sys

import pytest

from tests import browser

_REPORT = pathlib.Path(__file__).parents[3] / 'docs' / 'paper' / 'report.html'

# What a reader would stumble over.
_INSPECT = """
const all = selector => [...document.querySelectorAll(selector)];
const bottom = element => element.getBoundingClientRect().bottom;
const wait = milliseconds => new Promise(end => setTimeout(end, milliseconds));
const scrolls = box => box.scrollWidth > box.clientWidth;
const hint = box =>
  parseFloat(getComputedStyle(box, '::before').maxHeight) > 0;
// A box with a table: is a part of it out of sight, is a verdict in sight next
// to each label, and does the label stay when all the way to the right?
function box(table) {
  const around = table.parentElement;
  const frame = around.getBoundingClientRect();
  const rows = [...table.querySelectorAll('tbody tr:not(.group)')];
  const far = row => row.cells[1].getBoundingClientRect().right - frame.right;
  const found = {
    name: table.closest('figure').id,
    scrolls: scrolls(around),
    hint: hint(around),
    labels: rows.filter(row => row.cells[0].matches('.label')).length,
    rows: rows.length,
    hidden: rows.filter(row => far(row) > 1).length,
  };
  around.scrollLeft = around.scrollWidth;
  found.moved = all(`#${found.name} .label`).filter(label =>
    Math.abs(label.getBoundingClientRect().left - frame.left) > 1.5).length;
  return found;
}
async function inspect() {
  const first = {
    height: innerHeight,
    sentences: all('#conclusion li').map(bottom),
    verdicts: all('#verdicts-synthetic tbody tr').map(bottom),
  };
  const link = document.querySelector('td.ours a');
  location.hash = link.hash;
  await wait(100);
  const commands = document.getElementById(link.hash.slice(1));
  const opened = commands.closest('details').open;
  for (const details of all('details')) details.open = true;
  // The browser finds out how far boxes are scrolled when it draws the page.
  for (let i = 0; i < 50; i++) {
    if (all('.wide').every(box => hint(box) == scrolls(box))) break;
    await wait(100);
  }
  const images = all('img');
  return {
    first,
    opened,
    boxes: all('table').map(box),
    images: images.length,
    empty: images.filter(i => !(i.naturalWidth && i.clientHeight)).length,
    tables: all('table').length,
    broken: all('a[href^="#"]').map(a => a.getAttribute('href').slice(1))
      .filter(name => !document.getElementById(decodeURIComponent(name))),
    // A wide table or picture scrolls in a box of its own, never the page.
    overflow: document.documentElement.scrollWidth
      - document.documentElement.clientWidth,
    outside: all('[src], link[href], [srcset]')
      .map(e => e.getAttribute('src') || e.getAttribute('href'))
      .filter(url => !url.startsWith('data:')),
    notes: all('figcaption').length,
  };
}
"""


@pytest.fixture(name='opened', scope='module')
def _opened(tmp_path_factory):
  """Returns what was found by width, and what the browser logged."""
  folder = tmp_path_factory.mktemp('browser')
  shutil.copy(_REPORT, folder)
  found, log = browser.inspect(folder, ['report.html'], _INSPECT)
  return {width: frame for (_, width), frame in found.items()}, log


@pytest.mark.parametrize('width', browser.SIZES)
def test_the_first_screen_has_the_conclusion_and_the_verdicts(opened, width):
  first = opened[0][width]['first']
  assert first['height'] == browser.SIZES[width]
  assert 5 <= len(first['sentences']) <= 7
  assert len(first['verdicts']) == 5
  assert 0 < first['sentences'][-1] < first['verdicts'][-1] < first['height']


@pytest.mark.parametrize('width', browser.SIZES)
def test_tables_scroll_in_their_boxes_with_the_label_in_sight(opened, width):
  boxes = opened[0][width]['boxes']
  for box in boxes:
    assert box['rows'] == box['labels'] > 0, box
    assert box['moved'] == 0, box
    assert box['hint'] == box['scrolls'], box
    if 'verdict' in box['name'] or box['name'] == 'claims':
      assert box['hidden'] == 0, box
  number = sum(box['scrolls'] for box in boxes)
  # On a phone nearly all; on a desk the widest alone.
  assert number > 15 if width < 500 else 5 < number < 15, number


@pytest.mark.parametrize('width', browser.SIZES)
def test_the_page_is_whole_and_fits(opened, width):
  frame = opened[0][width]
  assert frame['images'] > 5
  assert frame['empty'] == 0
  assert frame['tables'] > 10
  assert frame['notes'] == frame['images'] + frame['tables']
  assert frame['broken'] == []
  assert frame['outside'] == []
  assert frame['overflow'] == 0
  assert frame['opened']  # A number's link shows the commands behind it.


def test_the_console_stays_empty(opened):
  assert 'CONSOLE' not in opened[1]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

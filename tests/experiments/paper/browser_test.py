"""Opens the committed report in headless Chromium, on a phone and on a desk.

Skipped where there is no Chromium on the PATH (Debian's package is `chromium`).
"""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

_REPORT = pathlib.Path(__file__).parents[3] / 'docs' / 'paper' / 'report.html'
_BROWSER = next(
  filter(
    None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))
  ),
  None,
)
_WIDTHS = (390, 1280)

# What a reader would stumble over, told to the page around it.
_INSPECT = """
<script>
addEventListener('load', () => {
  const all = selector => [...document.querySelectorAll(selector)];
  const link = document.querySelector('td.ours a');
  location.hash = link.hash;
  setTimeout(() => inspect(all, document.getElementById(link.hash.slice(1))));
});
function inspect(all, commands) {
  const opened = commands.closest('details').open;
  for (const details of all('details')) details.open = true;
  const images = all('img');
  parent.postMessage({
    width: innerWidth,
    images: images.length,
    empty: images.filter(i => !(i.naturalWidth && i.clientHeight)).length,
    tables: all('table').length,
    broken: all('a[href^="#"]').map(a => a.getAttribute('href').slice(1))
      .filter(name => !document.getElementById(decodeURIComponent(name))),
    // A wide table or picture scrolls in a box of its own, never the page.
    overflow: document.documentElement.scrollWidth - innerWidth,
    outside: all('[src], link[href], [srcset]')
      .map(e => e.getAttribute('src') || e.getAttribute('href'))
      .filter(url => !url.startsWith('data:')),
    notes: all('figcaption').length,
    opened,
  }, '*');
}
</script>
"""
_AROUND = """
<!DOCTYPE html><title>Around</title><pre id="told"></pre>
<script>
const told = [];
addEventListener('message', e => {
  told.push(e.data);
  document.getElementById('told').textContent = JSON.stringify(told);
});
</script>
"""


@pytest.fixture(name='opened', scope='module')
def _opened(tmp_path_factory):
  """Returns what each frame tells, and what the browser logged."""
  if _BROWSER is None:
    pytest.skip('There is no Chromium here.')
  folder = tmp_path_factory.mktemp('browser')
  text = _REPORT.read_text()
  (folder / 'report.html').write_text(
    text.replace('</body>', f'{_INSPECT}</body>')
  )
  frames = ''.join(
    f'<iframe src="report.html" style="border: 0" width={width} height=800>'
    '</iframe>'
    for width in _WIDTHS
  )
  around = folder / 'around.html'
  around.write_text(_AROUND + frames)
  ended = subprocess.run(
    [
      _BROWSER,
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--enable-logging=stderr',
      f'--user-data-dir={folder / "profile"}',
      '--virtual-time-budget=60000',
      '--dump-dom',
      around.as_uri(),
    ],
    capture_output=True,
    text=True,
    timeout=300,
    check=True,
  )
  told = re.search('<pre id="told">(.*?)</pre>', ended.stdout, re.S)
  assert told, ended.stderr
  frames_told = {
    frame['width']: frame for frame in json.loads(html.unescape(told[1]))
  }
  assert set(frames_told) == set(_WIDTHS)
  return frames_told, ended.stderr


@pytest.mark.parametrize('width', _WIDTHS)
def test_the_page_is_whole_and_fits(opened, width):
  frame = opened[0][width]
  assert frame['images'] > 5
  assert frame['empty'] == 0
  assert frame['tables'] > 10
  assert frame['notes'] == frame['images'] + frame['tables']
  assert frame['broken'] == []
  assert frame['outside'] == []
  assert frame['overflow'] <= 0
  assert frame['opened']  # A number's link shows the commands behind it.


def test_the_console_stays_empty(opened):
  assert 'CONSOLE' not in opened[1]


if __name__ == '__main__':
  sys.exit(pytest.main([__file__, *sys.argv[1:]]))

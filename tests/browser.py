"""Opens pages in headless Chromium, on a phone and on a desk.

Tests that use it are skipped where there is no Chromium on the PATH (Debian's
package is `chromium`).
"""

import html
import json
import re
import shutil
import subprocess

import pytest

SIZES = {390: 844, 1280: 800}  # Of a phone and of a desk.
_BROWSER = next(
  filter(
    None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))
  ),
  None,
)
_INSIDE = """
<script>
{script}
addEventListener('load', async () => {{
  const found = await inspect();
  parent.postMessage({{page: {name}, width: innerWidth, found}}, '*');
}});
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


def inspect(folder, pages, script):
  """Opens pages at both sizes and has a script look at each.

  Args:
    folder: Where pages are; files are written there.
    pages: Their names in it.
    script: JavaScript that defines `inspect()`, which may be asynchronous and
      returns what it found.

  Returns:
    What was found by page and width, and what the browser logged.
  """
  if _BROWSER is None:
    pytest.skip('There is no Chromium here.')
  around = _AROUND
  for number, name in enumerate(pages):
    page = folder / name
    inside = _INSIDE.format(script=script, name=json.dumps(name))
    copy = page.with_name(f'inspected-{number}.html')
    text, end, rest = page.read_text().rpartition('</body>')
    assert end, name
    copy.write_text(text + inside + end + rest)
    around += ''.join(
      f'<iframe src="{copy.relative_to(folder)}" style="border: 0" '
      f'width={width} height={height}></iframe>'
      for width, height in SIZES.items()
    )
  (folder / 'around.html').write_text(around)
  ended = subprocess.run(
    [
      _BROWSER,
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--hide-scrollbars',  # As on a phone.
      '--enable-logging=stderr',
      f'--user-data-dir={folder / "profile"}',
      '--virtual-time-budget=60000',
      '--dump-dom',
      (folder / 'around.html').as_uri(),
    ],
    capture_output=True,
    text=True,
    timeout=300,
    check=True,
  )
  told = re.search('<pre id="told">(.*?)</pre>', ended.stdout, re.S)
  assert told, ended.stderr
  found = {
    (frame['page'], frame['width']): frame['found']
    for frame in json.loads(html.unescape(told[1]))
  }
  assert set(found) == {(name, width) for name in pages for width in SIZES}
  return found, ended.stderr

"""Tables in Markdown that also read well as plain text."""

from collections.abc import Iterable


def table(rows: Iterable[Iterable[object]]) -> str:
  """Returns a table with aligned columns.

  Args:
    rows: The cells; the first row is the header.

  Returns:
    The lines, without a line break after the last.
  """
  texts = [[str(cell).replace('|', '\\|') for cell in row] for row in rows]
  widths = [max(map(len, column)) for column in zip(*texts)]
  lines = [f'| {" | ".join(map(str.ljust, row, widths))} |' for row in texts]
  rule = '|'.join('-' * (width + 2) for width in widths)
  return '\n'.join([lines[0], f'|{rule}|', *lines[1:]])

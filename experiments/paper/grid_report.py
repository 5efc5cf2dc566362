"""The report of a grid: what `experiments.paper` and `.reproduce` share."""

from collections.abc import Sequence
import pathlib

from experiments import cli
from experiments.paper import cell as cells_lib
from experiments.paper import design
from experiments.paper import results

# Pictures that other programs make, shown in the report if they are there.
_OTHER_PICTURES = {
  'docs/region.svg': (
    'The region of achievable rates of two clients, by experiments.region'
  ),
}


def _other_pictures() -> dict[str, bytes]:
  """Returns the pictures of `experiments.region` and so on by caption."""
  return {
    title: cli.here(path).read_bytes()
    for path, title in _OTHER_PICTURES.items()
    if cli.here(path).exists()
  }


def _files(
  places: cells_lib.Places, cells: Sequence[cells_lib.Cell]
) -> dict[str, bytes]:
  """Returns the files of the report; a `ResultError` if one is no result."""
  from experiments.paper import benchmark_pages  # Slow to import.
  from experiments.paper import paper_report

  found = results.read_all(places.results)
  known = {cell.key: cell for cell in cells}
  varied: dict[design.Key, list[str]] = {}
  for result in found:
    key = design.Key(**result['cell'])
    reason = results.refusal(result, places.allow_changed_code)
    if key not in known:
      reason = 'is not of a cell of the grid'
    if reason:
      path = results.path_of(places.results, key)
      raise results.ResultError(f'{path} {reason}; move it away.')
    cell = known[key]
    cells_lib.check_settings(places.resolve(cell) or cell, result)
    varied[key] = [name for name, _ in cell.flags]
    if key.variant in design.OTHER_ROUNDS:
      varied[key].append('rounds')
    if cell.match is not None:
      varied[key] += (
        ['server_rate_file', 'server_rate_sha256']
        if cell.is_by_round
        else ['server_learning_rate']
      )
  results.check_alike(found, varied)
  pages = benchmark_pages.build(places.results.parent / 'methods')
  return paper_report.build(found, _other_pictures(), pages)


def write(
  places: cells_lib.Places,
  cells: Sequence[cells_lib.Cell],
  output: pathlib.Path,
) -> None:
  """Writes the report and says where it is."""
  from experiments.paper import paper_report

  files = _files(places, cells)
  try:
    paper_report.write(output, files)
  except OSError as error:
    cli.fail(
      f'cannot write the report to {output} ({error.strerror}); make room '
      'there, or name another folder.',
      2,
    )
  print(f'The report is {output / "report.html"}.')


def check(
  places: cells_lib.Places,
  cells: Sequence[cells_lib.Cell],
  output: pathlib.Path,
) -> None:
  """Ends the program with exit code 1 unless the report is as it should be."""
  from experiments.paper import paper_report

  wrong = paper_report.differences(output, _files(places, cells))
  if wrong:
    more = f'; and {len(wrong) - 5} more' if len(wrong) > 5 else ''
    cli.fail(
      f'{"; ".join(wrong[:5])}{more}. --report_only makes the report again.', 1
    )
  print(f'{output} is what the results in {places.results} give.')

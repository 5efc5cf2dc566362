"""Runs side by side: prints a table and draws curves of accuracy and loss.

For example: python -m experiments.compare runs/synthetic/* --output=curves
"""

from collections.abc import Sequence
import functools
import re

from absl import app
from absl import flags

from experiments import cli
from f3ast_tff.runs import run_directory

_OUTPUT = flags.DEFINE_string(
  'output',
  'curves',
  'The picture: written twice, with the endings .png and .svg, below the '
  'folder from which the program is called.',
)
_TITLE = flags.DEFINE_string(
  'title', 'Test metrics', 'The text above the picture.'
)


def main(argv: Sequence[str]) -> None:
  """Prints the table and draws the curves."""
  folders = [cli.here(folder) for folder in argv[1:]]
  if not folders:
    cli.fail('name the folders of the runs to compare; see --help.', 2)
  with cli.one_sentence(ValueError, 2):
    tasks = {
      run_directory.read_config(folder)['settings'].get('task')
      for folder in folders
    }
    if len(tasks) > 1:
      raise ValueError(
        f'The runs are of different tasks ({", ".join(sorted(map(str, tasks)))}'
        '); compare runs of one task.'
      )
    output = cli.here(re.sub(r'\.(png|svg)$', '', _OUTPUT.value))
    if not output.parent.is_dir():
      raise ValueError(
        f'There is no folder {output.parent} for the picture; make it, or name '
        'another --output.'
      )
    from experiments.paper import comparison  # Slow to import.

    try:
      print(comparison.report(folders, _TITLE.value, output))
      print(f'The picture is {output}.png, and the same as {output}.svg.')
    except OSError as error:
      cli.fail(
        f'cannot write the picture {output} ({error.strerror}); make room, or '
        'name another --output.',
        2,
      )


if __name__ == '__main__':
  app.run(
    main,
    flags_parser=functools.partial(
      cli.parse_flags_and_arguments, arguments='FOLDER ...'
    ),
  )

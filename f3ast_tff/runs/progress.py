"""What a run shows while it trains.

On a terminal that is a bar, on standard error. Elsewhere (nohup, a batch
system, a pipe) it is a line for each test, on standard output.
"""

from collections.abc import Callable, Iterator
import contextlib
import time
from typing import Optional

import tqdm

from f3ast_tff import wording


def _duration(seconds: float) -> str:
  """Returns a time in words."""
  for unit, name in ((1, 's'), (60, 'min')):
    if seconds < 120 * unit:
      return f'{seconds / unit:.0f} {name}'
  return f'{seconds / 3600:.1f} h'


@contextlib.contextmanager
def shown(
  start: int, num_rounds: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int, Optional[float]], None]]:
  """Yields a function that shows the end of a round.

  Args:
    start: After which round the run begins or continues.
    num_rounds: How many rounds it has.
    clock: Returns the seconds since some moment.

  Yields:
    The function, of the round and the accuracy if there was a test.
  """
  if start == num_rounds:
    rounds = wording.count(num_rounds, 'round')
    print(f'The run is finished already, with {rounds}.', flush=True)
  elif start:
    print(f'Continuing after round {start}.', flush=True)
  bar = tqdm.tqdm(
    total=num_rounds,
    initial=start,
    unit='round',
    disable=None,  # Quiet unless standard error is a terminal.
  )
  began = None

  def show(t: int, accuracy: Optional[float]) -> None:
    nonlocal began
    now = clock()
    if began is None:  # The first round compiles; others are shorter.
      began = now
    if not bar.disable:
      if accuracy is not None:
        bar.set_postfix(accuracy=f'{accuracy:.3f}', refresh=False)
      bar.update()
    elif accuracy is not None:
      line = f'round {t} of {num_rounds}: accuracy {accuracy:.3f}'
      since_first = t - start - 1
      if since_first and t < num_rounds:
        left = (now - began) / since_first * (num_rounds - t)
        line += f', about {_duration(left)} left'
      print(line, flush=True)

  with bar:
    yield show

"""What the experiments on the paper's theory share: systems and outputs."""

from collections.abc import Mapping, Sequence
import pathlib
from typing import Any, NamedTuple, Optional

from absl import flags
import numpy as np

from experiments import cli
from experiments import markdown as markdown_lib
from experiments import output_folder
from f3ast_tff import availability
from f3ast_tff import communication
from f3ast_tff import randomness
from f3ast_tff import rates
from f3ast_tff.runs import run_directory

MODELS = (*availability.PAPER, 'markov')

# Of the Markov chains: how long a client stays on average, and how often the
# most present one is there.
_ROUNDS_ON = 5.0
_MOST_PRESENT = 0.8


class Setting(NamedTuple):
  """A system to study, by the name of its availability model."""

  name: str
  p: np.ndarray
  availability: availability.Availability
  constraint: communication.Constraint
  correlation: str


def recorded(
  setting: Setting, num_rounds: int
) -> availability.Recorded:
  """Returns an availability model of the first rounds, drawn beforehand."""
  masks, _ = record(setting, num_rounds)
  return availability.Recorded(masks, setting.availability)


def record(setting: Setting, num_rounds: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns A_t, shape [rounds, N], and K_t of the first rounds."""
  rounds = range(1, num_rounds + 1)
  if isinstance(setting.availability, availability.Markov):
    masks = _chains(setting.availability, num_rounds)
  else:
    masks = np.array([setting.availability(t) for t in rounds])
  return masks, np.array([setting.constraint(t) for t in rounds])


def _chains(model: availability.Markov, num_rounds: int) -> np.ndarray:
  """Returns what the model says, in one pass instead of looking back."""
  masks = np.empty((num_rounds, model.num_clients), bool)
  for t in range(1, num_rounds + 1):
    rng = randomness.generator(model.seed, 'availability', t)
    u = rng.random(model.num_clients)
    if t == 1:
      masks[0] = u < model.probabilities(1)
    else:
      leave, stay_away = model.on_to_off, 1 - model.off_to_on
      masks[t - 1] = u >= np.where(masks[t - 2], leave, stay_away)
  return masks


def markov(num_clients: int, seed: int) -> availability.Markov:
  """Home-devices with a memory: q_k = .8 T_k / max T, on for 5 rounds."""
  q = _MOST_PRESENT * availability.home_devices(num_clients, seed).q
  on_to_off = np.full(num_clients, 1 / _ROUNDS_ON)
  return availability.Markov(on_to_off, on_to_off * q / (1 - q), seed)


def _setting(
  name: str, p: np.ndarray, clients_per_round: str, seed: int
) -> Setting:
  model: availability.Availability
  if name == 'markov':
    model = markov(p.size, seed)
  elif name in availability.PAPER:
    model = availability.parse(name, p, seed)
  else:
    raise ValueError(
      f'avail must name some of {", ".join(MODELS)}, but has {name!r}.'
    )
  positive = model.positively_correlated
  return Setting(
    name,
    p,
    model,
    communication.parse(clients_per_round, seed),
    rates.POSITIVE if positive else rates.UNCORRELATED,
  )


def settings(
  names: Sequence[str], p: np.ndarray, clients_per_round: str, seed: int
) -> list[Setting]:
  """Returns the systems of given names; H has the form that fits each.

  Args:
    names: Names of availability models.
    p: Each client's share of the data.
    clients_per_round: The constraint, as a flag says it.
    seed: Decides the models and their draws.

  Returns:
    The systems.
  """
  if not names:
    raise ValueError(f'avail must name some of {", ".join(MODELS)}.')
  return [_setting(name, p, clients_per_round, seed) for name in names]


def numbers(text: str, flag: str, count: Optional[int] = None) -> np.ndarray:
  """Returns the numbers of a flag that lists them with commas."""
  try:
    values = np.array([float(field) for field in text.split(',')])
  except ValueError:
    values = np.array([np.nan])
  if not np.isfinite(values).all() or count not in (None, values.size):
    how_many = 'numbers' if count is None else f'{count} numbers'
    raise ValueError(
      f'{flag} must be {how_many} with commas between, but it is {text!r}.'
    )
  return values


def define_picture_dir() -> None:
  """Defines --picture_dir, for programs that call `picture_dir`."""
  flags.DEFINE_string(
    'picture_dir', None, 'The folder for pictures; by default --output_dir.'
  )


def output_dir(default: str) -> pathlib.Path:
  """Returns the folder for tables, made if need be.

  Args:
    default: The folder unless --output_dir names one.

  Returns:
    The folder.

  Raises:
    ValueError: If it cannot be made.
  """
  return _made(output_folder.OUTPUT_DIR.value or default)


def picture_dir(tables: pathlib.Path) -> pathlib.Path:
  """Returns --picture_dir, made if need be; without it that of tables."""
  return _made(flags.FLAGS.picture_dir) if flags.FLAGS.picture_dir else tables


def _made(path: str) -> pathlib.Path:
  folder = cli.here(path)
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise ValueError(
      f'Cannot write to the folder {folder} ({error.strerror}); name '
      'another.'
    ) from error
  return folder


Row = Mapping[str, Any]


def _text(value: Any, digits: int) -> str:
  return f'{value:.{digits}g}' if isinstance(value, float) else str(value)


def write_csv(path: pathlib.Path, rows: Sequence[Row]) -> None:
  """Writes a table; six digits are enough and keep the files small."""
  cells = [[_text(value, 6) for value in row.values()] for row in rows]
  run_directory.write_table(path, list(rows[0]), cells)


def markdown(rows: Sequence[Row]) -> str:
  """Returns a table as Markdown that also reads well as plain text."""
  cells = [[_text(value, 4) for value in row.values()] for row in rows]
  return markdown_lib.table([list(rows[0]), *cells])

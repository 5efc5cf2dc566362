"""Metrics to Weights & Biases: `--tracker=wandb`.

Where to is for its own variables to say, such as WANDB_PROJECT; without a
network, WANDB_MODE=offline writes to the run's folder, for `wandb sync`.
"""

from collections.abc import Mapping
import os
import pathlib
from typing import Any

import tensorflow_federated as tff

from f3ast_tff.runs import releases
from f3ast_tff.runs import trackers

_PROJECT = 'f3ast_tff'


class WeightsAndBiases(tff.program.ReleaseManager[releases.Value, int]):
  """Logs the numbers of each round and test."""

  def __init__(self, run: Any):
    self._run = run

  async def release(self, value: releases.Value, key: int) -> None:
    """Logs the numbers of a round, with the round as step."""
    # A resumed run repeats rounds, to the same numbers; steps cannot go back.
    if key >= self._run.step:
      self._run.log(releases.numbers(value), step=key)

  def finish(self, succeeded: bool) -> None:
    """Ends the run."""
    self._run.finish(exit_code=int(not succeeded))


def start(
  folder: pathlib.Path, settings: Mapping[str, Any]
) -> WeightsAndBiases:
  """Begins a run at Weights & Biases, or continues that of the folder."""
  import wandb

  run_id = trackers.read_id(folder, 'wandb')
  run = wandb.init(
    project=os.environ.get('WANDB_PROJECT', _PROJECT),
    name=folder.name,
    id=run_id,
    resume='allow' if run_id else None,
    config=None if run_id else dict(settings),
    dir=folder,
    # Standard output and error stay as they are.
    settings=wandb.Settings(console='off'),
  )
  if run_id is None:
    trackers.write_id(folder, 'wandb', run.id)
  return WeightsAndBiases(run)

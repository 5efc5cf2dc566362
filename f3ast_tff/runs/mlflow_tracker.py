"""Metrics to MLflow: `--tracker=mlflow`.

Where to is for MLflow's own variables to say: MLFLOW_TRACKING_URI (by default a
file mlflow.db in the current folder) and MLFLOW_EXPERIMENT_NAME.
"""

from collections.abc import Mapping
import os
import pathlib
import time
from typing import Any

import tensorflow_federated as tff

from f3ast_tff.runs import releases
from f3ast_tff.runs import trackers

_EXPERIMENT = 'f3ast_tff'
_SECONDS = 1.0  # Between two calls: one may take longer than a short round.
_MOST_METRICS = 1000  # That MLflow takes in one call.


class MLflow(tff.program.ReleaseManager[releases.Value, int]):
  """Sends the numbers of rounds and tests, those of a second at a time."""

  def __init__(self, client: Any, run_id: str):
    self._client, self._run_id = client, run_id
    self._waiting: list[Any] = []
    self._sent = time.monotonic()
    self._is_lost = False

  async def release(self, value: releases.Value, key: int) -> None:
    """Sends the numbers of a round with the round as step, soon."""
    from mlflow import entities

    now = round(1000 * time.time())
    self._waiting += [
      entities.Metric(name, float(number), now, key)
      for name, number in releases.numbers(value).items()
    ]
    if time.monotonic() > self._sent + _SECONDS:
      self.flush()

  def flush(self) -> None:
    """Sends all that waits."""
    self._is_lost = True  # Until it is seen not to be.
    for begin in range(0, len(self._waiting), _MOST_METRICS):
      some = self._waiting[begin : begin + _MOST_METRICS]
      self._client.log_batch(self._run_id, some)
    self._waiting.clear()
    self._sent = time.monotonic()
    self._is_lost = False

  def finish(self, succeeded: bool) -> None:
    """Sends what is left, and ends the run, unless the server is gone."""
    if self._is_lost:  # To find that out again may take minutes.
      return
    self.flush()
    status = 'FINISHED' if succeeded else 'FAILED'
    self._client.set_terminated(self._run_id, status)


def start(folder: pathlib.Path, settings: Mapping[str, Any]) -> MLflow:
  """Begins a run at MLflow, or continues that of the folder."""
  import mlflow
  from mlflow import entities

  client = mlflow.MlflowClient()
  run_id = trackers.read_id(folder, 'mlflow')
  if run_id is not None:
    client.update_run(run_id, status='RUNNING')
    return MLflow(client, run_id)
  name = os.environ.get('MLFLOW_EXPERIMENT_NAME', _EXPERIMENT)
  found = client.get_experiment_by_name(name)
  place = found.experiment_id if found else client.create_experiment(name)
  run_id = client.create_run(place, run_name=folder.name).info.run_id
  params = [entities.Param(*map(str, item)) for item in settings.items()]
  client.log_batch(run_id, params=params)
  trackers.write_id(folder, 'mlflow', run_id)
  return MLflow(client, run_id)

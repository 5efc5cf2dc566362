"""The paper's figures from our results.

Each figure is drawn from a small table of numbers alone, which is written
beside it as CSV: the numbers can be checked where the picture cannot.
"""

from collections.abc import Callable, Mapping
import io
import math
from typing import Any, NamedTuple

import matplotlib

matplotlib.use('Agg')

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from experiments.paper import comparison
from experiments.paper import design
from experiments.paper import frames
from experiments.paper import names
from experiments.paper import results
from experiments.paper import tables
from f3ast_tff.runs import summary


class Figure(NamedTuple):
  """A figure: its numbers, and how they are drawn.

  Attributes:
    name: Of its files.
    title: What it shows.
    note: What one has to know to read it.
    data: The numbers, all that the picture depends on.
    draw: Returns the picture.
  """

  name: str
  title: str
  note: str
  data: pd.DataFrame
  draw: Callable[[pd.DataFrame], Any]


_BAND = 'Lines are means over seeds, bands one standard deviation.'
# The salt of the names of an SVG's parts, which would be random otherwise.
_STYLE = {
  'svg.hashsalt': 'f3ast',
  'font.size': 10,
  'axes.spines.top': False,
  'axes.spines.right': False,
  'legend.frameon': False,
}


def csv_text(figure: Figure) -> str:
  """Returns the numbers of a figure as CSV."""
  return figure.data.to_csv(
    index=False, float_format='%.6g', lineterminator='\n'
  )


def images(figure: Figure) -> dict[str, bytes]:
  """Returns the picture as `png` and `svg`.

  They do not depend on the day they are made.

  Args:
    figure: The figure.

  Returns:
    The bytes of each file.
  """
  # What is drawn is what the CSV says, to the digit.
  data = pd.read_csv(io.StringIO(csv_text(figure)))
  files = {}
  with matplotlib.rc_context(_STYLE):
    picture = figure.draw(data)
    for ending, metadata in (('svg', {'Date': None}), ('png', None)):
      file = io.BytesIO()
      picture.savefig(file, format=ending, dpi=150, metadata=metadata)
      files[ending] = file.getvalue()
      picture.set_layout_engine('none')  # It is laid out; that takes long.
    plt.close(picture)
  return files


def _say_not_run(axes: Any) -> None:
  axes.text(
    0.5,
    0.5,
    'not run',
    transform=axes.transAxes,
    ha='center',
    va='center',
    color=summary.GREY,
  )
  # Panels that share their axes would all lose the ticks.
  if len(axes.get_shared_x_axes().get_siblings(axes)) == 1:
    axes.set(xticks=[], yticks=[])


def _draw_lines(
  axes: Any, data: pd.DataFrame, x: str, **style: Any
) -> None:
  """Draws a line and a band per method, and says so if there is none."""
  for method in names.METHODS:
    line = data[data['method'] == method]
    if line.empty:
      continue
    name, color, dashes = comparison.STYLES[method]
    sd = line['sd'].fillna(0)
    axes.plot(
      line[x], line['mean'], color=color, linestyle=dashes, label=name, **style
    )
    axes.fill_between(
      line[x],
      line['mean'] - sd,
      line['mean'] + sd,
      color=color,
      alpha=0.15,
      linewidth=0,
    )
  if data.empty:
    _say_not_run(axes)


def _legend(figure: Any, panels: np.ndarray, columns: int = 5) -> None:
  """Puts one legend below all panels."""
  labels: dict[str, Any] = {}
  for axes in panels.flat:
    for handle, label in zip(*axes.get_legend_handles_labels()):
      labels.setdefault(label, handle)
  if labels:
    figure.legend(
      list(labels.values()),
      list(labels),
      loc='outside lower center',
      ncols=min(columns, len(labels)),
    )


def _seeds_text(data: pd.DataFrame) -> str:
  if data.empty:
    return ''
  low, high = int(data['seeds'].min()), int(data['seeds'].max())
  if low == high == 1:
    return ', one seed'
  return f', {high} seeds' if low == high else f', {low} to {high} seeds'


# Curves under Home-devices: fig:stable_convergence and its relatives.


def _over_seeds(data: pd.DataFrame, by: list[str], metric: str) -> pd.DataFrame:
  groups = data.groupby(by, sort=True)[metric]
  return groups.agg(
    # Not a number, and so not drawn, where a run diverged.
    mean=lambda column: column.mean(skipna=False),
    sd='std',
    seeds='size',
  ).reset_index()


def _curves(
  curves: pd.DataFrame, preset: str, metric: str
) -> Figure:
  part = curves[
    (curves['preset'] == preset)
    & (curves['avail'] == 'home_devices')
    & curves['variant'].isin(['', design.FIRST])
  ]
  # What has only begun is shown where nothing is whole.
  whole = set(part[part['variant'] == '']['dataset'])
  part = part[(part['variant'] == '') | ~part['dataset'].isin(whole)]
  begun = set(part['dataset']) - whole
  datasets = names.PRESETS[preset]

  def draw(data: pd.DataFrame) -> Any:
    figure, panels = plt.subplots(
      1,
      len(datasets),
      figsize=(3.6 * len(datasets), 3.6),
      squeeze=False,
      layout='constrained',
    )
    for axes, dataset in zip(panels.flat, datasets):
      rows = data[data['dataset'] == dataset]
      _draw_lines(axes, rows, 'round')
      axes.set(
        title=names.DATASETS[dataset]
        + _seeds_text(rows)
        + (f', first {design.FIRST_ROUNDS} rounds' * (dataset in begun)),
        xlabel='round',
        ylabel=names.METRICS[metric],
      )
    _legend(figure, panels)
    return figure

  parts = ''.join(
    f' {names.DATASETS[dataset]}: the first {design.FIRST_ROUNDS} rounds only, '
    'tested on a part of the examples but for the last test.'
    for dataset in sorted(begun)
  )
  return Figure(
    f'curves-{metric}-{preset}',
    f'{names.METRICS[metric].capitalize()} under Home-devices, '
    f'{names.SIZES[preset]}',
    _BAND + parts,
    _over_seeds(part, ['dataset', 'method', 'round'], metric),
    draw,
  )


# The number of clients: fig:num_clients.


def _with_k(data: pd.DataFrame) -> pd.DataFrame:
  """Returns the cells of the sweep over K, with a column `k`."""
  variants = {design.variant('clients_per_round', str(k)): k for k in design.KS}
  part = data[
    (data['dataset'] == 'synthetic')
    & (data['avail'] == design.K_AVAIL)
    & data['variant'].isin(list(variants))
    & data['method'].isin(design.K_METHODS)
    & data['seed'].isin(list(design.FEW_SEEDS))
  ]
  return part.assign(k=part['variant'].map(variants))


def _draw_six(
  data: pd.DataFrame, by: str, titles: Mapping[Any, str]
) -> Any:
  """Returns curves of accuracy in up to six panels, by a column."""
  figure, panels = plt.subplots(
    2, 3, figsize=(10, 5.6), sharex=True, sharey=True, layout='constrained'
  )
  for axes, (value, title) in zip(panels.flat, titles.items()):
    rows = data[data[by] == value]
    _draw_lines(axes, rows, 'round')
    axes.set_title(f'{title}{_seeds_text(rows)}')
  for axes in panels.flat[len(titles) :]:
    axes.set_axis_off()
  for column in panels.T:
    lowest = [axes for axes in column if axes.axison][-1]
    lowest.set_xlabel('round')
    lowest.tick_params(labelbottom=True)
  for axes in panels[:, 0]:
    axes.set_ylabel('test accuracy')
  _legend(figure, panels)
  return figure


def _k_curves(curves: pd.DataFrame) -> Figure:
  titles = {k: f'K = {k}' for k in design.KS}
  return Figure(
    'k-sweep-curves',
    'Test accuracy with K clients a round, Synthetic(1,1), Home-devices',
    _BAND,
    _over_seeds(_with_k(curves), ['k', 'method', 'round'], 'accuracy'),
    lambda data: _draw_six(data, 'k', titles),
  )


def _settled_curves(curves: pd.DataFrame) -> Figure:
  titles = {(avail, v): title for avail, v, title in design.LONG_RUNS}
  keys = zip(curves['avail'], curves['variant'])
  return Figure(
    'settled-curves',
    f'Test accuracy over {design.SETTLED_ROUNDS} rounds, Synthetic(1,1)',
    f"{_BAND} F3AST's rates take about 3,000 rounds to settle.",
    _over_seeds(
      curves.assign(runs=[titles.get(key) for key in keys]).dropna(
        subset=['runs']
      ),
      ['runs', 'method', 'round'],
      'accuracy',
    ),
    lambda data: _draw_six(data, 'runs', {t: t for t in titles.values()}),
  )


def _k_summary(values: pd.DataFrame) -> Figure:
  def draw(data: pd.DataFrame) -> Any:
    figure, axes = plt.subplots(figsize=(5.6, 4), layout='constrained')
    _draw_lines(axes, data, 'k', marker='o')
    axes.set(
      xlabel='K, clients a round',
      ylabel='test accuracy, last 100 rounds',
      xscale='log',
      xticks=design.KS,
      xticklabels=design.KS,
      title=f'Synthetic(1,1), Home-devices{_seeds_text(data)}',
    )
    axes.minorticks_off()
    _legend(figure, np.array([axes]))
    return figure

  return Figure(
    'k-sweep',
    'Test accuracy over the number of clients a round',
    'Means over seeds of the last 100 rounds; bands are one standard '
    'deviation, most of which is how the data of seeds differ.',
    _over_seeds(_with_k(values), ['k', 'method'], 'accuracy'),
    draw,
  )


# Heterogeneity: tab:heterogeneity as a picture.


def _heterogeneity(values: pd.DataFrame, paper: pd.DataFrame) -> Figure:
  printed = paper[paper['table'] == 'heterogeneity'].set_index(
    ['method', 'alpha']
  )['value']
  rows = []
  for method in design.ALPHA_METHODS:
    for alpha in design.ALPHAS:
      variant = design.variant('alpha', alpha)
      key = design.synthetic(method, design.ALPHA_AVAIL, variant)
      found = frames.by_seed(values, key, 'accuracy')
      rows.append({
        'method': method,
        'alpha': alpha,
        'mean': found.mean(skipna=False),
        'sd': found.std(),
        'seeds': len(found),
        'paper': printed[(method, alpha)],
      })

  def draw(data: pd.DataFrame) -> Any:
    figure, axes = plt.subplots(figsize=(5.6, 4), layout='constrained')
    for shift, method in zip((-0.02, 0.02), design.ALPHA_METHODS):
      line = data[data['method'] == method]
      name, color, dashes = comparison.STYLES[method]
      axes.errorbar(
        line['alpha'] + shift,
        line['mean'],
        line['sd'].fillna(0),
        color=color,
        linestyle=dashes,
        marker='o',
        capsize=3,
        label=f'{name}, ours',
      )
      axes.plot(
        line['alpha'] + shift,
        line['paper'],
        color=color,
        linestyle='none',
        marker='s',
        markersize=8,
        markerfacecolor='none',
        label=f'{name}, paper',
      )
    ran = data[data['seeds'] > 0]
    axes.set(
      xlabel='alpha of Synthetic(alpha, alpha): how much clients differ',
      ylabel='test accuracy',
      xticks=design.ALPHAS,
      title=f'Smartphones{_seeds_text(ran) or ", ours not run"}',
    )
    _legend(figure, np.array([axes]), columns=2)
    return figure

  return Figure(
    'heterogeneity',
    'Test accuracy over heterogeneity under Smartphones',
    'Bars are one standard deviation over seeds.',
    pd.DataFrame(rows),
    draw,
  )


# Relative gains: fig:table.


def _gain_rows(
  values: pd.DataFrame, paper: Mapping[Any, float], preset: str
) -> list[dict[str, Any]]:
  rows = []
  for metric in ('accuracy', 'loss'):
    for dataset in names.PRESETS[preset]:
      for ours, other in names.PAIRS:
        for avail in names.AVAILS:
          a, b = (
            frames.by_seed(
              values, results.Key(preset, dataset, avail, method), metric
            )
            for method in (ours, other)
          )
          both = a.index.intersection(b.index)
          gain = tables.measured(a, baseline=b).gain
          printed = [
            paper.get((metric, dataset, method, avail), math.nan)
            for method in (ours, other)
          ]
          rows.append({
            'metric': metric,
            'dataset': dataset,
            'method': ours,
            'baseline': other,
            'avail': avail,
            'gain': math.nan if gain is None else gain,
            'sd': (a[both] / b[both] - 1).std(),
            'seeds': len(both),
            'paper': printed[0] / printed[1] - 1,
          })
  return rows


def _draw_gains(axes: Any, data: pd.DataFrame) -> None:
  place = {avail: -i for i, avail in enumerate(names.AVAILS)}
  axes.axvline(0, color=summary.GREY, linewidth=0.8)
  for shift, (ours, other) in zip((0.14, -0.14), names.PAIRS):
    rows = data[data['method'] == ours]
    y = rows['avail'].map(place) + shift
    name = f'{names.METHODS[ours]} over {names.METHODS[other]}'
    color = comparison.STYLES[ours][1]
    marker = 'o' if ours == 'f3ast' else 'D'
    axes.errorbar(
      100 * rows['gain'],
      y,
      xerr=100 * rows['sd'].fillna(0),
      fmt=marker,
      color=color,
      capsize=2,
      label=f'{name}, ours',
    )
    axes.plot(
      100 * rows['paper'],
      y,
      marker,
      color=color,
      markerfacecolor='none',
      markersize=8,
      label=f'{name}, paper',
    )
  axes.set_yticks(list(place.values()), list(names.AVAILS.values()))
  if not (data['seeds'] > 0).any() and data['paper'].isna().all():
    _say_not_run(axes)


def _gains(values: pd.DataFrame, paper: pd.DataFrame, preset: str) -> Figure:
  printed = design.printed(paper)
  datasets = names.PRESETS[preset]

  def draw(data: pd.DataFrame) -> Any:
    figure, panels = plt.subplots(
      2,
      len(datasets),
      figsize=(1.2 + 3.2 * len(datasets), 6.6),
      sharey=True,
      squeeze=False,
      layout='constrained',
    )
    for row, metric in zip(panels, ('accuracy', 'loss')):
      better = 'right' if names.is_higher_better(metric) else 'left'
      for axes, dataset in zip(row, datasets):
        part = data[(data['metric'] == metric) & (data['dataset'] == dataset)]
        _draw_gains(axes, part)
        seeds = _seeds_text(part[part['seeds'] > 0]) or ', ours not run'
        axes.set(
          title=names.DATASETS[dataset] + seeds,
          xlabel=f'{names.METRICS[metric]}: gain in %, better to the {better}',
        )
    _legend(figure, panels, columns=2)
    return figure

  return Figure(
    f'relative-gain-{preset}',
    f'Relative gain by availability model and dataset, {names.SIZES[preset]}',
    'Filled: ours, with one standard deviation over seeds; hollow: the paper.',
    pd.DataFrame(_gain_rows(values, printed, preset)),
    draw,
  )


def figures(
  values: pd.DataFrame, curves: pd.DataFrame, paper: pd.DataFrame
) -> list[Figure]:
  """Returns the figures.

  Args:
    values: From `frames.values`.
    curves: From `frames.curves`.
    paper: The paper's numbers, as `experiments.paper.paper_numbers` has them.

  Returns:
    The figures; where there is nothing they say 'not run'.
  """
  return [
    *(
      _curves(curves, preset, metric)
      for preset in names.PRESETS
      for metric in ('accuracy', 'loss')
    ),
    *(_gains(values, paper, preset) for preset in names.PRESETS),
    _k_summary(values),
    _k_curves(curves),
    _settled_curves(curves),
    _heterogeneity(values, paper),
  ]

"""The paper's figures from our results.

Each figure is drawn from a small table of numbers alone, which is written
next to it as CSV: the numbers can be checked where the picture cannot.
"""

from collections.abc import Callable, Mapping
import itertools
import math
from typing import Any

import pandas as pd

from experiments.grid import metrics as metrics_lib
from experiments.grid import plots
from experiments.paper import design
from experiments.paper import drawing
from experiments.paper import frames
from experiments.paper import paper_numbers
from experiments.paper import tables
from f3ast_tff.runs import summary

_BAND = 'Lines are means over seeds, bands one standard deviation.'
# In the figure of gains: where a pair is, its color and marker.
_GAINS = (
  (design.PAIRS[0], 0.27, summary.BLUE, 'o'),
  (design.PAIRS_WITH_REPLACEMENT[0], 0.09, '#56b4e9', 's'),
  (design.PAIRS[1], -0.09, summary.GREEN, 'D'),
  (design.PAIRS_WITH_REPLACEMENT[1], -0.27, '#999933', '^'),
)


def _curves(curves: pd.DataFrame, preset: str, metric: str) -> drawing.Figure:
  """Returns fig:stable_convergence or a relative: curves by dataset."""
  part = curves[
    (curves['preset'] == preset)
    & (curves['avail'] == 'home_devices')
    & curves['variant'].isin(['', design.FIRST])
    & curves['method'].isin(list(design.METHODS))
  ]
  # What has only begun is shown where nothing is whole.
  whole = set(part[part['variant'] == '']['dataset'])
  part = part[(part['variant'] == '') | ~part['dataset'].isin(whole)]
  begun = set(part['dataset']) - whole
  titles = {
    dataset: design.DATASETS[dataset]
    + '{}'
    + f', first {design.FIRST_ROUNDS} rounds' * (dataset in begun)
    for dataset in design.PRESETS[preset]
  }
  parts = ''.join(
    f' {design.DATASETS[dataset]}: the first {design.FIRST_ROUNDS} rounds '
    'only, tested on a part of the examples but for the last test.'
    for dataset in sorted(begun)
  )
  return drawing.Figure(
    f'curves-{metric}-{preset}',
    f'{metrics_lib.METRICS[metric].capitalize()} under Home-devices, '
    f'{design.SIZES[preset]}',
    _BAND + parts,
    plots.over_seeds(part, ['dataset', 'method', 'round'], metric),
    lambda data: drawing.curves(
      data,
      'dataset',
      titles,
      (3.6 * len(titles), 4.2),
      ylabel=metrics_lib.METRICS[metric],
    ),
    f'{metric}-{preset}',
  )


def _six(by: str, titles: Mapping[Any, str]) -> Callable[[pd.DataFrame], Any]:
  """Returns how curves of accuracy are drawn in six panels, by a column."""
  titles = {value: title + '{}' for value, title in titles.items()}
  return lambda data: drawing.curves(
    data, by, titles, (10, 5.6), rows=2, ylabel='test accuracy'
  )


def _settled_curves(curves: pd.DataFrame) -> drawing.Figure:
  titles = {(avail, v): title for avail, v, title in design.LONG_RUNS}
  keys = zip(curves['avail'], curves['variant'])
  part = curves.assign(runs=[titles.get(key) for key in keys])
  return drawing.Figure(
    'settled-curves',
    f'Test accuracy over {design.SETTLED_ROUNDS} rounds, Synthetic(1,1)',
    f"{_BAND} F3AST's rates take about 3,000 rounds to settle.",
    plots.over_seeds(
      part.dropna(subset=['runs']), ['runs', 'method', 'round'], 'accuracy'
    ),
    _six('runs', {title: title for title in titles.values()}),
    'settled',
  )


def _k_sweep(
  values: pd.DataFrame, curves: pd.DataFrame
) -> list[drawing.Figure]:
  """Returns fig:num_clients: over K, and over rounds."""
  variants = {design.variant('clients_per_round', str(k)): k for k in design.KS}

  def over_seeds(data: pd.DataFrame, *by: str) -> pd.DataFrame:
    part = data[
      (data['dataset'] == 'synthetic')
      & (data['avail'] == design.K_AVAIL)
      & data['variant'].isin(list(variants))
      & data['method'].isin(design.K_METHODS)
    ]
    part = part.assign(k=part['variant'].map(variants))
    return plots.over_seeds(part, ['k', 'method', *by], 'accuracy')

  return [
    drawing.Figure(
      'k-sweep',
      'Test accuracy over the number of clients a round',
      'Means over seeds of the last 100 rounds; bands are one standard '
      'deviation, most of which is how the data of seeds differ.',
      over_seeds(values),
      lambda data: drawing.curves(
        data,
        '',
        {'': 'Synthetic(1,1), Home-devices{}'},
        (5.6, 4),
        x='k',
        marker='o',
        xlabel='K, clients a round',
        ylabel='test accuracy, last 100 rounds',
        xscale='log',
        xticks=design.KS,
        xticklabels=design.KS,
      ),
      'k-sweep',
    ),
    drawing.Figure(
      'k-sweep-curves',
      'Test accuracy with K clients a round, Synthetic(1,1), Home-devices',
      _BAND,
      over_seeds(curves, 'round'),
      _six('k', {k: f'K = {k}' for k in design.KS}),
      'k-sweep',
    ),
  ]


def _heterogeneity(values: pd.DataFrame, paper: pd.DataFrame) -> drawing.Figure:
  """Returns tab:heterogeneity as a picture."""
  printed = paper_numbers.of_heterogeneity(paper)
  rows = []
  for method, alpha in itertools.product(design.ALPHA_METHODS, design.ALPHAS):
    variant = design.variant('alpha', alpha)
    key = design.synthetic(method, design.ALPHA_AVAIL, variant)
    found = frames.by_seed(values, key, 'accuracy')
    rows.append({
      'method': method,
      'alpha': alpha,
      'mean': found.mean(skipna=False),
      'sd': found.std(),
      'seeds': len(found),
      'paper': printed.get((method, alpha), math.nan),
    })

  def draw(data: pd.DataFrame) -> Any:
    figure, all_axes = plots.panels(1, 1, (5.6, 4))
    axes = all_axes[0, 0]
    for shift, method in zip((-0.02, 0, 0.02), design.ALPHA_METHODS):
      line = data[data['method'] == method]
      name, color, dashes = drawing.STYLES[method]
      x = line['alpha'] + shift
      drawing.next_to_paper(
        axes,
        (x, line['mean']),
        (x, line['paper']),
        name,
        {'color': color, 'linestyle': dashes, 'marker': 'o'},
        's',
        yerr=line['sd'].fillna(0),
        capsize=3,
      )
    ran = data[data['seeds'] > 0]
    axes.set(
      xlabel='alpha of Synthetic(alpha, alpha): how much clients differ',
      ylabel='test accuracy',
      xticks=design.ALPHAS,
      title=f'Smartphones{drawing.seeds_text(ran) or ", ours not run"}',
    )
    plots.legend(figure, all_axes, columns=2)
    return figure

  return drawing.Figure(
    'heterogeneity',
    'Test accuracy over heterogeneity under Smartphones',
    'Bars are one standard deviation over seeds.',
    pd.DataFrame(rows),
    draw,
    'heterogeneity',
  )


def _gain_row(
  values: pd.DataFrame,
  paper: Mapping[Any, float],
  metric: str,
  place: tuple[str, str, str],
  pair: tuple[str, str],
) -> dict[str, Any]:
  preset, dataset, avail = place
  a, b = (
    frames.by_seed(values, design.Key(*place, method), metric)
    for method in pair
  )
  # What has only begun is shown where nothing is whole.
  begun = [
    frames.by_seed(values, design.Key(*place, method, design.FIRST), metric)
    for method in pair
  ]
  is_whole = a.index.intersection(b.index).size
  is_first = not is_whole and all(found.size for found in begun)
  if is_first:
    a, b = begun
  both = a.index.intersection(b.index)
  gain = tables.measured(a, baseline=b).gain
  ours, other = (
    paper.get((metric, dataset, method, avail), math.nan) for method in pair
  )
  return {
    'metric': metric,
    'dataset': dataset,
    'method': pair[0],
    'baseline': pair[1],
    'avail': avail,
    'gain': math.nan if gain is None else gain,
    'sd': (a[both] / b[both] - 1).std(),
    'seeds': len(both),
    'first_rounds_only': is_first,
    'paper': ours / other - 1,
  }


def _draw_gains(axes: Any, data: pd.DataFrame) -> None:
  place = {avail: -i for i, avail in enumerate(design.AVAILS)}
  axes.axvline(0, color=summary.GREY, linewidth=0.8)
  for (ours, other), shift, color, marker in _GAINS:
    rows = data[(data['method'] == ours) & (data['baseline'] == other)]
    y = rows['avail'].map(place) + shift
    drawing.next_to_paper(
      axes,
      (100 * rows['gain'], y),
      (100 * rows['paper'], y),
      f'{design.TITLES[ours]} over {design.TITLES[other]}',
      {'color': color, 'fmt': marker},
      marker,
      xerr=100 * rows['sd'].fillna(0),
      capsize=2,
    )
  axes.set_yticks(list(place.values()), list(design.AVAILS.values()))
  if not (data['seeds'] > 0).any() and data['paper'].isna().all():
    plots.say_not_run(axes)


def _gains(
  values: pd.DataFrame, paper: pd.DataFrame, preset: str
) -> drawing.Figure:
  """Returns fig:table: relative gains."""
  printed = paper_numbers.of_grid(paper)
  datasets, metrics = design.PRESETS[preset], ('accuracy', 'loss')

  def draw(data: pd.DataFrame) -> Any:
    size = 1.2 + 3.2 * len(datasets), 8.4
    figure, all_axes = plots.panels(2, len(datasets), size, sharey=True)
    for axes, (metric, dataset) in zip(
      all_axes.flat, itertools.product(metrics, datasets)
    ):
      better = 'right' if design.is_higher_better(metric) else 'left'
      part = data[(data['metric'] == metric) & (data['dataset'] == dataset)]
      _draw_gains(axes, part)
      ran = part[part['seeds'] > 0]
      seeds = drawing.seeds_text(ran) or ', ours not run'
      if ran['first_rounds_only'].any():
        seeds = f', ours: {design.FIRST_ROUNDS} rounds{seeds}'
      axes.set(
        title=design.DATASETS[dataset] + seeds,
        xlabel=f'{metrics_lib.METRICS[metric]}: gain in %, better to the '
        f'{better}',
      )
    plots.legend(figure, all_axes, columns=2)
    return figure

  rows = [
    _gain_row(values, printed, metric, (preset, dataset, avail), pair)
    for metric, dataset, pair, avail in itertools.product(
      metrics,
      datasets,
      [pair for pair, *_ in _GAINS],
      design.AVAILS,
    )
  ]
  return drawing.Figure(
    f'relative-gain-{preset}',
    f'Relative gain by availability model and dataset, {design.SIZES[preset]}',
    'Filled: ours, with one standard deviation over seeds; hollow: the paper.',
    pd.DataFrame(rows),
    draw,
    # The one with Synthetic belongs to the conclusion.
    'verdicts-synthetic' if 'synthetic' in datasets else f'verdicts-{preset}',
  )


def figures(
  values: pd.DataFrame, curves: pd.DataFrame, paper: pd.DataFrame
) -> list[drawing.Figure]:
  """Returns the figures; where there is nothing they say 'not run'."""
  return [
    *(
      _curves(curves, preset, metric)
      for preset in design.PRESETS
      for metric in ('accuracy', 'loss')
    ),
    *(_gains(values, paper, preset) for preset in design.PRESETS),
    *_k_sweep(values, curves),
    _settled_curves(curves),
    _heterogeneity(values, paper),
  ]

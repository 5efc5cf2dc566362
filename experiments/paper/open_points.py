"""Where the paper is silent or contradicts itself, and what we found."""

import collections
from collections.abc import Callable, Mapping, Sequence
import itertools
from typing import NamedTuple

import pandas as pd

from experiments.paper import design
from experiments.paper import frames
from f3ast_tff import wording


class Point(NamedTuple):
  """A point that the paper leaves open.

  Attributes:
    title: In a few words.
    paper: What the paper says, or does not.
    here: What this project does.
    found: What our results say on it.
  """

  title: str
  paper: str
  here: str
  found: str


# In the test sequences of Shakespeare; the others are padding.
_CHARACTERS_A_POSITION = 338_974 / (5_490 * 80)
# Returns what our results say, '' if nothing has been run.
_Finding = Callable[[pd.DataFrame], str]


def _lines(before: str, texts: Mapping[str, Sequence[str]]) -> str:
  """Returns 'where: text, text.' for all with a text, '' if none has one."""
  lines = [f'{where}: {", ".join(of)}.' for where, of in texts.items() if of]
  return ' '.join([before, *lines]) if lines else ''


def _first_rates(values: pd.DataFrame) -> str:
  texts = collections.defaultdict(list)
  for avail, (rate_init, name) in itertools.product(
    design.CONTROL_AVAILS, design.RATE_INITS.items()
  ):
    variant = design.variant('rate_init', rate_init)
    accuracy, weights = (
      frames.by_seed(values, design.synthetic('f3ast', avail, variant), metric)
      for metric in ('accuracy', 'mean_sum_of_weights')
    )
    if not accuracy.empty:
      texts[design.AVAILS[avail]].append(
        f'{accuracy.mean(skipna=False):.3f} from {name} (mean sum of weights '
        f'{weights.mean(skipna=False):.2f})'
      )
  for variant, name in (('', 'the tie point'), (design.KP, 'Kp, as at first')):
    accuracy = frames.by_seed(
      values, design.synthetic('f3ast', 'smartphones', variant), 'accuracy'
    )
    if not accuracy.empty:
      texts[design.AVAILS['smartphones']].append(
        f'{accuracy.mean(skipna=False):.3f} from {name}'
      )
  return _lines('Test accuracy of F3AST on Synthetic(1,1).', texts)


def _too_few(values: pd.DataFrame) -> str:
  texts = {}
  part = values[values['variant'] == '']
  for (preset, dataset), group in part.groupby(['preset', 'dataset']):
    sums = group.groupby('avail')[
      ['rounds_with_fewer_than_k', 'empty_rounds', 'rounds']
    ].sum()
    texts[f'{design.DATASETS[dataset]} ({preset})'] = [
      f'{design.AVAILS[avail]} {short / rounds:.1%} of rounds ({empty} empty)'
      for avail, (short, empty, rounds) in sums.reindex(
        [avail for avail in design.AVAILS if avail in sums.index]
      ).iterrows()
      if short
    ] or ['in no round']
  return _lines('Fewer than K took part:', texts)


def _uneven(values: pd.DataFrame) -> str:
  differences = pd.concat([
    frames.difference(
      values,
      design.Key(preset, 'cifar100', 'uneven', method),
      design.Key(preset, 'cifar100', 'always', method),
      'accuracy',
    )
    for preset in design.PRESETS
    for method in design.METHODS
  ]).abs()
  if differences.empty:
    return ''
  return (
    f'In {wording.count(len(differences), "pair")} of our runs the accuracies '
    'of the two differ '
    f'by at most {differences.max(skipna=False):.4f}.'
  )


def _form_of_h(values: pd.DataFrame) -> str:
  variant = design.variant('protocol', 'uncorrelated_h')
  texts = []
  for method in ('f3ast', 'f3ast_adam'):
    other, ours = (
      design.synthetic(method, design.PROTOCOL_AVAIL, v) for v in (variant, '')
    )
    change = frames.difference(values, other, ours, 'accuracy')
    if not change.empty:
      texts.append(
        f'{design.TITLES[method]} {change.mean(skipna=False):+.3f} '
        f'({wording.count(len(change), "seed")})'
      )
  where = (
    'Change of the accuracy on Synthetic(1,1) under Smartphones with sum p²/r'
  )
  return _lines('', {where: texts}).strip()


def _last_value(values: pd.DataFrame) -> str:
  main = values[(values['variant'] == '') & (values['dataset'] == 'synthetic')]
  if main.empty:
    return ''
  gap = (main['final_accuracy'] - main['accuracy']).abs()
  return (
    f'In {wording.count(len(main), "run")} on Synthetic(1,1) the last test '
    'differs from the '
    f'mean over the last 100 rounds by {gap.mean():.3f} on average and by '
    f'{gap.max():.3f} at most.'
  )


def _losses_by_position(values: pd.DataFrame) -> str:
  texts = collections.defaultdict(list)
  for avail, method in itertools.product(design.AVAILS, design.METHODS):
    key = design.Key('paper', 'shakespeare', avail, method)
    loss = frames.by_seed(values, key, 'loss')
    if not loss.empty:
      by_position = _CHARACTERS_A_POSITION * loss.mean(skipna=False)
      texts[design.AVAILS[avail]].append(
        f'{design.TITLES[method]} {by_position:.2f}'
      )
  before = (
    f'Of the positions in the test text {_CHARACTERS_A_POSITION:.3f} are '
    "characters. Times that, our test losses with the paper's model are:"
  )
  return _lines(before, texts)


def _change(
  values: pd.DataFrame, pairs: Mapping[str, tuple[tuple[str, str], ...]]
) -> str:
  """Returns how much one cell is above another, by availability model."""
  texts = collections.defaultdict(list)
  for avail, (title, of) in itertools.product(design.AVAILS, pairs.items()):
    ours, other = (
      design.synthetic(method, avail, variant) for method, variant in of
    )
    change = frames.difference(values, ours, other, 'accuracy')
    if not change.empty:
      texts[design.AVAILS[avail]].append(
        f'{title} {change.mean(skipna=False):+.3f}'
      )
  return _lines('Change of the test accuracy on Synthetic(1,1).', texts)


def _draws(values: pd.DataFrame) -> str:
  return _change(
    values,
    {
      f'{design.TITLES[method]} with replacement': (
        (f'{method}_with_replacement', ''), (method, '')
      )
      for method in ('fedavg', 'fedadam')
    },
  )


def _local_steps(values: pd.DataFrame) -> str:
  variant = design.variant('local_steps', design.LOCAL_STEPS)
  return _change(
    values,
    {
      design.TITLES[method]: ((method, variant), (method, ''))
      for method in design.LOCAL_STEPS_METHODS
    },
  )


def _fixed(text: str) -> _Finding:
  return lambda values: text


_POINTS: tuple[tuple[str, str, str, _Finding], ...] = (
  (
    'The first rates r(0)',
    'Any r(0) will do.',
    'The point where no client has a head start, with ties broken at random: '
    'Kp, at most 1, or K sqrt(p) / sum sqrt(p) where H is sum p/r, as under '
    'Smartphones, which was run from Kp at first. From r(0) = p the weights '
    'p/r sum to about K at first and to 1 in the long run: a hidden learning '
    'rate that decays. So the sum stands next to every accuracy, and baselines '
    'were also run with their server rate at that sum, its mean or round by '
    'round.',
    _first_rates,
  ),
  (
    'Fewer than K clients available, or none',
    'Nothing is said.',
    'All who are available take part; if nobody is, the model stays and the '
    'rates decay.',
    _too_few,
  ),
  (
    'How FedAvg and FedAdam draw clients',
    'In proportion to p; whether with replacement is not said. The released '
    'code draws with replacement.',
    'Both ways, with equal weights; with replacement that is scheme I of Li et '
    'al. Every claim about them has a verdict next to each.',
    _draws,
  ),
  (
    'What E is',
    'E local steps in Algorithm 1, E epochs in the appendix; of the '
    'experiments nothing is said. Epochs give clients with more data more '
    'steps.',
    f'One epoch, and on Synthetic {design.LOCAL_STEPS} steps, too.',
    _local_steps,
  ),
  (
    'What Synthetic is',
    'Ten thousand samples in 100 dimensions with rounded linear labels; or '
    'Synthetic(1,1); or 60 thousand samples of 100 users.',
    "Synthetic(a, a) of Li et al. as in the authors' released code: 60 "
    'features, 10 classes, 100 users, drawn anew by each seed.',
    _fixed(
      "The accuracies of the paper's Synthetic cannot be expected digit by "
      'digit: its draw of the data is not known. And of the two a the first '
      'changes nothing: it moves the logits of all classes alike, so that the '
      'labels stay. What the heterogeneity table varies is how much the '
      "clients' inputs differ; their models differ as much for a = 0."
    ),
  ),
  (
    "The Shakespeare model's size and data",
    'Its layers add up to 820,522 parameters; the total in the table is '
    '4,050,748, and the text says one million. Sentences of 20 words in the '
    'text and 80 characters in the table; 725 clients in the text, 715 in the '
    'table.',
    '820,522 parameters, 80 characters, 715 clients.',
    _fixed("Data and model as TFF ships them agree with the table's rows."),
  ),
  (
    'Over what a loss on Shakespeare is a mean',
    'Nothing is said. With an accuracy of .568 it prints a loss of 1.10, where '
    'a mean over characters gives 1.42.',
    'A mean over characters. The paper\'s numbers agree with a mean over all '
    'positions, where padding counts as a loss of 0.',
    _losses_by_position,
  ),
  (
    'Uneven on CIFAR-100',
    'Uneven makes clients available in proportion to 1/p, and all CIFAR-100 '
    'clients hold 100 images; yet the columns Uneven and Always differ.',
    'By the definition all are always available. No other model was made up to '
    'match the numbers.',
    _uneven,
  ),
  (
    'At most 128 sentences a client in Shakespeare',
    'Stated in the paper, not to be seen in the released code.',
    'As in the paper.',
    _fixed('It concerns 966 of the 16,068 snippets.'),
  ),
  (
    'H when availability is positively correlated',
    'H is sum p/r then, which Smartphones with its common sine is a case of; '
    'the released code uses sum p²/r always.',
    'As in the paper; --correlation or --protocol=uncorrelated_h change it.',
    _form_of_h,
  ),
  (
    'What a number in a table is',
    'The final value of one run.',
    'Mean and standard deviation over seeds, with the number of seeds: on '
    'Synthetic of the mean over the last 100 rounds, on real data, where '
    'curves still rise, of the last test.',
    _last_value,
  ),
)


def points(values: pd.DataFrame) -> list[Point]:
  """Returns the open points, with what the results say on them."""
  return [
    Point(title, paper, here, find(values) or 'Not run yet.')
    for title, paper, here, find in _POINTS
  ]

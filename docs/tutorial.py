"""Tutorial: handwriting from phones that are seldom online.

After this page you can train a model of your own with F3AST, on clients whose
availability you describe yourself, and compare it with FedAvg.

Forty people write digits on their phones. Half of the phones are online for 16
hours a day, the other half for 2, and the two halves write differently. We
train one model for all of them. With F3AST it reads both halves almost equally
well; with FedAvg it reads the second half much worse.

You need to know a little Python and what federated averaging is. The page and
[the same as a notebook](tutorial.ipynb) are made from
[tutorial.py](tutorial.py), which runs as it stands, downloads nothing, and
takes about 20 seconds of processor time:

    export TF_CPP_MIN_LOG_LEVEL=3     # TensorFlow is talkative.
    .venv/bin/python docs/tutorial.py --picture=tutorial.png

For the notebook, make a kernel of the environment, and choose it in Jupyter:

    .venv/bin/pip install ipykernel
    .venv/bin/ipython kernel install --user --name=f3ast_tff
"""

import argparse
import dataclasses

from matplotlib import figure
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import f3ast_tff
from f3ast_tff import randomness

parser = argparse.ArgumentParser()
parser.add_argument('--picture', default='tutorial.png')
picture = parser.parse_known_args()[0].picture  # Notebooks have other flags.

SEED = 0
NUM_ROUNDS = 120
NUM_CLIENTS, K = 40, 5  # N, and how many may take part in a round.

# ## 1. Data by client
#
# EMNIST has handwritten digits by writer, but it is a download. Here a digit is
# a line through a few points, drawn with a pen on 14 x 14 pixels. Each person
# has a slant and a pen of their own, and every digit is shaken a little.
#
# `randomness.generator(seed, purpose, round, client)` is where all random
# numbers come from: equal arguments give equal numbers, whatever else was drawn
# before.

SIZE = 14
STROKES = (
  [(5, 1), (2, 4), (2, 9), (5, 12), (8, 9), (8, 4), (5, 1)],
  [(3, 4), (5, 1), (5, 12)],
  [(2, 4), (4, 1), (8, 3), (7, 6), (2, 12), (8, 12)],
  [(2, 1), (8, 1), (5, 5), (8, 8), (6, 12), (2, 11)],
  [(6, 12), (6, 1), (2, 8), (9, 8)],
  [(8, 1), (3, 1), (3, 5), (7, 6), (8, 9), (6, 12), (2, 11)],
  [(7, 1), (3, 5), (2, 9), (5, 12), (8, 9), (5, 6), (2, 8)],
  [(2, 1), (8, 1), (4, 12)],
  [(5, 6), (3, 4), (5, 1), (7, 4), (5, 6), (2, 9), (5, 12), (8, 9), (5, 6)],
  [(8, 4), (5, 1), (2, 4), (5, 7), (8, 4), (8, 8), (6, 12)],
)


def draw_digit(digit, slant, pen, rng):
  """Returns the pixels of a digit, from 0 (paper) to 1 (ink)."""
  points = np.array(STROKES[digit]) + (1.5, 0.0)
  points[:, 0] += slant * (6.5 - points[:, 1])
  points += rng.normal(0, 0.5, points.shape) + rng.normal(0, 0.7, 2)
  pixels = np.stack(np.meshgrid(range(SIZE), range(SIZE)), -1).reshape(-1, 2)
  # The distance of every pixel from every piece of the line.
  begin, along = points[:-1, None], np.diff(points, axis=0)[:, None]
  place = ((pixels - begin) * along).sum(-1) / (along**2).sum(-1)
  nearest = begin + np.clip(place, 0, 1)[..., None] * along
  distance = np.linalg.norm(pixels - nearest, axis=-1).min(axis=0)
  ink = np.clip(pen + 0.5 - distance, 0, 1)
  return np.clip(ink + rng.normal(0, 0.1, ink.shape), 0, 1)


def write_digits(client, slant):
  """Returns what one person wrote."""
  rng = randomness.generator(SEED, 'handwriting', client=client)
  slant, pen = rng.normal(slant, 0.1), rng.uniform(0.6, 1.1)
  y = rng.integers(10, size=20 + int(rng.lognormal(3.8, 0.5)))
  x = np.stack([draw_digit(digit, slant, pen, rng) for digit in y])
  return {'x': x.astype(np.float32), 'y': y.astype(np.int32)}


# Every other person is seldom online, and leans to the left when writing.

is_seldom = np.arange(NUM_CLIENTS) % 2 == 1
people = [write_digits(k, -0.35 if is_seldom[k] else 0.35)
          for k in range(NUM_CLIENTS)]

# A quarter of what each one wrote is for testing, the rest for training.
# `ClientArrays` are clients whose examples are arrays x and y in memory. They
# know p, each client's share of the data. (`read_clients` makes them from a
# TFF `ClientData`.)

BATCH_SIZE = 10
test, train_examples = [], []
for own in people:
  n = len(own['y']) // 4
  test.append({name: field[:n] for name, field in own.items()})
  train_examples.append({name: field[n:] for name, field in own.items()})
clients = f3ast_tff.ClientArrays(train_examples, BATCH_SIZE)
p = clients.p
print(f'{clients.num_examples.sum()} digits to train on; '
      f'{p[is_seldom].sum():.0%} of them are on phones seldom online.')

# ## 2. A model
#
# A Keras network with one hidden layer of 32 units. Initializers with a seed
# give the same first weights each time. Any `tff.learning` model will do.


def keras_model():
  """Returns a network with one hidden layer."""
  def dense(units, activation, seed):
    initializer = tf.keras.initializers.HeNormal(seed=seed)
    return tf.keras.layers.Dense(
      units, activation, kernel_initializer=initializer
    )

  inputs = tf.keras.Input([SIZE * SIZE])
  hidden = dense(32, 'relu', 1)(inputs)
  return tf.keras.Model(inputs, dense(10, None, 2)(hidden))


def model_fn():
  """Returns the network as TFF wants it."""
  return tff.learning.models.from_keras_model(
    keras_model(),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=(
      tf.TensorSpec([None, SIZE * SIZE], tf.float32),
      tf.TensorSpec([None], tf.int32),
    ),
  )


# ## 3. Who is online: an availability model of our own
#
# The paper's five models are in `f3ast_tff.availability`. Another one is a
# class with four members. This one says: a day has 24 rounds, client k is
# online for `hours[k]` of them beginning at `start[k]`, and at times the
# battery is flat. That it is a pure function of the round makes runs
# repeatable, and lets them continue after a crash.


@dataclasses.dataclass(frozen=True, eq=False)
class Shifts:
  """Clients are online for some hours of each day."""

  hours: np.ndarray
  start: np.ndarray
  charged: float = 0.9
  seed: int = 0

  # No factor is common to all clients; this decides the form of H.
  positively_correlated = False

  @property
  def num_clients(self):
    return self.hours.size

  def probabilities(self, round_num):
    """Returns the chance of each client to be online."""
    is_on_shift = (round_num - self.start) % 24 < self.hours
    return np.where(is_on_shift, self.charged, 0.0)

  def __call__(self, round_num):
    """Returns the mask of those who are."""
    rng = randomness.generator(self.seed, 'availability', round_num)
    return rng.random(self.num_clients) < self.probabilities(round_num)


availability = Shifts(
  hours=np.where(is_seldom, 2, 16),
  start=randomness.generator(SEED, 'shifts').integers(24, size=NUM_CLIENTS),
  seed=SEED,
)

# ## 4. Training
#
# In each round at most K = 5 clients take part. A *selector* says who, given
# the rates r in the state of the server; its policy is what the two methods
# differ in.
#
# - FedAvg (`proportional`) draws available clients with probability p_k and
#   averages their updates.
# - F3AST (`f3ast`) keeps the rates r at which clients have taken part, selects
#   those with the largest -dH/dr_k = (p_k / r_k)^2, and weights their updates
#   by p_k / r_k. Who is seldom available is selected when available, and counts
#   for the rounds missed.
#
# The paper moves r by beta = 0.001 a round. It then takes thousands of rounds
# to learn the rates; we have few, so beta is 0.01.


def build_training(policy):
  """Returns a training with the clients that a policy selects."""
  selector = f3ast_tff.build_selector(
    p, availability, clients_per_round=K, policy=policy, beta=0.01, seed=SEED
  )
  return f3ast_tff.build_training(
    model_fn,
    clients,
    selector,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
    num_shards=2,
  )


# `training.next(state, t)` runs round t: it selects the clients, lets them
# train, sums their weighted updates, and steps the model and r, which are both
# in the state. `training.select` alone says who takes part; we call it to count
# the weights. Every tenth round the model is tested on the digits of both
# halves.


def accuracy_of(weights, members):
  """Returns the share of some people's test digits that the model gets."""
  model = keras_model()
  weights.assign_weights_to(model)
  x, y = (np.concatenate([test[k][name] for k in members]) for name in 'xy')
  return (model(x).numpy().argmax(axis=1) == y).mean()


halves = {
  'often online': np.flatnonzero(~is_seldom),
  'seldom online': np.flatnonzero(is_seldom),
}


def train(policy):
  """Returns the accuracy over rounds by half, and each client's weight."""
  training = build_training(policy)
  state = training.initialize()
  accuracy = {half: [] for half in halves}
  counted = np.zeros(NUM_CLIENTS)
  for t in range(1, NUM_ROUNDS + 1):
    cohort = training.select(state, t).cohort
    counted[cohort.clients] += cohort.weights
    state, _ = training.next(state, t)
    if t % 10 == 0:
      weights = training.process.get_model_weights(state)
      for half, members in halves.items():
        accuracy[half].append(accuracy_of(weights, members))
  return accuracy, counted


# By default TFF computes in a second process. `set_in_process` makes it compute
# in this one; two threads train two shards of the cohort at a time.

POLICIES = {'FedAvg': 'proportional', 'F3AST': 'f3ast'}
f3ast_tff.set_in_process(num_threads=2)
results = {method: train(policy) for method, policy in POLICIES.items()}

print('method  often online  seldom online  weight of the seldom')
for method, (accuracy, counted) in results.items():
  often, seldom = (values[-1] for values in accuracy.values())
  share = counted[is_seldom].sum() / counted.sum()
  print(f'{method:6}  {often:12.3f}  {seldom:13.3f}  {share:20.3f}')

# It printed
#
#     2129 digits to train on; 47% of them are on phones seldom online.
#     method  often online  seldom online  weight of the seldom
#     FedAvg         0.943          0.768                 0.107
#     F3AST          0.932          0.896                 0.347
#
# The last column is how much of all weight went to the phones seldom online,
# which hold 47 % of the data. In FedAvg it was a tenth, and the model reads
# their digits worse. In F3AST it was a third, on its way to 47 %: r(0) = K p
# takes everybody to come as often as they should, and the rates need time to
# learn that it is not so. The others lose a hundredth.
#
# This is one seed, and a setting made so that the effect can be seen: the two
# halves differ in data *and* in how often they are available. On the paper's
# Synthetic(1,1) F3AST is above FedAvg under Uneven only within 500 rounds, see
# [what reproduces](reproduction.md).
#
# ## 5. The picture

BLUE, ORANGE = '#0072B2', '#D55E00'  # Okabe and Ito: safe for all eyes.


def strip(clients):
  """Returns the digits 0 to 9, each by the first who wrote it."""
  return np.concatenate([
    next(x for k in clients for x, y in zip(*people[k].values()) if y == digit)
    .reshape(SIZE, SIZE)
    for digit in range(10)
  ], axis=1)


page = figure.Figure(figsize=(9, 6.4), dpi=150, layout='constrained')
panels = page.subplot_mosaic(
  [['digits', 'online'], ['accuracy', 'share']],
  width_ratios=(3, 2),
  height_ratios=(5, 6),
)

axes = panels['digits']
often, seldom = np.flatnonzero(~is_seldom), np.flatnonzero(is_seldom)
strips = [strip(half[n:]) for half in (often, seldom) for n in (0, 5)]
strips.insert(2, np.zeros((SIZE // 2, 10 * SIZE)))
axes.imshow(np.concatenate(strips), cmap='Greys')
axes.set(title='What they write', xticks=[])
axes.set_yticks([SIZE, 3.5 * SIZE], ['often\nonline', 'seldom\nonline'])
axes.tick_params(length=0)

axes = panels['online']
order = np.lexsort((availability.start, is_seldom))
hours = np.array([availability(t)[order] for t in range(1, 49)]).T
axes.imshow(hours, cmap='Greys', aspect='auto', vmax=1.6, extent=(1, 49, 40, 0))
axes.set(title='Who is online', xlabel='round', xticks=(1, 25, 49))
axes.set_yticks([10, 30], ['often', 'seldom'])
axes.axhline(20, color='white', linewidth=2)

axes = panels['accuracy']
for method, color in (('FedAvg', ORANGE), ('F3AST', BLUE)):
  for (half, values), line in zip(results[method][0].items(), ('-', '--')):
    axes.plot(
      10 * np.arange(1, len(values) + 1),
      values,
      line,
      color=color,
      marker='o' if method == 'F3AST' else 's',
      markersize=4,
      label=f'{method}, {half}',
    )
axes.set(title='How well they are read', xlabel='round', ylabel='test accuracy')
axes.legend(frameon=False)

axes = panels['share']
for place, (method, color) in enumerate((('FedAvg', ORANGE), ('F3AST', BLUE))):
  counted = results[method][1]
  share = counted[is_seldom].sum() / counted.sum()
  axes.bar(place, share, width=0.6, color=color)
  axes.text(place, share + 0.01, f'{share:.2f}', ha='center')
axes.axhline(p[is_seldom].sum(), color='black', linestyle=':')
axes.text(-0.3, p[is_seldom].sum() + 0.012, 'their share of the data')
axes.set(title='How much the seldom count', ylim=(0, 0.62), xlim=(-0.5, 1.5))
axes.set_xticks([0, 1], ['FedAvg', 'F3AST'])
axes.set_ylabel('share of all weights')

for name, axes in panels.items():
  axes.spines[['top', 'right']].set_visible(False)
  axes.spines[['bottom', 'left']].set_visible(name != 'digits')
page.savefig(picture)
print(f'The picture is in {picture}.')

# ![Digits, who is online, accuracy, weights](tutorial.png)
#
# ## Where to go from here
#
# - [Extending](extending.md): the same availability model under a name, so that
#   every experiment can be run with it; selection policies; data sets.
# - [The design](design.md) has a drawing of how a round flows.
# - [From the paper to the code](paper-to-code.md).

"""FedJAX's federated averaging as a contender.

It runs in an environment of its own, with the packages of
benchmarks/fedjax_requirements.txt, and imports nothing of f3ast_tff. The models
have the layers of ours: softmax regression, FedJAX's own LSTM for Shakespeare,
and TFF's ResNet-18 with group normalisation. Clients' data stay in its memory,
augmented beforehand, which is less work than the others have.
"""

import sys

import fedjax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import timed_process

_LEARNING_RATE = 0.01
_GROUPS = 32
_STAGES = (64, 128, 256, 512)


def _cross_entropy(logits, labels):
  scores = jax.nn.log_softmax(logits)
  return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


def _softmax_model():
  """Returns the first weights and the gradients of softmax regression."""
  params = (jnp.zeros((60, 10)), jnp.zeros(10))

  def loss(params, batch, rng):
    del rng
    kernel, bias = params
    return _cross_entropy(batch['x'] @ kernel + bias, batch['y'])

  return params, jax.grad(loss)


def _lstm_model():
  """Returns the first weights and the gradients of FedJAX's own LSTM."""
  model = fedjax.models.shakespeare.create_lstm_model()
  params = model.init(jax.random.PRNGKey(0))
  return params, fedjax.model_grad(model)


def _logits(take, images):
  """The forward pass of ResNet-18; `take` gives a weight of a shape."""

  def convolve(x, filters, width, stride=1):
    kernel = take((width, width, x.shape[-1], filters))
    return jax.lax.conv_general_dilated(
      x,
      kernel,
      (stride, stride),
      'SAME',
      dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
    )

  def normalize(x):
    channels = x.shape[-1]
    grouped = x.reshape(*x.shape[:3], _GROUPS, channels // _GROUPS)
    mean = grouped.mean((1, 2, 4), keepdims=True)
    variance = grouped.var((1, 2, 4), keepdims=True)
    normal = (grouped - mean) * jax.lax.rsqrt(variance + 1e-3)
    return normal.reshape(x.shape) * take((channels,)) + take((channels,))

  x = images.astype(jnp.float32)
  x = (x - x.mean((1, 2, 3), keepdims=True)) / x.std((1, 2, 3), keepdims=True)
  x = jax.nn.relu(normalize(convolve(x, _STAGES[0], 7, 2)))
  x = jax.lax.reduce_window(
    x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), 'SAME'
  )
  is_normalized = True
  for filters in _STAGES:
    for _ in range(2):
      residual = x if is_normalized else jax.nn.relu(normalize(x))
      residual = jax.nn.relu(normalize(convolve(residual, filters, 3)))
      residual = convolve(residual, filters, 3)
      if x.shape[-1] != filters:
        x = normalize(convolve(x, filters, 3))
      x = x + residual
      is_normalized = False
  x = jax.nn.relu(normalize(x)).mean((1, 2))
  return x @ take((_STAGES[-1], 100)) + take((100,))


def _resnet_model():
  """Returns the first weights and the gradients of ResNet-18."""
  rng, params = np.random.default_rng(0), []

  def make(shape):
    # Scales start at one; whatever else is a vector gets over it.
    weight = np.ones(shape, np.float32)
    if len(shape) > 1:
      weight = rng.standard_normal(shape, np.float32)
      weight *= np.sqrt(2 / np.prod(shape[:-1]))
    params.append(weight)
    return weight

  _logits(make, jnp.asarray(rng.integers(0, 255, (2, 24, 24, 3))))

  def loss(params, batch, rng):
    del rng
    weights = iter(params)
    logits = _logits(lambda shape: next(weights), batch['x'])
    return _cross_entropy(logits, batch['y'])

  return tuple(params), jax.grad(loss)


_MODELS = {
  'synthetic': _softmax_model,
  'shakespeare': _lstm_model,
  'cifar100': _resnet_model,
}


def main() -> None:
  """Serves rounds of the work in the file that is named."""
  work = timed_process.load(sys.argv[1])
  params, gradients = _MODELS[work.task]()
  sizes = [leaf.size for leaf in jax.tree_util.tree_leaves(params)]
  print(f'{sum(sizes)} parameters', file=sys.stderr)
  algorithm = fedjax.algorithms.fed_avg.federated_averaging(
    gradients,
    fedjax.optimizers.sgd(_LEARNING_RATE),
    fedjax.optimizers.sgd(1.0),
    fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch_size, num_epochs=1),
  )
  clients = {}
  for k, examples in work.examples.items():
    examples = {name: v.astype(np.int32) if v.dtype != np.float32 else v
                for name, v in examples.items()}
    clients[k] = fedjax.ClientDataset(examples)
  state = algorithm.init(params)

  def run_round(cohort):
    nonlocal state
    keys = jax.random.split(jax.random.PRNGKey(int(cohort[0])), len(cohort))
    chosen = [(k, clients[int(k)], key) for k, key in zip(cohort, keys)]
    state, _ = algorithm.apply(state, chosen)
    jax.block_until_ready(state.params)

  timed_process.serve(run_round, work.cohorts)


if __name__ == '__main__':
  main()

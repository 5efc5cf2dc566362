"""Methods for intermittent availability as plain loops, to compare with.

Every loop takes the first model `w` (a flat vector), the shares `p`, one pair
(S_t, A_t) a round (indices of those who take part and of those available;
rounds count from 1), a function

  train(k, round_num, start, correction, proximal) -> (end, number of steps)

and the method's parameters.  It returns the models after each round, and its
state at the end.  Local steps follow grad F_k(y) + correction + proximal
(y - start).  The server's rate is 1.

Model sums are weighted by p_k / r_k(t) if first rates `r` are given, by 1 /
|S_t| if not.  State sums keep p_k: a client's own state moves only when it
takes part, so c = sum p_k c_k is exact and not estimated.  The 1/N form of a
method is p = 1/N without `r`.
"""

import numpy as np


def _log_probabilities(weights, x):
  """Of a kernel [d, C] and a bias [C], both in one flat vector."""
  num_classes = weights.size // (x.shape[1] + 1)
  kernel, bias = weights[:-num_classes], weights[-num_classes:]
  logits = x @ kernel.reshape(-1, num_classes) + bias
  logits = logits - logits.max(axis=1, keepdims=True)
  return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def softmax_loss(weights, batch):
  """The mean cross-entropy of a batch (x, y) of softmax regression."""
  x, y = batch
  return -_log_probabilities(weights, x)[np.arange(len(y)), y].mean()


def softmax_gradient(weights, batch):
  """The gradient of `softmax_loss`."""
  x, y = batch
  errors = np.exp(_log_probabilities(weights, x))
  errors[np.arange(len(y)), y] -= 1
  errors /= len(y)
  return np.concatenate([(x.T @ errors).ravel(), errors.sum(axis=0)])


def local_sgd(gradient, start, batches, rate, correction=0.0, proximal=0.0):
  """Takes a step a batch; returns the end and the number of steps."""
  weights, num_steps = np.array(start), 0
  for batch in batches:
    step = gradient(weights, batch) + correction + proximal * (weights - start)
    weights = weights - rate * step
    num_steps += 1
  return weights, num_steps


def took_part(p, clients):
  """1 for clients that take part, 0 for others."""
  return np.isin(np.arange(len(p)), list(clients)).astype(float)


def _weigh(p, r, beta, clients):
  """Returns r(t) and the weights in model sums, by client."""
  if r is None:
    return None, {k: 1 / len(clients) for k in clients}
  r = (1 - beta) * np.asarray(r) + beta * took_part(p, clients)
  return r, {k: p[k] / r[k] for k in clients}


def _updates(train, clients, round_num, w, proximal=0.0):
  """Returns v_k = trained - received, by client."""
  plain = np.zeros_like(w)
  return {k: train(k, round_num, w, plain, proximal)[0] - w for k in clients}


def _total(weights, vectors, clients):
  """The weighted sum of the vectors of some clients."""
  return sum(weights[k] * vectors[k] for k in clients)


def f3ast(
  w,
  p,
  rounds,
  train,
  r,
  beta,
  t0=None,
  corrected=False,
  cap=np.inf,
  sum_cap=np.inf,
  self_normalised=False,
  proximal=0.0,
):
  """F3AST and its variants.

  With `t0` the step of the rates is max(beta, 1 / (t + t0)).  `corrected` takes
  r(0) out of the rates in the weights.  `cap` bounds each weight; then
  `sum_cap` shrinks all of them where they sum to more.
  """
  first = r = np.asarray(r, float)
  left = 1.0  # The weight of r(0) in r(t).
  models, rates, used = [], [], []
  for t, (clients, _) in enumerate(rounds, 1):
    step = beta if t0 is None else max(beta, 1 / (t + t0))
    r, left = (1 - step) * r + step * took_part(p, clients), left * (1 - step)
    rate = (r - left * first) / (1 - left) if corrected else r
    weights = {k: min(p[k] / rate[k], cap) for k in clients}
    total = sum(weights.values())
    scale = 1 / total if self_normalised and total else 1.0
    if total * scale > sum_cap:
      scale = sum_cap / total
    weights = {k: weights[k] * scale for k in clients}
    w = w + _total(weights, _updates(train, clients, t, w, proximal), clients)
    models.append(w)
    rates.append(rate)
    used.append(weights)
  return models, {'r': r, 'rates': rates, 'weights': used}


def fedavg(w, p, rounds, train, by_share=False, proximal=0.0):
  """FedAvg: equal weights, or p_k over their sum in S_t.

  Who is drawn with replacement may be in S_t several times.
  """
  models = []
  for t, (clients, _) in enumerate(rounds, 1):
    weights = {k: p[k] if by_share else 1.0 for k in clients}
    updates = _updates(train, clients, t, w, proximal)
    if len(clients):
      total = sum(weights[k] for k in clients)
      w = w + _total(weights, updates, clients) / total
    models.append(w)
  return models, {}


def fedprox(w, p, rounds, train, mu, r=None, beta=None):
  """FedProx: weights p / r, or without `r` p_k over their sum in S_t."""
  if r is None:
    return fedavg(w, p, rounds, train, by_share=True, proximal=mu)
  return f3ast(w, p, rounds, train, r, beta, proximal=mu)


def fedau(w, p, rounds, train, cutoff=np.inf):
  """FedAU: p_k times the mean length of the past intervals of client k."""
  seen, length, om = np.zeros(len(p)), np.zeros(len(p)), np.ones(len(p))
  models, used = [], []
  for t, (clients, _) in enumerate(rounds, 1):
    used.append(om.copy())
    w = w + _total(p * om, _updates(train, clients, t, w), clients)
    length += 1
    for k in range(len(p)):
      if k in clients or length[k] == cutoff:
        om[k] = (seen[k] * om[k] + length[k]) / (seen[k] + 1)
        seen[k], length[k] = seen[k] + 1, 0
    models.append(w)
  return models, {'om': om, 'M': seen, 'n': length, 'used': used}


def mifa(w, p, rounds, train, rate=lambda t: 1.0):
  """MIFA from zeros; `rate(t)` only if the local rate changes.

  The table holds v_k / rate(t), so the state is in units of v if it is 1.
  """
  table, mean = np.zeros((len(p), w.size)), np.zeros_like(w)
  models = []
  for t, (clients, _) in enumerate(rounds, 1):
    updates = _updates(train, clients, t, w)
    for k in clients:
      mean = mean + p[k] * (updates[k] / rate(t) - table[k])
      table[k] = updates[k] / rate(t)
    w = w + rate(t) * mean  # Also when nobody is there.
    models.append(w)
  return models, {'y': table, 'D': mean}


def fedvarp(w, p, rounds, train, r=None, beta=None, s=1.0):
  """FedVARP; with s < 1 FedStale."""
  y, mean = np.zeros((len(p), w.size)), np.zeros_like(w)
  models = []
  for t, (clients, _) in enumerate(rounds, 1):
    r, weights = _weigh(p, r, beta, clients)
    updates = _updates(train, clients, t, w)
    if len(clients):
      w = w + _total(weights, updates, clients)
      w = w + s * (mean - _total(weights, y, clients))
    for k in clients:
      mean = mean + p[k] * (updates[k] - y[k])
      y[k] = updates[k]
    models.append(w)
  return models, {'y': y, 'D': mean, 'r': r}


def fedawe(w, p, rounds, train, by_share=False, server_rate=1.0):
  """FedAWE; `by_share` multiplies innovations by N p_k."""
  own = np.tile(w, (len(p), 1))
  last, echoes = np.zeros(len(p), int), np.zeros(len(p), int)
  models = []
  for t, (clients, _) in enumerate(rounds, 1):
    reports = []
    for k in clients:
      end, _ = train(k, t, own[k], np.zeros_like(w), 0.0)
      factor = server_rate * (t - last[k]) * (len(p) * p[k] if by_share else 1)
      reports.append(own[k] + factor * (end - own[k]))
    if len(clients):
      w = np.mean(reports, axis=0)
    for k in clients:
      echoes[k] += t - last[k]
      own[k], last[k] = w, t
    models.append(w)
  return models, {'x': own, 'tau': last, 'echoes': echoes}


def scaffold(w, p, rounds, train, rate, r=None, beta=None, p_in_state=True):
  """SCAFFOLD, option II, with local rate `rate`.

  Without `p_in_state` the state sum has the model's weights: a mistake, to be
  shown.
  """
  c, own = np.zeros_like(w), np.zeros((len(p), w.size))
  models = []
  for t, (clients, _) in enumerate(rounds, 1):
    r, weights = _weigh(p, r, beta, clients)
    updates, changes = {}, {}
    for k in clients:
      end, num_steps = train(k, t, w, c - own[k], 0.0)
      updates[k] = end - w
      changes[k] = -c - updates[k] / (num_steps * rate)
    w = w + _total(weights, updates, clients)
    c = c + _total(p if p_in_state else weights, changes, clients)
    for k in clients:
      own[k] += changes[k]
    models.append(w)
  return models, {'c': c, 'c_k': own, 'r': r}


def feddyn(w, p, rounds, train, alpha, r=None, beta=None, p_in_state=True):
  """FedDyn.  Without `p_in_state`: as in `scaffold`."""
  h, own = np.zeros_like(w), np.zeros((len(p), w.size))
  models = []
  for t, (clients, _) in enumerate(rounds, 1):
    r, weights = _weigh(p, r, beta, clients)
    updates = {k: train(k, t, w, -own[k], alpha)[0] - w for k in clients}
    if len(clients):
      in_state = p if p_in_state else weights
      h = h - alpha * _total(in_state, updates, clients)
      w = w + _total(weights, updates, clients) - h / alpha
    for k in clients:
      own[k] -= alpha * updates[k]
    models.append(w)
  return models, {'h': h, 'g_k': own, 'r': r}


def to_simplex(values, floor=0.0):
  """The nearest vector that sums to 1 and has no entry below `floor`."""
  total = 1 - floor * len(values)
  values = np.asarray(values, float) - floor
  falling = np.sort(values)[::-1]
  shifts = (total - np.cumsum(falling)) / np.arange(1, len(values) + 1)
  shift = shifts[np.flatnonzero(falling + shifts > 0)[-1]]
  return np.maximum(values + shift, 0) + floor


def afl(
  w, p, rounds, train, loss, ascent, r=None, beta=None, floor=0.0, bare=False
):
  """AFL from lambda = p: F / r ascends, with losses `loss(k, w)` before.

  Without `r` weights are lambda, for all clients every round.  S_t may be a
  function of (lambda, r) before the round, as selection depends on them.
  `bare` leaves 1 / r out of the ascent: a mistake, to be shown.
  """
  lam = to_simplex(p, floor)
  models, lams = [], []
  for t, (clients, _) in enumerate(rounds, 1):
    if callable(clients):
      clients = clients(lam, r)
    if r is None:
      scale = np.ones(len(p))
    else:
      r = (1 - beta) * np.asarray(r) + beta * took_part(p, clients)
      scale = 1 / r
    direction = np.zeros(len(p))
    for k in clients:
      direction[k] = loss(k, w) * (1.0 if bare else scale[k])
    w = w + _total(lam * scale, _updates(train, clients, t, w), clients)
    if len(clients):
      lam = to_simplex(lam + ascent * direction, floor)
    models.append(w)
    lams.append(lam)
  return models, {'lambda': lam, 'lambdas': lams, 'r': r}


def chains(availability, num_clients, prior):
  """Estimates pi and lambda of on/off chains from the A_t so far.

  `prior` is what each of the two outcomes of a probability counts at first.
  """
  on = np.array([took_part(range(num_clients), a) for a in availability])
  on = on.reshape(-1, num_clients)
  before, after = on[:-1], on[1:]
  n11, n10 = (before * after).sum(0), (before * (1 - after)).sum(0)
  n00, n01 = ((1 - before) * (1 - after)).sum(0), ((1 - before) * after).sum(0)
  stay_on = (n11 + prior) / (n11 + n10 + 2 * prior)
  stay_off = (n00 + prior) / (n00 + n01 + 2 * prior)
  return (on.sum(0) + prior) / (len(on) + 2 * prior), stay_on + stay_off - 1


def ca_fed_bound(p, kept, excess, kappa):
  """CA-Fed's eps(q) if only `kept` (booleans) have q > 0."""
  target = np.where(kept, p, 0.0) / p[kept].sum()
  distance = np.abs(p - target).sum() / 2
  return target @ excess + kappa * distance**2 * excess.max()


def ca_fed_kept(p, pi, lam, excess, kappa=1.0, tau=0.0):
  """Returns who is not excluded: by falling |lambda|, then by rising pi."""
  kept = np.ones(len(p), bool)
  bound = ca_fed_bound(p, kept, excess, kappa)
  orders = [np.argsort(x, kind='stable') for x in (-np.abs(lam), pi)]
  for k in np.concatenate(orders):
    if kept[k] and kept.sum() > 1:
      kept[k] = False
      without = ca_fed_bound(p, kept, excess, kappa)
      if bound - without >= tau:
        bound = without
      else:
        kept[k] = True
  return kept, bound


def ca_fed(
  w,
  p,
  rounds,
  train,
  loss,
  pi=None,
  lam=None,
  kappa=1.0,
  tau=0.0,
  rho=0.0,
  least=0.0,
  prior=1.0,
  by_past=False,
):
  """CA-Fed, with pi and lambda as given or estimated up to and with A_t.

  `by_past` estimates them without A_t.

  S_t is None for all of A_t that is not excluded, or some of these: weights are
  then times the number of these over |S_t|.  `least` is the least loss F*.
  """
  losses = shares = seconds = None
  availability, models = [], []
  history: list = []  # None where nobody was available.
  for t, (clients, available) in enumerate(rounds, 1):
    availability.append(available)
    if not len(available):
      models.append(w)
      history.append(None)
      continue
    now = {k: loss(k, w) for k in available}
    if losses is None:
      losses = np.full(len(p), np.mean(list(now.values())))
      losses[list(now)] = list(now.values())
    else:
      for k in now:
        losses[k] = rho * losses[k] + (1 - rho) * now[k]
    seen = availability[:-1] if by_past else availability
    shares, seconds = chains(seen, len(p), prior)
    shares = shares if pi is None else pi
    seconds = seconds if lam is None else lam
    kept, bound = ca_fed_kept(p, shares, seconds, losses - least, kappa, tau)
    q = np.where(kept, p / shares, 0.0)
    rest = [k for k in available if kept[k]]
    chosen = rest if clients is None else clients
    if not set(chosen) <= set(rest):
      raise ValueError(f'Round {t}: {chosen} are not all among {rest}.')
    if len(chosen):
      factor = len(rest) / len(chosen)
      w = w + factor * _total(q, _updates(train, chosen, t, w), chosen)
    models.append(w)
    history.append({'losses': losses.copy(), 'bound': bound, 'q': q})
  return models, {'history': history, 'pi': shares, 'lambda': seconds}

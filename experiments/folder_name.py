"""The name of a run's folder where --output_dir names none.

It is the method, the availability model, the flags that were given and the
seed. What would be too long, or does not read back, becomes a digest.
"""

from collections.abc import Collection, Mapping
import hashlib
import json
import re
from typing import Any

from f3ast_tff.runs import config as config_lib

# Settings that the name holds anyway, in the name of the method or by itself.
_ALWAYS = (
  'task',
  'algorithm',
  'selection',
  'server_optimizer',
  'proximal',
  'avail',
  'seed',
)
# Numbers that the name of the method may hold, rounded.
_ROUNDED = ('proximal', 'weight_cap', 'sum_cap')
_LONGEST = 120  # File systems take 255 bytes.
# With a `=` in a value, or other characters in place of some, two runs could
# have one name.
_VALUE = re.compile(r'[\w.,:+-]*', re.ASCII)


def of(settings: Mapping[str, Any], given: Collection[str]) -> str:
  """Returns the name of the folder of a run.

  Args:
    settings: All settings of the run.
    given: Which of them the user gave; the others are defaults.

  Returns:
    The same name for the same settings, and another one for others.
  """
  method, avail = config_lib.method_name(settings), settings['avail']
  others = [name for name in settings if name in given and name not in _ALWAYS]
  name = '-'.join([
    method,
    avail,
    *(
      f'{name}={settings[name]}'
      for name in others
      if f'-{name}=' not in method
    ),
    f'seed={settings["seed"]}',
  ])
  rounded = [settings.get(name) or 0.0 for name in _ROUNDED]
  values = [avail, *(str(settings[name]) for name in others)]
  if (
    len(name) <= _LONGEST
    and all(map(_VALUE.fullmatch, values))
    # As `method_name` writes them.
    and all(float(f'{number:g}') == number for number in rounded)
  ):
    return name
  told = {name: settings.get(name) for name in (*_ALWAYS, *others)}
  digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
  head = f'{method}-{config_lib.availability_name(settings)}'
  head = re.sub(r'[^\w=.-]', '_', head, flags=re.ASCII)[:100]
  return (
    f'{head}-settings={digest.hexdigest()[:16]}-seed={settings["seed"]}'
  )

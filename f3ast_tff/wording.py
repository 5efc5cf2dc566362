"""Numbers in sentences."""


def count(number: int, what: str) -> str:
  """Returns how many there are, for example `1 round` or `2 rounds`.

  Args:
    number: How many.
    what: Of what, in the singular; its plural has an s.
  """
  return f'{number} {what}' if number == 1 else f'{number} {what}s'

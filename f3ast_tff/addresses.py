"""Where workers on other machines are: host:port, with commas between.

Standard library only, so that a wrong address is told before anything else.
"""

from collections.abc import Sequence
import socket
from typing import NamedTuple

_CONNECT_SECONDS = 5.0


class Address(NamedTuple):
  """Where a worker listens."""

  host: str
  port: int

  def __str__(self) -> str:
    host = f'[{self.host}]' if ':' in self.host else self.host
    return f'{host}:{self.port}'


def parse(text: str) -> tuple[Address, ...]:
  """Returns the addresses in e.g. `alpha:7000,10.0.0.2:7000,[::1]:7001`.

  Args:
    text: The addresses with commas between; nothing for no addresses.

  Returns:
    The addresses, in order.

  Raises:
    ValueError: If one is not host:port, or is there twice.
  """
  found: list[Address] = []
  for item in text.split(',') if text.strip() else ():
    host, colon, port = item.strip().rpartition(':')
    if host.startswith('[') and host.endswith(']'):
      host = host[1:-1]
    elif ':' in host:  # An IPv6 address, of which the port would be a part.
      host = ''
    is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 2**16
    if not (host and colon and is_port):
      raise ValueError(
        f'A worker must be given as host:port, e.g. 10.0.0.2:7000, but '
        f'{item.strip()!r} is not.'
      )
    address = Address(host, int(port))
    if address in found:
      raise ValueError(f'The worker {address} is given twice.')
    found.append(address)
  return tuple(found)


def unreachable(address: Address, reason: str) -> str:
  """Returns what to tell about a worker that does not answer."""
  return (
    f'The worker {address} cannot be reached ({reason}); start it there with '
    f'"python -m f3ast_tff.worker --host={address.host} --port={address.port}",'
    ' or leave it out of --workers.'
  )


def check_reachable(
  addresses: Sequence[Address], seconds: float = _CONNECT_SECONDS
) -> None:
  """Raises unless something listens at each address.

  Args:
    addresses: The addresses.
    seconds: How long to wait for each.

  Raises:
    ValueError: If one cannot be reached; it is named.
  """
  for address in addresses:
    try:
      socket.create_connection(address, timeout=seconds).close()
    except OSError as error:
      reason = error.strerror or str(error)
      raise ValueError(unreachable(address, reason)) from error

"""The flag --output_dir, for programs that write a folder of results."""

from absl import flags

OUTPUT_DIR = flags.DEFINE_string(
  'output_dir', None, 'The folder for the results; by default one below runs.'
)

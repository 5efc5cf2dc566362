"""Package metadata; tool settings are in pyproject.toml."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).resolve().parent


def read_version() -> str:
  """Returns the version without importing the package."""
  text = (HERE / 'f3ast_tff' / 'version.py').read_text(encoding='utf-8')
  match = re.search(r"^__version__ = ['\"]([^'\"]+)['\"]", text, re.MULTILINE)
  if match is None:
    raise RuntimeError('f3ast_tff/version.py does not set __version__.')
  return match.group(1)


def read_long_description() -> str:
  """Returns the README, or nothing if it was not shipped along."""
  readme = HERE / 'README.md'
  return readme.read_text(encoding='utf-8') if readme.exists() else ''


setuptools.setup(
    name='f3ast-tff',
    version=read_version(),
    description=(
        'F3AST client selection for federated learning with intermittently '
        'available clients, on TensorFlow Federated'
    ),
    long_description=read_long_description(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    license_files=['LICENSE'],
    keywords='federated-learning client-selection tensorflow-federated f3ast',
    classifiers=[
        'Development Status :: 3 - Alpha',
        'Intended Audience :: Science/Research',
        'License :: OSI Approved :: Apache Software License',
        'Operating System :: POSIX :: Linux',
        'Programming Language :: Python :: 3',
        'Programming Language :: Python :: 3 :: Only',
        'Programming Language :: Python :: 3.9',
        'Programming Language :: Python :: 3.10',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
        'Typing :: Typed',
    ],
    packages=setuptools.find_packages(include=['f3ast_tff', 'f3ast_tff.*']),
    package_data={'f3ast_tff': ['py.typed']},
    python_requires='>=3.9',
    # For availability, communication, delivery, groups, methods, rates,
    # selection, targets, theory and traces.
    install_requires=[
        'numpy>=1.25',
        'scipy>=1.9',
    ],
    extras_require={
        # What training runs on, stated for the record: pip cannot resolve it,
        # because tensorflow-federated 0.87.0 requires jaxlib 0.4.14, which has
        # been withdrawn.  What does work, on Python 3.10 and 3.11, is
        # `pip install --no-deps -r requirements.txt`, or just `make setup`.
        'tff': [
            'absl-py',
            # TensorFlow 2.14 was built against NumPy 1.
            'numpy<2',
            'psutil',
            'tensorflow>=2.14,<2.15',
            'tensorflow-datasets>=4.9.4,<4.10',
            'tensorflow-federated==0.87.0',
            'tqdm>=4.64',
        ],
        # For f3ast_tff.runs, and for the programs in experiments.
        'runs': ['matplotlib>=3.7', 'pandas>=2.0', 'tqdm>=4.64'],
        'experiments': [
            'jinja2>=3',
            'matplotlib>=3.7',
            'pandas>=2.0',
            'tqdm>=4.64',
        ],
        # For --cluster; its release is the one that was tried.
        'cluster': ['ray==2.52.1'],
        # For --tracker; its error says how to add them to the environment of
        # requirements.txt without a change to what that pins.
        'trackers': ['mlflow', 'wandb'],
        'test': ['hypothesis>=6.100', 'pytest>=8', 'pytest-xdist>=3.5'],
        'lint': ['mypy>=1.10', 'ruff>=0.5'],
        'docs': ['furo', 'myst-parser>=4', 'sphinx>=8'],
    },
)

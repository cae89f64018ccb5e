"""The extension module; everything else stands in pyproject.toml."""
from setuptools import setup

setup(cffi_modules=["native_build.py:ffi"])

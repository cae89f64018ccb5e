"""The extension module; everything else stands in pyproject.toml."""
from tempfile import TemporaryDirectory

from setuptools import setup

# Nothing stays in the source: neither pip nor a later build, for a library in another folder, cleans it.
with TemporaryDirectory(prefix="simba-build-") as folder:
    setup(cffi_modules=["native_build.py:ffi"],
          options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}})

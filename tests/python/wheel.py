#!/usr/bin/env python3
"""What a user of the wheel does, run by scripts/test-wheel: the package is that of the virtual environment.

    wheel.py ROOT
"""
import os
import re
import subprocess
import sys
import tempfile

import simba_lock as simba

ROOT = sys.argv[1]
os.environ.setdefault("SIMBA_PROGRAM", "")  # not used: the store is only started
sys.path[:0] = [os.path.join(ROOT, "tests/cli"), os.path.join(ROOT, "tests/lib")]
import servers  # noqa: E402
import stores  # noqa: E402


class TlsRedis(servers.Redis):
    """Speaks TLS only."""

    def create_files(self):
        self.prepare("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-days", "2", "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost",
                     "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")

    def command(self):
        return [*super().command(), "--port", "0", "--tls-port", str(self.port), "--tls-cert-file", "cert.pem",
                "--tls-key-file", "key.pem", "--tls-auth-clients", "no"]


def use(url):
    with simba.open(url) as client, client.lock("wheel", timeout=10) as lock:
        lock.check()
        assert lock.fence > 0 and client.status("wheel")[0].owner.id == lock.id
    print(f"ok - a lock on {url.partition(':')[0]}")


def check_libraries():
    """All of Simba that is loaded is the wheel's."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        loaded = {line.split()[-1] for line in file if re.search(r"libsimba|/simba-[^/]*/[^/]*\.so", line)}
    own = os.path.dirname(simba.__file__) + os.sep
    assert any("libsimba" in path for path in loaded), loaded
    assert all(path.startswith(own) for path in loaded), loaded
    print(f"ok - {len(loaded)} libraries of Simba, all from the wheel")


def check_guide():
    """Each example of the guide runs, and mypy finds its types."""
    with open(os.path.join(ROOT, "docs/guide/python.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(# runs\n.*?)```", file.read(), re.DOTALL)
    for number, block in enumerate(blocks):
        path = f"example{number}.py"
        with open(path, "w", encoding="utf-8") as file:
            file.write(block)
        subprocess.run([sys.executable, path], check=True, timeout=60, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-m", "mypy", "--no-error-summary", path], check=True, timeout=300)
    print(f"ok - {len(blocks)} examples of the guide")


def main():
    with tempfile.TemporaryDirectory() as folder:
        use(f"sqlite:{folder}/try.db")
    store = stores.Redis()
    try:
        use(store.url)
    finally:
        store.stop()
    tls = TlsRedis()
    try:
        tls.start()
        use(f"rediss://127.0.0.1:{tls.port}?tls-ca={tls.folder}/cert.pem")
    finally:
        tls.stop()
    check_libraries()
    check_guide()


if __name__ == "__main__":
    main()

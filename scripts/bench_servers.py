"""Private servers of all stores for measurements: as durable as their packages make them. `url` is the store's for
the library.
"""
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib"))
import servers


class Server(servers.Server):
    durable = True

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *unused):
        self.stop()


def first_line(*command):
    """What a program says of its version; "" where there is none."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:
        return ""
    return (done.stdout or done.stderr).partition("\n")[0].strip()


class Sqlite(Server):
    """A file; no server."""

    def start(self):
        self.url = f"sqlite:{self.folder}/store.db"

    @staticmethod
    def version():
        import sqlite3  # the same library, as a rule
        return "SQLite " + sqlite3.sqlite_version


class Redis(Server, servers.Redis):
    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    @staticmethod
    def version():
        return " ".join(first_line("redis-server", "--version").split()[:3])


class Postgres(Server, servers.Postgres):
    @property
    def url(self):
        return f"postgres://simba@127.0.0.1:{self.port}/simba"

    @staticmethod
    def version():
        return first_line(Postgres.program("postgres"), "--version")


class Mariadb(Server, servers.Mariadb):
    @property
    def url(self):
        return f"mariadb://root@127.0.0.1:{self.port}/simba"

    @staticmethod
    def version():
        return first_line("/usr/sbin/mariadbd", "--version").partition("for")[0].split("Ver ")[-1]


class Zookeeper(Server, servers.Zookeeper):
    @property
    def hosts(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return "zookeeper://" + self.hosts

    @staticmethod
    def version():
        done = first_line("dpkg-query", "-W", "-f=${Version}", "libzookeeper-java")
        return "ZooKeeper " + done.partition("-")[0]


class Etcd(Server, servers.Etcd):
    @property
    def url(self):
        return f"etcd://127.0.0.1:{self.port}/bench"

    @staticmethod
    def version():
        return first_line("etcd", "--version")


STORES = {"sqlite": Sqlite, "redis": Redis, "postgres": Postgres, "mariadb": Mariadb,
          "zookeeper": Zookeeper, "etcd": Etcd}

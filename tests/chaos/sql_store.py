"""MariaDB, PostgreSQL, and PostgreSQL with a standby that can be promoted."""
import glob
import os
import shutil
import subprocess

from clock import wait_until
from server import LEASE, PRISTINE, Server, Store

OWNED = "SELECT mutex FROM simba_mutex WHERE owner_id <> ''"
OPTIONS = LEASE + "&connect-timeout=1s&timeout=1s"


class SqlServer(Server):
    """Its first files take seconds to be made, and are copied when it has to begin anew."""

    def create_files(self):
        if not os.path.exists(os.path.join(self.folder, PRISTINE)):
            self.make_data()
            self.prepare("cp", "-a", "data", PRISTINE)
        else:
            self.prepare("cp", "-a", PRISTINE, "data")

    def make_data(self):
        raise NotImplementedError


class MariadbServer(SqlServer):
    user = "mysql"

    def _where(self):
        return ["--no-defaults", f"--datadir={self.folder}/data", f"--tmpdir={self.folder}"]

    def make_data(self):
        self.prepare("mariadb-install-db", *self._where(),
                     "--auth-root-authentication-method=normal", "--skip-test-db",
                     "--skip-name-resolve", "--innodb-flush-method=nosync",
                     "--innodb-log-file-size=8M")
        with open(os.path.join(self.folder, "init.sql"), "w", encoding="ascii") as file:
            file.write("CREATE DATABASE IF NOT EXISTS simba;\n"
                       "CREATE USER IF NOT EXISTS worker@'%';\n"
                       "GRANT ALL ON simba.* TO worker@'%';\n")

    def command(self):
        return ["/usr/sbin/mariadbd", *self._where(), f"--port={self.port}",
                f"--socket={self.folder}/sock", f"--pid-file={self.folder}/pid",
                f"--init-file={self.folder}/init.sql", "--bind-address=127.0.0.1",
                "--skip-name-resolve", "--innodb-log-file-size=8M",
                "--innodb-buffer-pool-size=32M", "--innodb-flush-method=nosync"]

    def sql(self, statement):
        return self.prepare("mariadb", "--no-defaults", f"--socket={self.folder}/sock", "-u", "root",
                            "-N", "-B", "-e", statement, "simba")

    def serves(self):
        try:
            return super().serves() and self.sql("SELECT 1") == "1\n"
        except (OSError, subprocess.SubprocessError):
            return False

    def cut_clients(self):
        self.sql("KILL USER worker")

    def set_read_only(self, on):
        self.sql(f"SET GLOBAL read_only = {int(on)}")
        self.cut_clients()


class Mariadb(Store):
    name = "mariadb"

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [MariadbServer(os.path.join(folder, "server"), wallclock)]

    @staticmethod
    def missing():
        found = os.path.exists("/usr/sbin/mariadbd") and shutil.which("mariadb-install-db")
        return None if found else "there is no mariadbd"

    def form(self, places):
        return f"mysql://worker@{places[0]}/simba?{OPTIONS}"

    def left_behind(self):
        return [f"an owner of '{row}'" for row in self.servers[0].sql(OWNED).split()]


def postgres_programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    return found[-1] if found else None


class PostgresServer(SqlServer):
    user = "postgres"

    def make_data(self):
        self.prepare(postgres_programs() + "/initdb", "-D", "data", "-U", "simba", "-A", "trust",
                     "-N", "-E", "UTF8", "--locale=C.UTF-8")

    def command(self):
        return [postgres_programs() + "/postgres", "-D", "data", "-p", str(self.port),
                "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + self.folder,
                "-c", "fsync=off", "-c", "max_connections=60"]

    def sql(self, statement, database="simba"):
        return self.prepare(postgres_programs() + "/psql", "-h", self.folder, "-p", str(self.port),
                            "-U", "simba", "-X", "-A", "-t", "-q", "-c", statement, database)

    def serves(self):
        try:
            return self.sql("SELECT 1", "postgres") == "1\n"
        except subprocess.SubprocessError:
            return False

    def create_database(self):
        """A server that lost its data has none."""
        if self.sql("SELECT 1 FROM pg_database WHERE datname = 'simba'", "postgres") == "":
            self.sql("CREATE DATABASE simba", "postgres")

    def revive(self):
        super().revive()
        self.create_database()

    def cut_clients(self):
        self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE application_name = 'simba'")

    def set_read_only(self, on):
        self.sql(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
        self.sql("SELECT pg_reload_conf()")
        self.cut_clients()


class Postgres(Store):
    name = "postgres"

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [PostgresServer(os.path.join(folder, "server"), wallclock)]

    @staticmethod
    def missing():
        return None if postgres_programs() else "there is no PostgreSQL"

    def form(self, places):
        return f"postgres://simba@{','.join(places)}/simba?{OPTIONS}"

    def primary(self):
        return self.servers[0]

    def left_behind(self):
        return [f"an owner of '{row}'" for row in self.primary().sql(OWNED).split()]


class StandbyServer(PostgresServer):
    """A copy of the primary that follows it."""

    def __init__(self, folder, primary):
        super().__init__(folder)
        self.primary = primary

    def create_files(self):
        self.prepare(postgres_programs() + "/pg_basebackup", "-D", "data", "-R", "-X", "stream",
                     "-c", "fast", "-h", self.primary.folder, "-p", str(self.primary.port),
                     "-U", "simba")

    def create_database(self):
        pass

    def promote(self):
        self.sql("SELECT pg_promote(true, 30)", "postgres")


class PostgresStandby(Postgres):
    """A commit counts when the standby has it, so that a promotion loses none."""

    name = "postgres-standby"
    heals_within = 40

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers.append(StandbyServer(os.path.join(folder, "standby"), self.servers[0]))
        self.is_promoted = False

    def start(self):
        super().start()
        primary = self.servers[0]
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.sql("SELECT pg_reload_conf()")
        wait_until(lambda: "sync" in primary.sql("SELECT sync_state FROM pg_stat_replication"),
                   "the standby is in step")

    def leader(self):
        return self.primary()

    def primary(self):
        return self.servers[1] if self.is_promoted else self.servers[0]

    def promote(self):
        self.servers[0].kill()
        self.servers[1].promote()
        self.is_promoted = True

"""MariaDB, PostgreSQL, and PostgreSQL with a standby that can be promoted."""
import os
import subprocess

from clock import wait_until
from server import LEASE, PRISTINE, Server, Store
import servers

OWNED = "SELECT mutex FROM simba_mutex WHERE owner_id <> ''"
OPTIONS = LEASE + "&connect-timeout=1s&timeout=1s"


class SqlServer(Server):
    """Its first files take seconds to be made, and are copied when it has to begin anew."""

    def create_files(self):
        if not os.path.exists(os.path.join(self.folder, PRISTINE)):
            super().create_files()
            self.prepare("cp", "-a", "data", PRISTINE)
        else:
            self.prepare("cp", "-a", PRISTINE, "data")


class MariadbServer(SqlServer, servers.Mariadb):
    init = servers.Mariadb.init + ("CREATE USER IF NOT EXISTS worker@'%';\n"
                                   "GRANT ALL ON simba.* TO worker@'%';\n")

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

    missing = staticmethod(servers.Mariadb.missing)

    def form(self, places):
        return f"mysql://worker@{places[0]}/simba?{OPTIONS}"

    def left_behind(self):
        return [f"an owner of '{row}'" for row in self.servers[0].sql(OWNED).split()]


class PostgresServer(SqlServer, servers.Postgres):
    def command(self):
        return [*super().command(), "-c", "max_connections=60"]

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

    missing = staticmethod(servers.Postgres.missing)

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
        self.prepare(self.program("pg_basebackup"), "-D", "data", "-R", "-X", "stream",
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

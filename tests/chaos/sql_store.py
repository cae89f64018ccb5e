"""MariaDB, PostgreSQL, and PostgreSQL with a standby that can be promoted."""
import os
import subprocess

from clock import PATIENCE, wait_until
from server import PRISTINE, Server, Store
import servers

OWNED = "SELECT concat(mutex, ':', owner_id) FROM simba_mutex WHERE owner_id <> ''"
OPTIONS = "connect-timeout=1s&timeout=1s"


# Who may connect: the harness by the socket in the server's folder, the workers by their password.
RULES = "local all all trust\nlocal replication all trust\nhost all worker 127.0.0.1/32 scram-sha-256\n"


class Session:
    """A connection of another program, which keeps its locks until it ends."""

    def __init__(self, command, user, folder):
        self.client = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, **servers.as_user(user))

    def tell(self, statement):
        """Does not wait for the answer, which may take as long as a lock."""
        self.client.stdin.write(statement + ";\n")
        self.client.stdin.flush()

    def ask(self, statement):
        """Whether it succeeded."""
        self.tell(statement)
        self.tell("SELECT 'done'")
        failed = False
        for line in self.client.stdout:
            if line == "done\n":
                return not failed
            if "current transaction is aborted" in line:
                return False  # the second statement fails, too
            failed = failed or line.startswith("ERROR")
        return False

    def end(self):
        self.client.communicate(timeout=PATIENCE)


class SqlServer(Server):
    """Its first files take seconds to be made, and are copied when it has to begin anew."""

    def __init__(self, folder, wallclock, secret):
        super().__init__(folder, wallclock)
        self.secret = secret

    patience = None  # a statement that bounds the wait for a lock
    go_on_after_errors = []

    def client_command(self):
        """The program that takes statements from its standard input."""
        raise NotImplementedError

    def open_session(self):
        return Session([*self.client_command(), *self.go_on_after_errors], self.user, self.folder)

    def lock(self, *statements):
        """Returns what ends the session that holds the locks; None where they cannot be had soon: a worker that stands
        still in the middle of a transaction may have them."""
        session = self.open_session()
        if all(session.ask(statement) for statement in (self.patience, *statements)):
            return session.end
        session.end()
        return None

    def lock_behind_reader(self, alteration):
        """An open transaction has read the table; an alteration waits for its end, and all others for the
        alteration."""
        end_reader = self.lock("BEGIN", "SELECT count(*) FROM simba_mutex")
        if end_reader is None:
            return None
        writer = self.open_session()
        writer.tell(alteration)

        def end():
            end_reader()
            writer.end()
        return end

    def create_files(self):
        if not os.path.exists(os.path.join(self.folder, PRISTINE)):
            super().create_files()
            self.prepare("cp", "-a", "data", PRISTINE)
        else:
            self.prepare("cp", "-a", PRISTINE, "data")


class MariadbServer(SqlServer, servers.Mariadb):
    patience = "SET lock_wait_timeout = 2"
    go_on_after_errors = ["--force"]

    @property
    def init(self):
        """Carried out at every start."""
        return (servers.Mariadb.init + "CREATE USER IF NOT EXISTS worker@'%';\n"
                f"{self.password_statement()};\nGRANT ALL ON simba.* TO worker@'%';\n")

    def password_statement(self):
        return f"ALTER USER worker@'%' IDENTIFIED BY '{self.secret.word}'"

    def change_password(self):
        self.write("init.sql", self.init)
        self.sql(self.password_statement())

    def client_command(self):
        return ["mariadb", "--no-defaults", f"--socket={self.folder}/sock", "-u", "root", "-N", "-B",
                "--unbuffered", "simba"]

    def sql(self, statement):
        return self.prepare(*self.client_command(), "-e", statement)

    def locks(self):
        return [self.lock_table, self.lock_all, self.alter_table]

    def lock_table(self, _dice):
        return self.lock("LOCK TABLES simba_mutex WRITE")

    def lock_all(self, _dice):
        return self.lock("FLUSH TABLES WITH READ LOCK")

    def alter_table(self, _dice):
        return self.lock_behind_reader("ALTER TABLE simba_mutex COMMENT = 'altered'")

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
    has_small_disk = True

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [MariadbServer(os.path.join(folder, "server"), wallclock, self.secret)]

    missing = staticmethod(servers.Mariadb.missing)

    def form(self, places):
        return f"mysql://worker@{places[0]}/simba?{self.lease}&{OPTIONS}&tls=off&password-file={self.secret.path}"

    def option_files(self):
        """Names in a home folder, and what disagrees with the URL."""
        return [(".my.cnf", f"[{group}]\n{text}\n") for group in ("client", "simba") for text in (
            "host=192.0.2.1\nport=1\nuser=nobody\npassword=wrong\ndatabase=mysql",
            "socket=/nowhere", "ssl=1\nssl-verify-server-cert=1", "ssl-ca=/nowhere\nssl-cert=/nowhere")]

    def left_behind(self):
        return ["an owner: " + row for row in self.servers[0].sql(OWNED).split()]

    def waiters(self):
        return self.servers[0].sql("SELECT id FROM simba_waiter WHERE reserved_until = 0 OR reserved_until >"
                                   " 1000 * unix_timestamp(now(3))").split()


class PostgresServer(SqlServer, servers.Postgres):
    patience = "SET lock_timeout = '2s'"

    def command(self):
        return [*super().command(), "-c", "max_connections=60"]

    def create_files(self):
        super().create_files()
        self.write("data/pg_hba.conf", RULES)

    def create_database(self):
        super().create_database()
        if self.sql("SELECT 1 FROM pg_roles WHERE rolname = 'worker'") == "":
            self.sql("CREATE ROLE worker LOGIN")
            self.change_password()
        self.sql("ALTER DATABASE simba OWNER TO worker")

    def change_password(self):
        self.sql(f"ALTER ROLE worker PASSWORD '{self.secret.word}'")

    def client_command(self):
        return [self.program("psql"), "-h", self.folder, "-p", str(self.port), "-U", "simba", "-X", "-A", "-t",
                "-q", "simba"]

    def locks(self):
        return [self.lock_table, self.alter_table]

    def lock_table(self, _dice):
        return self.lock("BEGIN", "LOCK TABLE simba_mutex IN ACCESS EXCLUSIVE MODE")

    def alter_table(self, dice):
        alteration = "ALTER TABLE simba_mutex ALTER COLUMN owner_id SET STATISTICS 100"
        if dice.random() < 0.5:
            return self.lock("BEGIN", alteration)
        return self.lock_behind_reader(alteration)

    def cut_clients(self):
        self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE application_name = 'simba'")

    def set_read_only(self, on):
        self.sql(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
        self.sql("SELECT pg_reload_conf()")
        self.cut_clients()


class Postgres(Store):
    name = "postgres"
    has_small_disk = True

    def __init__(self, folder, wallclock=None):
        super().__init__(folder)
        self.servers = [PostgresServer(os.path.join(folder, "server"), wallclock, self.secret)]

    missing = staticmethod(servers.Postgres.missing)

    def form(self, places):
        return (f"postgres://worker@{','.join(places)}/simba?{self.lease}&{OPTIONS}"
                f"&password-file={self.secret.path}")

    def option_files(self):
        return [(".pgpass", "*:*:*:*:wrong\n"),
                (".pg_service.conf", "[simba]\nhost=192.0.2.1\nuser=nobody\nsslmode=require\n"),
                (".postgresql/root.crt", "no certificate\n")]

    def primary(self):
        return self.servers[0]

    def left_behind(self):
        return ["an owner: " + row for row in self.primary().sql(OWNED).split()]

    def waiters(self):
        return self.primary().sql("SELECT id FROM simba_waiter WHERE reserved_until = 0 OR reserved_until >"
                                  " extract(epoch FROM clock_timestamp()) * 1000").split()


class StandbyServer(PostgresServer):
    """A copy of the primary that follows it."""

    def __init__(self, folder, wallclock, primary):
        super().__init__(folder, wallclock, primary.secret)
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
    has_small_disk = False  # a primary without a disk stands still with its standby
    heals_within = 40

    def __init__(self, folder, wallclock=None):
        super().__init__(folder, wallclock)
        self.servers.append(StandbyServer(os.path.join(folder, "standby"), wallclock, self.servers[0]))
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

#!/usr/bin/env python3
"""A role that may create things in a schema on the user's path, as everybody could in `public` up to PostgreSQL 14, wants
to have its code run by a superuser who uses simba: by functions and operators with the system's names, by a table, by
what the table's own triggers call. Its code makes it a superuser, so that the server tells whether it ran.

A server that lies wants to be told a password, or to fill the client's memory. A user whose HOME root uses wants to say
where root connects to.
"""
import atexit
import os
import signal
import struct
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "lib"), os.path.join(TESTS, "cli")]
from program import (PATIENCE, OtherMounts, Simba, case, contains, equal, limit_memory, main, read, run, true, wait_until,
                     write)
from postgres_fake import CLEARTEXT, MD5, SASL, WELCOME, FakeServer, Middle, ask_for, message
from servers import Postgres, as_user, free_port

POOLER = "/usr/sbin/pgbouncer"
LEASE = "ttl=2s&transition=2s&jitter=0ms..50ms"

# Runs with the rights of who calls it, and may be called at any place.
LOOT = """
CREATE FUNCTION public.loot() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
  IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user) THEN
    ALTER ROLE mallory SUPERUSER;
  END IF;
END $$;
"""

# Name, parameters, result, and what the system has for it. Those of the first group fit better than the system's own,
# whatever the path is; those of the second come first where the path names pg_catalog last.
BETTER = [
    ("pg_notify", "text, varchar", "void", None),
    ("pg_notify", "varchar, varchar", "void", None),
    ("quote_ident", "name", "text", "pg_catalog.quote_ident($1::text)"),
    ("length", "varchar", "int", "pg_catalog.length($1::text)"),
]
FIRST = [
    ("pg_notify", "text, text", "void", None),
    ("clock_timestamp", "", "timestamptz", "pg_catalog.clock_timestamp()"),
    ("date_part", "text, timestamptz", "float8", "pg_catalog.date_part($1, $2)"),
    ("pg_backend_pid", "", "int", "pg_catalog.pg_backend_pid()"),
    ("set_config", "text, text, bool", "text", "pg_catalog.set_config($1, $2, $3)"),
    ("current_setting", "text", "text", "pg_catalog.current_setting($1)"),
    ("to_regclass", "text", "regclass", "pg_catalog.to_regclass($1)"),
    ("current_schema", "", "name", "pg_catalog.current_schema()"),
    ("current_database", "", "name", "pg_catalog.current_database()"),
]
# Symbol, operands, result, and what it does.
OPERATORS = [
    ("=", "varchar", "varchar", "bool", "$1::text OPERATOR(pg_catalog.=) $2::text"),
    ("=", "varchar", "text", "bool", "$1::text OPERATOR(pg_catalog.=) $2"),
    ("=", "name", "varchar", "bool", "$1::text OPERATOR(pg_catalog.=) $2::text"),
    ("=", "oid", "regclass", "bool", "$1 OPERATOR(pg_catalog.=) $2::oid"),
    ("<", "bigint", "float8", "bool", "$1::float8 OPERATOR(pg_catalog.<) $2"),
    (">", "bigint", "float8", "bool", "$1::float8 OPERATOR(pg_catalog.>) $2"),
    ("*", "float8", "int", "float8", "$1 OPERATOR(pg_catalog.*) $2::float8"),
]
FIRST_OPERATORS = [
    ("=", "text", "text", "bool", "$1 OPERATOR(pg_catalog.=) $2"),
    ("=", "bigint", "bigint", "bool", "$1 OPERATOR(pg_catalog.=) $2"),
    ("=", "int", "int", "bool", "$1 OPERATOR(pg_catalog.=) $2"),
    ("=", "oid", "oid", "bool", "$1 OPERATOR(pg_catalog.=) $2"),
    ("<", "bigint", "bigint", "bool", "$1 OPERATOR(pg_catalog.<) $2"),
    ("+", "bigint", "int", "bigint", "$1 OPERATOR(pg_catalog.+) $2"),
    ("+", "float8", "float8", "float8", "$1 OPERATOR(pg_catalog.+) $2"),
    ("-", "int", "int", "int", "$1 OPERATOR(pg_catalog.-) $2"),
]

server = Postgres()


def psql(statement, database, user="simba"):
    return server.prepare(server.program("psql"), "-h", server.folder, "-p", str(server.port), "-U", user,
                          "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement, database)


def function(name, parameters, result, value):
    does = f"RETURN {value};" if value else "RETURN;"
    return (f"CREATE FUNCTION public.{name}({parameters}) RETURNS {result} LANGUAGE plpgsql AS"
            f" $$ BEGIN PERFORM public.loot(); {does} END $$;\n")


def operator(number, symbol, left, right, result, value):
    name = f"planted_{number}"
    return (function(name, f"{left}, {right}", result, value) + f"CREATE OPERATOR public.{symbol}"
            f" (FUNCTION = public.{name}, LEFTARG = {left}, RIGHTARG = {right});\n")


def plant(database, functions, operators):
    text = LOOT + "".join(function(*each) for each in functions)
    text += "".join(operator(number, *each) for number, each in enumerate(operators))
    psql(text, database, "mallory")


class Database:
    """A new one, in which everybody may create tables and functions."""

    count = 0

    def __init__(self, more="", owner="simba"):
        Database.count += 1
        self.name = f"d{Database.count}"
        self.port = server.port
        psql(f"CREATE DATABASE {self.name} OWNER {owner}", "postgres")
        self.sql(f"GRANT CREATE ON SCHEMA public TO mallory; {more}")

    def sql(self, statement, user="simba"):
        return psql(statement, self.name, user)

    def url(self, user="simba"):
        return f"postgres://{user}@127.0.0.1:{self.port}/{self.name}?{LEASE}"

    def lock(self, *more, user="simba", command="true"):
        return Simba("-u", self.url(user), "lock", *more, "m", "--", "sh", "-c", command)

    def has_been_robbed(self):
        return self.sql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'") == "t\n"

    def expect_safe(self):
        """Mallory's code works, and did not run."""
        true(not self.has_been_robbed(), "mallory is a superuser")
        self.sql("SELECT public.loot()")
        true(self.has_been_robbed(), "the test itself: loot() does nothing")
        self.sql("ALTER ROLE mallory NOSUPERUSER")


def contend(database):
    """An owner, a waiter that is woken by its release, and one who looks at both."""
    owner = database.lock(command="echo >owns; while [ ! -e go ]; do sleep 0.01; done; rm owns")
    wait_until(lambda: os.path.exists("owns"), "the owner has it")
    waiter = database.lock(command="true")
    watch = Simba("-u", database.url(), "watch", "m")
    equal(run("-u", database.url(), "status").code, 0)
    equal(run("-u", database.url(), "status", "m").code, 0)
    wait_until(lambda: listeners(database) >= 2, "the waiter and the watch listen")
    write("go", "")
    equal(owner.wait(), 0)
    equal(waiter.wait(), 0)
    os.remove("go")
    equal(watch.end(), 0)


def listeners(database):
    return int(database.sql("SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname OPERATOR(pg_catalog.=)"
                            f" '{database.name}'::name AND query LIKE '%LISTEN%'").strip())


def lock_timeouts():
    return read(os.path.join(server.folder, "log")).count("due to lock timeout")


def meet_a_lock(database):
    """After a row was locked by somebody else, other statements are used for a while."""
    admin = subprocess.Popen([server.program("psql"), "-h", server.folder, "-p", str(server.port), "-U", "simba",
                              "-X", "-q", database.name], cwd=server.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, **as_user(server.user))
    admin.stdin.write("BEGIN; UPDATE simba_mutex SET version = version WHERE mutex = 'm'; \\echo locked\n")
    admin.stdin.flush()
    equal(admin.stdout.readline(), "locked\n")
    before = lock_timeouts()
    owner = database.lock(command="sleep 2.5")
    wait_until(lambda: lock_timeouts() > before, "it has met the lock")
    admin.communicate("ROLLBACK;\n", PATIENCE)
    equal(owner.wait(), 0)


def use(database):
    equal(run("-u", database.url(), "init").code, 0)
    for _ in range(2):
        equal(run("-u", database.url(), "lock", "--once-per", "1h", "once", "--", "true").code, 0)
    equal(database.lock("-n").wait(), 0)
    contend(database)
    meet_a_lock(database)
    equal(run("-u", database.url(), "release", "--force", "m").code, 0)
    bench = run("-u", database.url(), "bench", "--count", "5", "--rounds", "1", "cycle", "handover")
    equal(bench.code, 0)


@case
def functions_and_operators_that_fit_better_are_not_called():
    database = Database()
    plant(database.name, BETTER, OPERATORS)
    use(database)
    database.expect_safe()


@case
def functions_and_operators_that_come_first_on_the_path_are_not_called():
    database = Database()
    database.sql(f"ALTER DATABASE {database.name} SET search_path = public, pg_catalog")
    plant(database.name, BETTER + FIRST, OPERATORS + FIRST_OPERATORS)
    equal(database.lock("-n").wait(), 0)
    equal(database.lock("-n").wait(), 0)
    equal(run("-u", database.url(), "status").code, 0)
    true(not database.has_been_robbed(), "mallory is a superuser")


class Pooled:
    """The database behind a pooler that gives every transaction to another session."""

    def __init__(self, database, sessions=3):
        self.database = database
        self.port = free_port()
        self.file = os.path.join(server.folder, "pooler.ini")
        write(self.file, f"[databases]\n{database.name} = host=127.0.0.1 port={server.port} user=simba\n[pgbouncer]\n"
              f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = any\n"
              f"pool_mode = transaction\ndefault_pool_size = {sessions}\n")

    def __enter__(self):
        self.process = subprocess.Popen([POOLER, "-q", self.file], stdin=subprocess.DEVNULL, **as_user(server.user))
        self.database.port = self.port
        wait_until(lambda: run("-u", self.database.url(), "status").code == 0, "the pooler serves")
        return self

    def show(self, setting):
        return server.prepare(server.program("psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "simba", "-X", "-A",
                              "-t", "-q", "-c", f"SHOW {setting}", self.database.name)

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait(PATIENCE)


@case
def nothing_of_a_stranger_is_called_behind_a_pooler():
    if not os.path.exists(POOLER):
        print("# there is no pgbouncer")
        return
    database = Database()
    plant(database.name, BETTER, OPERATORS)
    with Pooled(database) as pooled:
        for _ in range(3):
            equal(database.lock().wait(), 0)
        owner = database.lock(command="echo >owns; sleep 1")
        wait_until(lambda: os.path.exists("owns"), "the owner has it")
        equal(database.lock().wait(), 0)
        equal(owner.wait(), 0)
        for _ in range(6):  # others get the same sessions
            equal(pooled.show("search_path"), '"$user", public\n')
            equal(pooled.show("lock_timeout"), "0\n")
    database.expect_safe()


TRAP = """
CREATE FUNCTION public.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.loot(); RETURN NEW; END $$;
"""
TABLE = """
CREATE TABLE public.{name} (mutex varchar(66) PRIMARY KEY, acquired_at bigint NOT NULL, ttl_at bigint NOT NULL,
    transition_at bigint NOT NULL, owner_id varchar(128) NOT NULL, version bigint NOT NULL);
GRANT ALL ON public.{name} TO PUBLIC;
"""


PROPERTY = """
CREATE TABLE public.simba_property (mutex varchar, name varchar, value varchar, written_at bigint,
    PRIMARY KEY (mutex, name));
GRANT ALL ON public.simba_property TO PUBLIC;
"""


@case
def a_table_of_properties_of_a_stranger_is_refused_and_the_rest_works():
    database = Database()
    psql(LOOT + TRAP + PROPERTY + "CREATE TRIGGER t BEFORE INSERT ON public.simba_property FOR EACH ROW EXECUTE"
         " FUNCTION public.trap()", database.name, "mallory")
    equal(database.lock("-n").wait(), 0)
    program = run("-u", database.url(), "lock", "--once-per", "1h", "m", "--", "touch", "ran")
    equal(program.code, 77)
    contains(program.said(), "simba_property belongs to the role mallory")
    true(not os.path.exists("ran"), "it ran without a record")
    database.expect_safe()


@case
def a_user_who_may_not_create_the_table_of_properties_is_told_the_statement():
    database = Database()
    equal(database.lock("-n").wait(), 0)
    database.sql("CREATE ROLE clerk LOGIN; GRANT SELECT, INSERT, UPDATE ON simba_mutex TO clerk;"
                 " GRANT ALL ON simba_waiter TO clerk")
    equal(database.lock("-n", user="clerk").wait(), 0)
    url = database.url("clerk")
    program = run("-u", url, "lock", "--once-per", "1h", "m", "--", "touch", "ran")
    equal(program.code, 77)
    contains(program.said(), "CREATE TABLE IF NOT EXISTS public.simba_property")
    true(not os.path.exists("ran"), "it ran without a record")
    statement = read(run("-u", url, "init", "--print").out).split(";")[3]
    database.sql(f"{statement}; GRANT SELECT, INSERT, UPDATE ON simba_property TO clerk")
    equal(run("-u", url, "lock", "--once-per", "1h", "m", "--", "true").code, 0)


WAITERS = "public.simba_waiter (mutex varchar, id varchar, since bigint, client varchar, reserved_until bigint, note varchar)"
IN_THE_PLACE_OF_WAITERS = [
    f"CREATE TABLE {WAITERS}; CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON public.simba_waiter FOR EACH ROW"
    " EXECUTE FUNCTION public.trap()",
    f"CREATE TABLE {WAITERS}; CREATE RULE r AS ON INSERT TO public.simba_waiter DO ALSO SELECT public.loot()",
    "CREATE FUNCTION public.lure() RETURNS varchar LANGUAGE plpgsql AS $$ BEGIN PERFORM public.loot(); RETURN ''; END $$;"
    "CREATE VIEW public.simba_waiter AS SELECT ''::varchar mutex, ''::varchar id, 0::bigint since, ''::varchar client,"
    " 0::bigint reserved_until, public.lure() note",
    f"CREATE TABLE {WAITERS} PARTITION BY RANGE (since)",
    "CREATE TABLE public.x (a int); CREATE INDEX simba_waiter ON public.x (a)",
    "CREATE SEQUENCE public.simba_waiter",
    "CREATE TYPE public.simba_waiter AS (a int)",
]


@case
def a_table_of_waiters_of_a_stranger_is_not_used():
    for planted in IN_THE_PLACE_OF_WAITERS:
        database = Database()
        psql(LOOT + TRAP + planted, database.name, "mallory")
        client = database.lock("-n")
        equal(client.wait(), 0)
        contains(client.said(), "contenders do not wait in line")
        contend(database)
        database.expect_safe()


def forge(database, client, identity="'forged'", reserved_until="0"):
    database.sql(f"INSERT INTO simba_waiter VALUES ('m', {identity}, 0, {client}, {reserved_until}, '')")


@case
def forged_waiters_count_as_dead_ones():
    """No channel has such a name, and no notice such a length."""
    for forged in (["''"], ["repeat('x', 64)"], ["repeat('\u00e4', 40)"], ["'c'", "repeat('x', 8000)"],
                   ["''", "'observer'", "-9223372036854775807"]):
        database = Database()
        equal(database.lock("-n").wait(), 0)
        forge(database, *forged)
        contend(database)
        equal(database.lock("-n").wait(), 0)
        true("not permitted" not in (log := read(os.path.join(server.folder, "log"))) and
             "cannot be empty" not in log and "too long" not in log, log)


@case
def a_forged_reservation_without_an_end_is_none():
    database = Database()
    equal(database.lock("-n").wait(), 0)
    forge(database, "'c'", reserved_until="9223372036854775807")
    equal(database.lock("-n").wait(), 0)
    contend(database)
    equal(database.sql("SELECT count(*) FROM simba_waiter WHERE id = 'forged'").strip(), "0")


@case
def a_row_of_forged_reservations_does_not_keep_a_mutex_for_nobody():
    """They count for two seconds after the mutex has become free."""
    database = Database()
    equal(database.lock("-n").wait(), 0)
    database.sql("INSERT INTO simba_waiter SELECT 'm', 'forged' || i, i, 'c',"
                 " (extract(epoch FROM clock_timestamp()) * 1000)::bigint + i * 500, '' FROM generate_series(1, 1200) i")
    equal(database.lock("-w", "20s").wait(), 0)
    contend(database)


class LockedWaiters:
    """A session of mallory's, who may change simba_waiter and nothing else, and locks it."""

    def __init__(self, database):
        self.database = database

    def __enter__(self):
        self.database.sql("GRANT UPDATE, DELETE ON simba_waiter TO mallory")
        self.process = subprocess.Popen(
            [server.program("psql"), "-h", "127.0.0.1", "-p", str(server.port), "-U", "mallory", "-X", "-q", "-c",
             "BEGIN; LOCK TABLE simba_waiter IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)", self.database.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **as_user(server.user))
        wait_until(lambda: self.is_locked(), "the table is locked")

    def is_locked(self):
        return self.database.sql("SELECT count(*) FROM pg_locks WHERE relation = 'simba_waiter'::regclass AND granted"
                                 " AND mode = 'AccessExclusiveLock'") == "1\n"

    def __exit__(self, *unused):
        self.database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mallory'")
        self.process.wait(PATIENCE)


@case
def a_user_who_locks_the_table_of_waiters_takes_nothing_from_the_owner():
    """Nobody acquires anything meanwhile; afterwards all goes on."""
    database = Database()
    equal(database.lock("-n").wait(), 0)
    owner = database.lock(command="echo >owns; while [ ! -e go ]; do sleep 0.01; done")
    wait_until(lambda: os.path.exists("owns"), "the owner has it")
    with LockedWaiters(database):
        version = int(database.sql("SELECT version FROM simba_mutex"))
        rival = database.lock("-w", "60s", command="echo >rival")
        wait_until(lambda: int(database.sql("SELECT version FROM simba_mutex")) > version + 3, "the owner renews")
        true(not os.path.exists("rival"), "there are two owners")
        for command in (["lock", "-n", "m", "--", "touch", "ran"], ["lock", "-n", "other", "--", "touch", "ran"],
                        ["release", "--force", "m"]):
            program = run("-u", database.url(), *command)
            equal((command, program.code), (command, 69))
            contains(program.said(), "locked by another client")
        true(not os.path.exists("ran"), "a third one owns")
    write("go", "")
    equal(owner.wait(), 0)
    equal(rival.wait(), 0)
    equal(run("-u", database.url(), "lock", "-n", "other", "--", "true").code, 0)


def expect_refusal(database):
    for arguments in (["lock", "-n", "m", "--", "true"], ["status"], ["init"], ["release", "--force", "m"]):
        program = run("-u", database.url(), *arguments)
        equal(program.code, 77)
        contains(program.said(), "public.simba_mutex")
        contains(program.said(), "mallory")
    database.expect_safe()


@case
def a_table_of_a_stranger_is_refused_and_its_owner_named():
    database = Database()
    database.sql(LOOT + TRAP + TABLE.format(name="simba_mutex") +
                 "CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON public.simba_mutex FOR EACH ROW"
                 " EXECUTE FUNCTION public.trap()", "mallory")
    expect_refusal(database)


@case
def a_view_of_a_stranger_is_refused():
    database = Database()
    database.sql(LOOT + TRAP + TABLE.format(name="hidden") +
                 "CREATE VIEW public.simba_mutex AS SELECT * FROM public.hidden;"
                 "GRANT ALL ON public.simba_mutex TO PUBLIC;"
                 "CREATE TRIGGER trap INSTEAD OF INSERT OR UPDATE ON public.simba_mutex FOR EACH ROW"
                 " EXECUTE FUNCTION public.trap()", "mallory")
    expect_refusal(database)


@case
def a_table_that_a_stranger_puts_in_the_place_of_another_is_refused_by_the_next_connection():
    database = Database()
    equal(database.lock("-n").wait(), 0)
    database.sql("DROP TABLE public.simba_mutex")
    database.sql(LOOT + TABLE.format(name="simba_mutex"), "mallory")
    expect_refusal(database)


@case
def what_a_trigger_of_the_table_calls_is_not_looked_up_where_strangers_create():
    """A careless one of the table's rightful owner: without a schema length() is whatever fits best."""
    database = Database()
    plant(database.name, [each for each in BETTER if each[0] == "length"], [])
    equal(database.lock("-n").wait(), 0)
    database.sql("CREATE FUNCTION public.measure() RETURNS trigger LANGUAGE plpgsql AS"
                 " $$ BEGIN PERFORM length(NEW.mutex); RETURN NEW; END $$;"
                 "CREATE TRIGGER measure BEFORE UPDATE ON public.simba_mutex FOR EACH ROW"
                 " EXECUTE FUNCTION public.measure()")
    for _ in range(2):
        equal(database.lock("-n").wait(), 0)
    database.expect_safe()


@case
def tables_of_the_user_and_of_owners_and_superusers_are_taken():
    for role in ("plain", "keeper", "maker", "simba"):
        database = Database(owner="keeper")
        database.sql("CREATE SCHEMA made AUTHORIZATION maker; GRANT ALL ON SCHEMA made TO PUBLIC;"
                     f"ALTER DATABASE {database.name} SET search_path = made; SET search_path = made;" +
                     TABLE.format(name="x").replace("public.x", "made.simba_mutex") +
                     f"ALTER TABLE made.simba_mutex OWNER TO {role}")
        equal(database.lock("-n", user="plain").wait(), 0)
        database.sql("ALTER TABLE made.simba_mutex OWNER TO mallory")
        equal(database.lock("-n", user="plain").wait(), 77)


@case
def a_table_is_created_in_the_first_schema_of_the_path():
    database = Database()
    database.sql('CREATE SCHEMA "Odd ""one"; ALTER DATABASE {} SET search_path = "Odd ""one", public'.format(
        database.name))
    for _ in range(2):
        equal(database.lock("-n").wait(), 0)
    equal(database.sql("SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
                       " WHERE relname = 'simba_mutex'"), 'Odd "one\n')


@case
def another_table_that_users_with_other_paths_find_is_warned_of():
    database = Database()

    def said():
        program = database.lock("-n")
        equal(program.wait(), 0)
        return program.said()

    database.sql("CREATE SCHEMA other; CREATE VIEW other.simba_mutex AS SELECT 1")
    true("other" not in said(), "a view is no table")
    database.sql(f"DROP VIEW other.simba_mutex; ALTER DATABASE {database.name} SET search_path = other")
    for _ in range(2):
        warning = said()
        equal(warning.count("other.simba_mutex"), 1)
        contains(warning, "public.simba_mutex")
        contains(warning, "SET search_path")
    database.sql("DROP TABLE public.simba_mutex")
    true("search_path" not in said(), "there is one table only")


@case
def a_table_that_moves_to_another_schema_of_the_path_is_followed():
    database = Database()
    database.sql(f"CREATE SCHEMA other; ALTER DATABASE {database.name} SET search_path = public, other")
    owner = database.lock(command="echo >owns; while [ ! -e go ]; do sleep 0.01; done")
    wait_until(lambda: os.path.exists("owns"), "the owner has it")
    database.sql("ALTER TABLE public.simba_mutex SET SCHEMA other")
    before = database.sql("SELECT version FROM other.simba_mutex")
    wait_until(lambda: database.sql("SELECT version FROM other.simba_mutex") != before, "the owner renews there")
    write("go", "")
    equal(owner.wait(), 0)
    equal(database.sql("SELECT to_regclass('public.simba_mutex') IS NULL"), "t\n")


# ---- A server that lies ---------------------------------------------------------------------------

SECRET = "open-sesame"
OTHER = 65534  # a user who is not the one that runs simba


def meet(fake, *options, **more):
    """A client with a password meets the server; returns it when it has given up."""
    return run("-u", "&".join([f"postgres://u:{SECRET}@127.0.0.1:{fake.port}/d?connect-timeout=2s", *options]), "status",
               **more)


def expect_no_password(talk, behind=b""):
    with FakeServer(talk, behind) as fake:
        client = meet(fake)
        true(fake.connections > 0, "the client has come")
        true(SECRET.encode() not in fake.heard, f"the server was told the password: {fake.heard}")
    true(client.code != 0, "the client takes it for a server")
    return client


@case
def a_server_that_asks_for_the_password_itself_is_not_told():
    def talk(fake):
        fake.say(ask_for(CLEARTEXT))
        fake.take()
    client = expect_no_password(talk)
    equal(client.code, 77)
    contains(client.said(), "tls=on")


@case
def a_request_for_the_password_in_small_pieces_is_not_answered():
    def talk(fake):
        fake.client.setsockopt(6, 1, 1)
        for byte in ask_for(CLEARTEXT):
            fake.say(bytes([byte]))
        fake.take()
    expect_no_password(talk)


@case
def a_request_for_the_password_behind_the_refusal_of_tls_is_not_answered():
    def talk(fake):
        fake.say(message(b"S", b"a\0b\0"))  # has the client look at what came before
        fake.take()
    expect_no_password(talk, behind=ask_for(CLEARTEXT))


@case
def a_request_for_the_password_behind_another_one_is_not_answered():
    def at_once(fake):
        fake.say(ask_for(MD5, b"salt"), ask_for(CLEARTEXT))
        fake.take()
        fake.take()

    def afterwards(fake):
        fake.say(ask_for(SASL, b"SCRAM-SHA-256\0\0"))
        fake.take()
        fake.say(ask_for(CLEARTEXT))
        fake.take()

    for talk in (at_once, afterwards):
        expect_no_password(talk)


@case
def the_plain_client_of_bench_does_not_tell_it_either():
    """Between a client and its server: the library's own first connection goes through, so that the bench begins."""
    database = Database()
    with Middle(server.port) as middle:
        bench = run("-u", f"postgres://simba:{SECRET}@127.0.0.1:{middle.port}/{database.name}?{LEASE}",
                    "bench", "--count", "5", "--rounds", "1", "cycle")
        wait_until(lambda: len(middle.told) == middle.connections - 1, "all have been asked")
        true(middle.told != [], "no one was asked")
        equal([told for told in middle.told if told], [])
    contains(bench.said() + read(bench.out), "asks for the password in clear text")


@case
def passwords_are_proved_to_a_server_without_tls():
    database = Database()
    equal(database.lock("-n").wait(), 0)
    database.sql("GRANT ALL ON simba_mutex TO plain")
    for way in ("md5", "scram-sha-256"):
        psql(f"SET password_encryption = '{way}'; ALTER ROLE plain PASSWORD '{SECRET}'", "postgres")
        write_rules(f"host all plain 127.0.0.1/32 {way}\n")
        equal(database.lock("-n", user=f"plain:{SECRET}").wait(), 0)
        equal(database.lock("-n", user="plain:wrong").wait(), 77)
    write_rules("host all plain 127.0.0.1/32 password\n")
    equal(database.lock("-n", user=f"plain:{SECRET}").wait(), 77)
    write_rules("")


def write_rules(first):
    """Who has to log in how; what was there before comes behind it."""
    path = os.path.join(server.folder, "data", "pg_hba.conf")
    kept = [line for line in read(path).splitlines(True) if " plain 127.0.0.1" not in line]
    write(path, first + "".join(kept))
    psql("SELECT pg_reload_conf()", "postgres")
    wait_until(lambda: psql("SELECT count(*) FROM pg_hba_file_rules WHERE user_name = '{plain}'", "postgres")
               == f"{len(first.splitlines())}\n", "the rules are read")


def expect_little_memory(talk):
    with FakeServer(talk) as fake:
        client = meet(fake, "timeout=20s", preexec_fn=limit_memory(512))
        equal(client.code, 69)
        contains(client.said(), "the server sends data that the client did not ask for")


@case
def a_server_that_sends_rows_without_end_is_left():
    def talk(fake):
        fake.say(WELCOME)
        fake.take()
        fake.say(message(b"1"), message(b"2"), message(b"T", struct.pack(">H", 1) + b"a\0" + bytes(6) +
                                                     struct.pack(">IhiH", 25, -1, -1, 0)))
        row = message(b"D", struct.pack(">HI", 1, 60000) + bytes(60000))
        while True:
            fake.say(row * 16)
    expect_little_memory(talk)


@case
def a_server_that_sends_parameters_without_end_is_left():
    def talk(fake):
        fake.say(ask_for(0))
        number = 0
        while True:
            fake.say(*[message(b"S", f"p{number + i}\0{'v' * 20000}\0".encode()) for i in range(16)])
            number += 16
    expect_little_memory(talk)


@case
def a_server_that_sends_notices_before_it_is_asked_does_not_hold_the_client():
    def talk(fake):
        fake.say(WELCOME)
        notice = message(b"N", b"SNOTICE\0C00000\0M" + b"z" * 60000 + b"\0\0")
        while True:
            fake.say(notice * 16)
    expect_little_memory(talk)


# ---- Files of another user ------------------------------------------------------------------------


def of_another_user(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path, text)
    os.chmod(path, 0o600)
    os.chown(path, OTHER, OTHER)


@case
def a_password_file_of_another_user_is_refused():
    if os.getuid() != 0:
        return
    database = Database()
    here = {"HOME": os.getcwd()}
    of_another_user(os.path.abspath(".pgpass"), "*:*:*:*:wrong\n")
    for environment in (here, {"HOME": "/", "PGPASSFILE": os.path.abspath(".pgpass")}):
        client = run("-u", database.url(), "status", env=environment)
        equal(client.code, 78)
        contains(client.said(), ".pgpass is refused: it belongs to user 65534")
    equal(run("-u", database.url("simba:"), "status", env=here).code, 78)
    equal(run("-u", database.url("simba:x"), "status", env=here).code, 0)
    os.chown(".pgpass", 0, 0)
    equal(run("-u", database.url(), "status", env=here).code, 0)


@case
def a_service_file_of_another_user_is_refused():
    if os.getuid() != 0:
        return
    database = Database()
    here = {"HOME": os.getcwd()}
    of_another_user(os.path.abspath(".pg_service.conf"), f"[s]\nhost=127.0.0.1\nport={server.port}\n"
                    f"user=simba\ndbname={database.name}\n")
    for url, environment in (("postgres:///?service=s", here), ("postgres://", {**here, "PGSERVICE": "s"}),
                             ("postgres:///?service=s", {"PGSERVICEFILE": os.path.abspath(".pg_service.conf")})):
        client = run("-u", url, "status", env=environment)
        equal(client.code, 78)
        contains(client.said(), ".pg_service.conf is refused: it belongs to user 65534")
    equal(run("-u", database.url(), "status", env=here).code, 0)
    os.chown(".pg_service.conf", 0, 0)
    equal(run("-u", "postgres:///?service=s", "status", env=here).code, 0)


def service(database, port):
    return f"[s]\nhost=127.0.0.1\nport={port}\nuser=simba\ndbname={database.name}\n"


@case
def a_service_file_of_another_user_in_the_folder_of_the_system_is_refused():
    if os.getuid() != 0:
        return
    database = Database()
    of_another_user(os.path.abspath("system/pg_service.conf"), service(database, server.port))
    there = {"HOME": os.getcwd(), "PGSYSCONFDIR": os.path.abspath("system")}
    client = run("-u", "postgres:///?service=s", "status", env=there)
    equal(client.code, 78)
    contains(client.said(), "pg_service.conf is refused: it belongs to user 65534")
    os.chown("system/pg_service.conf", 0, 0)
    equal(run("-u", "postgres:///?service=s", "status", env=there).code, 0)


@case
def a_service_file_of_another_mount_namespace_is_refused():
    """libpq goes where the kernel leads it, which the text of a link in /proc does not tell, nor the working folder."""
    if os.getuid() != 0:
        return
    database = Database()
    text = service(database, server.port)
    with OtherMounts({".pg_service.conf": text, "pg_service.conf": text}) as other:
        for environment in ({"HOME": other.folder}, {"PGSERVICEFILE": f"{other.folder}/pg_service.conf"},
                            {"PGSYSCONFDIR": other.folder}, {"HOME": "/proc/self/cwd"}, {"HOME": "."},
                            {"PGSERVICEFILE": "pg_service.conf"}, {"PGSYSCONFDIR": "."}):
            client = run("-u", "postgres:///?service=s", "status", env={"HOME": os.getcwd(), **environment},
                         cwd=other.folder)
            equal((environment, client.code), (environment, 78))
            contains(client.said(), "the service file")


@case
def a_service_file_above_a_folder_that_was_removed_is_refused():
    """The folder has no path any more, and its ".." still leads to the one that it was in."""
    if os.getuid() != 0:
        return
    database = Database()
    os.makedirs("his/removed")
    of_another_user(os.path.abspath("his/.pg_service.conf"), service(database, server.port))
    client = run("-u", "postgres:///?service=s", "status", env={"HOME": ".."},
                 preexec_fn=lambda: (os.chdir("his/removed"), os.rmdir("../removed")))
    equal(client.code, 78)
    contains(client.said(), "the service file ../.pg_service.conf cannot be read")


@case
def a_service_file_that_another_user_could_create_later_is_refused():
    """libpq would read it at the next connection."""
    if os.getuid() != 0:
        return
    database = Database()
    os.makedirs("system")
    write("system/pg_service.conf", service(database, server.port))
    os.makedirs("open")
    os.chmod("open", 0o1777)
    for home in ("open", "open/later"):
        client = run("-u", "postgres:///?service=s", "status",
                     env={"HOME": os.path.abspath(home), "PGSYSCONFDIR": os.path.abspath("system")})
        equal(client.code, 78)
        contains(client.said(), "another user could create it")


@case
def a_service_file_is_checked_again_for_each_connection():
    """The user that runs simba makes its folder another user's; root does so here."""
    if os.getuid() != 0:
        return
    database = Database()
    os.makedirs("system")
    write("system/pg_service.conf", service(database, server.port))
    os.makedirs("home")
    owner = Simba("-u", f"postgres:///?service=s&stop-timeout=1s&{LEASE}", "lock", "m", "--", "sh", "-c",
                  "echo >owns; while [ ! -e go ]; do sleep 0.01; done",
                  env={"HOME": os.path.abspath("home"), "PGSYSCONFDIR": os.path.abspath("system")})
    wait_until(lambda: os.path.exists("owns"), "the owner has it")
    with FakeServer(lambda fake: fake.take()) as fake:
        of_another_user(os.path.abspath("home/.pg_service.conf"), service(database, fake.port))
        os.chown("home", OTHER, OTHER)
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'simba'"
                     f" AND datname = '{database.name}'")
        wait_until(lambda: "belongs to user 65534" in owner.said(), "it has seen the file")
        equal(fake.connections, 0)
    owner.send(signal.SIGTERM)
    owner.wait()


def slashes_before(path, length):
    return "/" * (length - len(path)) + path


LIBPQ_PATH = 1023  # bytes; libpq cuts HOME and longer paths behind them


@case
def a_path_that_libpq_would_cut_is_refused():
    """The path goes to root's own folder; cut, it names a file that the other user has created beside that."""
    if os.getuid() != 0:
        return
    database = Database()
    os.makedirs("open/private")
    os.chmod("open", 0o1777)
    of_another_user(os.path.abspath("open/pri"), service(database, server.port))
    private = slashes_before(os.path.abspath("open/pri"), LIBPQ_PATH) + "vate"
    for length in (len(private), 1100, 4079, 4080, 4096, 4200):
        long = private.ljust(length, "/")
        for variables in ({"HOME": long}, {"HOME": "/", "PGSYSCONFDIR": long}, {"PGSERVICEFILE": long}):
            client = run("-u", "postgres://simba:x@/?service=s", "status", env=variables)
            equal((client.code, length, sorted(variables)), (78, length, sorted(variables)))
            contains(client.said(), "the path of the service file is too long")
        for variables in ({"HOME": long}, {"PGPASSFILE": long}):
            client = run("-u", database.url(), "status", env=variables)
            equal((client.code, length, sorted(variables)), (78, length, sorted(variables)))
            contains(client.said(), "the path of the password file is too long")
        equal(run("-u", database.url("simba:x"), "status", env={"HOME": long, "PGSYSCONFDIR": long}).code, 0)


@case
def a_path_that_libpq_just_does_not_cut_is_used():
    database = Database()
    write(".pg_service.conf", service(database, server.port))
    home = slashes_before(os.getcwd(), LIBPQ_PATH - len("/.pg_service.conf"))
    equal(run("-u", "postgres:///?service=s", "status", env={"HOME": home}).code, 0)
    client = run("-u", "postgres:///?service=s", "status", env={"HOME": "/" + home})
    equal(client.code, 78)
    contains(client.said(), "too long")


@case
def tls_is_not_left_out_on_a_socket():
    database = Database()
    for url in (f"postgres://simba@/{database.name}?socket={server.folder}/.s.PGSQL.{server.port}&tls=on",
                f"postgres://simba@{server.folder.replace('/', '%2F')}:{server.port}/{database.name}?tls=on",
                f"postgres://simba@/{database.name}?tls-verify=no"):
        client = run("-u", url, "status", env={"PGHOST": server.folder, "PGPORT": str(server.port)})
        equal(client.code, 78)
        contains(client.said(), "no TLS on a socket")


class Tls:
    """The server has TLS for a while, with a certificate that is its own authority."""

    def __enter__(self):
        self.certificate = os.path.join(server.folder, "data", "server.crt")
        server.prepare("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                       "-keyout", "data/server.key", "-out", "data/server.crt", "-days", "2", "-subj", "/CN=127.0.0.1",
                       "-addext", "subjectAltName=IP:127.0.0.1")
        self._set("SET ssl = on", "on")
        return self

    @staticmethod
    def _set(what, value):
        psql(f"ALTER SYSTEM {what}", "postgres")
        psql("SELECT pg_reload_conf()", "postgres")
        wait_until(lambda: psql("SHOW ssl", "postgres") == f"{value}\n", "TLS is as it was told")

    def __exit__(self, *unused):
        self._set("RESET ssl", "off")


@case
def authorities_and_certificates_in_the_home_are_not_used():
    """Files that are no certificates make libpq fail where it reads them."""
    database = Database()
    os.makedirs(".postgresql")
    here = {"HOME": os.getcwd()}
    for name in ("root.crt", "postgresql.crt", "postgresql.key"):
        write(os.path.join(".postgresql", name), "no certificate\n")
        os.chmod(os.path.join(".postgresql", name), 0o600)
    with Tls() as tls:
        equal(run("-u", database.url() + "&tls-verify=no", "status", env=here).code, 0)
        equal(run("-u", database.url() + f"&tls-ca={tls.certificate}", "status", env=here).code, 0)
        write(os.path.join(".postgresql", "root.crt"), read(tls.certificate))
        client = run("-u", database.url() + "&tls=on", "status", env=here)
        equal(client.code, 69)
        contains(client.said(), "certificate verify failed")


@case
def the_password_itself_goes_to_a_server_that_is_verified():
    database = Database()
    psql(f"ALTER ROLE plain PASSWORD '{SECRET}'", "postgres")
    equal(run("-u", database.url(), "init").code, 0)
    database.sql("GRANT SELECT ON simba_mutex TO plain")
    url = database.url(f"plain:{SECRET}")
    write_rules("host all plain 127.0.0.1/32 password\n")
    with Tls() as tls:
        equal(run("-u", f"{url}&tls-ca={tls.certificate}", "status").code, 0)
        equal(run("-u", f"{url}&tls=off", "status").code, 77)
    write_rules("")


# ---- Tables that are not for all, or not for good ---------------------------------------------------


@case
def no_temporary_table_is_created_or_used():
    """Each session would have its own, and each client own what it likes."""
    database = Database()
    database.sql(f"ALTER DATABASE {database.name} SET search_path = pg_temp, public")
    for arguments in (["lock", "-n", "m", "--", "true"], ["init"], ["status"]):
        client = run("-u", database.url(), *arguments)
        equal(client.code, 78)
        contains(client.said(), "temporary")
    database.sql("CREATE TABLE public.x (); SET search_path = public;" + TABLE.format(name="simba_mutex"))
    equal(database.lock("-n").wait(), 0)


@case
def a_temporary_table_that_a_session_of_a_pooler_has_is_refused():
    if not os.path.exists(POOLER):
        print("# there is no pgbouncer")
        return
    database = Database()
    with Pooled(database, sessions=1):
        database.sql("DROP TABLE public.simba_mutex")
        server.prepare(server.program("psql"), "-h", "127.0.0.1", "-p", str(database.port), "-U", "simba", "-X", "-q",
                       "-c", TABLE.format(name="simba_mutex").replace("public.", "pg_temp."), database.name)
        client = run("-u", database.url(), "status")
        equal(client.code, 78)
        contains(client.said(), "temporary")


@case
def an_unlogged_table_is_refused():
    """A crash of the server would empty it: all leases gone, all tokens again."""
    database = Database()
    equal(database.lock("-n").wait(), 0)
    database.sql("ALTER TABLE public.simba_mutex SET UNLOGGED")
    client = run("-u", database.url(), "status")
    equal(client.code, 78)
    contains(client.said(), "SET LOGGED")
    database.sql("ALTER TABLE public.simba_mutex SET LOGGED")
    equal(database.lock("-n").wait(), 0)


if __name__ == "__main__":
    if Postgres.missing() is not None:
        print(f"1..0 # SKIP {Postgres.missing()}")
        sys.exit(0)
    atexit.register(server.stop)
    server.start()
    psql("CREATE ROLE mallory LOGIN; CREATE ROLE plain LOGIN; CREATE ROLE keeper; CREATE ROLE maker", "postgres")
    sys.exit(main())

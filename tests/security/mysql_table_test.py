#!/usr/bin/env python3
"""A user of a MySQL server who may create tables, views, triggers and functions in Simba's database, but not read the
victim's data, wants code to run with the victim's rights: by what stands in the place of Simba's table. The code copies a
secret to where that user can read it, so that the server tells whether it ran.
"""
import atexit
import os
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [os.path.join(TESTS, "lib"), os.path.join(TESTS, "cli")]
from program import PATIENCE, Simba, case, contains, equal, main, read, run, true, wait_until, write
from servers import Mariadb

OK, UNAVAILABLE, DENIED, CONFIG = 0, 69, 77, 78
COLUMNS = ("mutex varchar(66) PRIMARY KEY, acquired_at bigint unsigned NOT NULL, ttl_at bigint unsigned NOT NULL,"
           " transition_at bigint unsigned NOT NULL, owner_id varchar(128) NOT NULL, version bigint unsigned NOT NULL")
TIMES = "mutex, acquired_at, ttl_at, transition_at, owner_id"
VIEW = "CREATE SQL SECURITY INVOKER VIEW simba_mutex AS SELECT "
SET_UP = [
    "DROP DATABASE IF EXISTS locks", "DROP DATABASE IF EXISTS payroll",
    "CREATE DATABASE locks", "CREATE DATABASE payroll", "CREATE TABLE payroll.salaries (secret varchar(80))",
    "INSERT INTO payroll.salaries VALUES ('top secret')",
    "CREATE OR REPLACE USER victim@'127.0.0.1'", "CREATE OR REPLACE USER mallory@'127.0.0.1'",
    "GRANT ALL ON payroll.* TO victim@'127.0.0.1'",
    "GRANT SELECT, INSERT, UPDATE, CREATE, EXECUTE ON locks.* TO victim@'127.0.0.1'",
    "GRANT SELECT, INSERT, UPDATE, EXECUTE, CREATE, ALTER, CREATE VIEW, CREATE ROUTINE, TRIGGER ON locks.*"
    " TO mallory@'127.0.0.1'"]
STEAL = ("CREATE FUNCTION steal() RETURNS bigint unsigned SQL SECURITY INVOKER MODIFIES SQL DATA"
         " BEGIN INSERT INTO locks.loot SELECT secret FROM payroll.salaries; RETURN 0; END")

server = Mariadb()


def sql(statement, user="mallory", database="locks"):
    return server.prepare("mariadb", "--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", "-P", str(server.port), "-u",
                          user, "-N", "-e", f"DELIMITER //\n{statement}//", database)


def plant(*statements):
    """In a new database, before the victim comes."""
    for statement in SET_UP:
        sql(statement, "root", "mysql")
    for statement in ("CREATE TABLE loot (what varchar(80))", STEAL, *statements):
        sql(statement)


def sent():
    """The bytes that the server has sent to all clients."""
    return int(sql("SHOW GLOBAL STATUS LIKE 'Bytes_sent'", "root").split()[-1])


def url():
    return f"mysql://victim@127.0.0.1:{server.port}/locks?ttl=2s&transition=2s&timeout=2s"


def victim(*command):
    return run("-u", url(), *command)


def expect_refused(code, *words):
    for command in (["status"], ["status", "m"], ["lock", "-n", "m", "--", "true"], ["release", "--force", "m"],
                    ["init"]):
        program = victim(*command)
        equal((command, program.code), (command, code))
        for word in words:
            contains(program.said(), word)


def expect_safe():
    """Mallory's code works, and did not run."""
    equal(sql("SELECT * FROM loot"), "")
    sql("SELECT steal()", "victim")
    equal(sql("SELECT * FROM loot"), "top secret\n")


@case
def a_view_in_the_place_of_the_table_does_not_run():
    for view in ("* FROM base WHERE steal() = 0", f"{TIMES}, version + steal() AS version FROM base",
                 f"{TIMES}, steal() AS version FROM (SELECT *, steal() FROM base LIMIT 9) AS inner_one"):
        plant(f"CREATE TABLE base ({COLUMNS})", "INSERT INTO base VALUES ('m', 0, 0, 0, '', 0)", VIEW + view)
        expect_refused(DENIED, "simba_mutex", "VIEW")
        expect_safe()


@case
def nor_does_one_without_the_columns():
    plant(VIEW + "steal() AS other")
    expect_refused(DENIED, "simba_mutex", "VIEW")
    expect_safe()


@case
def a_view_in_the_place_of_the_table_of_waiters_does_not_run():
    """The mutex works without it."""
    for view in ("mutex, id, since, client, reserved_until, note FROM waiters WHERE steal() = 0",
                 "steal() AS mutex, '' AS id, 0 AS since, '' AS client, 0 AS reserved_until, '' AS note"):
        plant(f"CREATE TABLE simba_mutex ({COLUMNS})",
              "CREATE TABLE waiters (mutex varchar(264), id varchar(128), since bigint, client varchar(64),"
              " reserved_until bigint, note varchar(255), KEY simba_waiter_order (mutex))",
              "CREATE SQL SECURITY INVOKER VIEW simba_waiter AS SELECT " + view)
        sql("GRANT DELETE ON locks.* TO victim@'127.0.0.1'", "root")
        for command in (["lock", "-n", "m", "--", "true"], ["status", "m"]):
            program = victim(*command)
            equal((command, program.code), (command, OK))
            contains(program.said(), "simba_waiter is not a table")
        expect_safe()


@case
def a_trigger_runs_with_the_rights_of_its_creator():
    """So it can stop the victim, and not rob it."""
    plant(f"CREATE TABLE simba_mutex ({COLUMNS})",
          "CREATE TRIGGER t BEFORE INSERT ON simba_mutex FOR EACH ROW SET NEW.version = steal()")
    equal(victim("lock", "-n", "m", "--", "true").code, DENIED)
    expect_safe()


@case
def a_view_in_the_place_of_the_table_of_properties_does_not_run_and_the_rest_works():
    plant("CREATE TABLE base (mutex varchar(66), name varchar(32), value varchar(512), written_at bigint)",
          "CREATE SQL SECURITY INVOKER VIEW simba_property AS SELECT * FROM base WHERE steal() = 0")
    equal(victim("lock", "-n", "m", "--", "true").code, OK)
    program = victim("lock", "--once-per", "1h", "m", "--", "touch", "ran")
    equal(program.code, DENIED)
    contains(program.said(), "simba_property is not a BASE TABLE")
    true(not os.path.exists("ran"), "it ran without a record")
    expect_safe()


PROPERTY = ("CREATE TABLE simba_property (mutex varchar(66) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, name varchar(32),"
            " value {value} CHARACTER SET utf8mb4, written_at bigint NOT NULL, PRIMARY KEY (mutex, name)) ENGINE = {engine}")


@case
def a_table_of_properties_of_an_engine_without_transactions_is_refused():
    for engine in ("MyISAM", "MEMORY", "Aria"):
        plant(PROPERTY.format(value="varchar(512)", engine=engine))
        equal(victim("lock", "-n", "m", "--", "true").code, OK)
        program = victim("lock", "--once-per", "1h", "m", "--", "touch", "ran")
        equal((engine, program.code), (engine, CONFIG))
        contains(program.said(), "ALTER TABLE simba_property ENGINE = InnoDB")
        true(not os.path.exists("ran"), "it ran without a record")
    sql("ALTER TABLE simba_property ENGINE = InnoDB", "root")
    equal(victim("lock", "--once-per", "1h", "m", "--", "true").code, OK)


@case
def a_value_of_many_megabytes_is_cut_by_the_server():
    plant(PROPERTY.format(value="longtext", engine="InnoDB"))
    sql("SET GLOBAL max_allowed_packet = 33554432", "root")
    sql("INSERT INTO simba_property VALUES ('m', 'last-run', repeat('x', 16777216), 1)")
    before = sent()
    equal(victim("lock", "--once-per", "1h", "m", "--", "touch", "ran").code, OK)
    true(os.path.exists("ran"), "nonsense counts as a run")
    true(sent() - before < 1048576, "the server has sent the whole value")
    os.remove("ran")


@case
def a_user_who_may_not_create_the_table_of_properties_is_told_the_statement():
    plant()
    equal(victim("lock", "-n", "m", "--", "true").code, OK)
    sql("REVOKE CREATE ON locks.* FROM victim@'127.0.0.1'", "root", "mysql")
    equal(victim("lock", "-n", "m", "--", "true").code, OK)
    program = victim("lock", "--once-per", "1h", "m", "--", "touch", "ran")
    equal(program.code, DENIED)
    contains(program.said(), "CREATE TABLE IF NOT EXISTS simba_property")
    true(not os.path.exists("ran"), "it ran without a record")
    statements = [text for text in read(victim("init", "--print").out).split(";") if "simba_property" in text]
    sql(statements[0], "root")
    equal(victim("lock", "--once-per", "1h", "m", "--", "true").code, OK)


@case
def a_column_cannot_call_a_function():
    plant()
    for column in ("x bigint DEFAULT (steal())", "x bigint AS (steal())", "x bigint AS (steal()) STORED",
                   "x bigint CHECK (steal() = 0)"):
        try:
            sql(f"CREATE TABLE simba_mutex ({COLUMNS}, {column})")
        except subprocess.CalledProcessError as refused:
            contains(refused.stderr, "steal")
        else:
            raise AssertionError(f"the server takes {column}")


@case
def a_table_of_an_engine_without_transactions_is_refused():
    for engine in ("MyISAM", "MEMORY", "Aria"):
        plant(f"CREATE TABLE simba_mutex ({COLUMNS}) ENGINE = {engine}")
        expect_refused(CONFIG, engine, "ALTER TABLE simba_mutex ENGINE = InnoDB")
    sql("ALTER TABLE simba_mutex ENGINE = InnoDB", "root")
    equal(victim("lock", "-n", "m", "--", "true").code, OK)


@case
def a_table_of_the_engine_that_is_the_default_is_used():
    """As that of the JVM library, which names none."""
    plant(f"CREATE TABLE simba_mutex ({COLUMNS})")
    equal(victim("lock", "-n", "m", "--", "true").code, OK)
    true("m" in sql("SELECT mutex FROM simba_mutex"), "the table was not used")


class Session:
    """A session of a user who has those rights on simba_waiter, and no other, and runs a statement without an end."""

    def __init__(self, rights, statement, is_at_work):
        self.rights, self.statement, self.is_at_work = rights, statement, is_at_work

    def __enter__(self):
        sql("CREATE OR REPLACE USER stranger@'127.0.0.1'", "root")
        sql(f"GRANT {self.rights} ON locks.simba_waiter TO stranger@'127.0.0.1'", "root")
        self.process = subprocess.Popen(
            ["mariadb", "--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", "-P", str(server.port), "-u", "stranger",
             "-N", "-e", f"DELIMITER //\n{self.statement}//", "locks"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.is_at_work, "the stranger is at work")

    def __exit__(self, *unused):
        true(self.process.poll() is None, "the stranger's statement has failed")
        sql("KILL USER stranger@'127.0.0.1'", "root")
        self.process.wait(PATIENCE)


def locks_waiters():
    return Session("SELECT", "BEGIN NOT ATOMIC START TRANSACTION; SELECT count(*) FROM simba_waiter FOR UPDATE;"
                   " DO sleep(600); END", lambda: "sleep(600)" in sql("SHOW FULL PROCESSLIST", "root"))


def version():
    return int(sql("SELECT version FROM simba_mutex WHERE mutex = 'm'"))


@case
def a_user_who_locks_the_table_of_waiters_takes_nothing_from_the_owner():
    """What is free can be had meanwhile, and nobody can wait in line; afterwards all goes on."""
    plant()
    sql("GRANT DELETE ON locks.* TO victim@'127.0.0.1'", "root")
    equal(victim("lock", "-n", "m", "--", "true").code, OK)
    owner = Simba("-u", url(), "lock", "m", "--", "sh", "-c", "echo >owns; while [ ! -e go ]; do sleep 0.01; done")
    wait_until(lambda: os.path.exists("owns"), "the owner has it")
    with locks_waiters():
        before = version()
        rival = Simba("-u", url(), "lock", "-w", "60s", "m", "--", "touch", "rival")
        wait_until(lambda: version() > before + 2, "the owner renews")
        program = victim("lock", "-n", "m", "--", "touch", "ran")
        equal(program.code, UNAVAILABLE)
        contains(program.said(), "locked by another client")
        equal(victim("lock", "-n", "free", "--", "true").code, OK)
        true(not os.path.exists("rival") and not os.path.exists("ran"), "there are two owners")
    write("go", "")
    equal(owner.wait(), 0)
    equal(rival.wait(), 0)


NOW = "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) DIV 1000"


def forges_waiters():
    """A reservation far ahead, one that is always a little ahead, and waiters before all others, again and again."""
    untils = ["9223372036854775807", f"{NOW} + 1900", *["0"] * 50]
    rows = ", ".join(f"('m', 'forged{i}', 1, 'simba_00000000000000aa', {until}, '')" for i, until in enumerate(untils))
    return Session("SELECT, INSERT, UPDATE, DELETE",
                   f"BEGIN NOT ATOMIC WHILE 1 DO INSERT INTO simba_waiter VALUES {rows} ON DUPLICATE KEY UPDATE"
                   " reserved_until = VALUES(reserved_until); DO sleep(0.01); END WHILE; END",
                   lambda: "forged" in sql("SELECT id FROM simba_waiter"))


@case
def a_user_who_forges_waiters_and_reservations_bars_nobody():
    plant()
    sql("GRANT DELETE ON locks.* TO victim@'127.0.0.1'", "root")
    equal(victim("lock", "-n", "m", "--", "true").code, OK)
    owner = Simba("-u", url(), "lock", "m", "--", "sh", "-c", "echo >owns; while [ ! -e go ]; do sleep 0.01; done")
    wait_until(lambda: os.path.exists("owns"), "the owner has it")
    waiter = Simba("-u", url(), "lock", "-w", "60s", "m", "--", "true")
    wait_until(lambda: "waiting for" in waiter.said(), "it waits")
    with forges_waiters():
        write("go", "")
        equal(owner.wait(), 0)
        equal(waiter.wait(), 0)
        equal(victim("lock", "-w", "60s", "m", "--", "true").code, OK)


if __name__ == "__main__":
    if "mariadb" not in os.environ.get("SIMBA_STORES", "mariadb").split() or server.missing() is not None:
        print("1..0 # SKIP there is no MySQL in this build, or no server")
        sys.exit(0)
    atexit.register(server.stop)
    server.start()
    sys.exit(main())

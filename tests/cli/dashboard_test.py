#!/usr/bin/python3
"""`simba dashboard` in a browser: what the page shows while owners die, stores go away and names are hostile.

    dashboard_test.py STORE [FOLDER]     sqlite or redis; screenshots go into the folder

It is run by Debian's own Python, which has the package python3-selenium.
"""
import os
import re
import signal
import socket
import sqlite3
import stat
import sys
import tempfile

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    print("1..0 # SKIP python3-selenium is not here")
    sys.exit(77)

import stores
from program import Simba, contains, equal, is_sanitized, lines, now, read, run, true, wait_until, write
from web import Attack, Polled, ask, check_metrics, metric, port_of, renewals_in

# A lease that a busy machine, with a browser on it, does not outlast.
stores.LEASE_OPTIONS = "ttl=1s&transition=2s&jitter=0ms..50ms"
ONE = stores.OneStore(sys.argv[1])
FOLDER = sys.argv[2] if len(sys.argv) > 2 else None
CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--window-size=1400,760"]
HOSTILE = ["<script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">",
           "'\"><b>b</b>&amp;{{7*7}}", "a\u202eb"]


class Browser:
    """One for all cases: its start takes seconds."""

    driver = None

    @classmethod
    def get(cls):
        if cls.driver is None:
            options = webdriver.ChromeOptions()
            cls.folder = tempfile.mkdtemp(prefix="simba-chromium-")
            for flag in [*FLAGS, f"--user-data-dir={cls.folder}"]:
                options.add_argument(flag)
            options.binary_location = CHROMIUM
            options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
            cls.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        return cls.driver


def leader(name, mutex, *options):
    return Simba("--id", name, "lead", *options, mutex, "--", "sleep", "1000")


class Page:
    """A dashboard of its own, and its page in the browser."""

    def __init__(self, *options, **more):
        self.program = Simba("dashboard", "--listen", "0", "--interval", "250ms", *options, **more)
        self.port = port_of(self.program)
        self.driver = Browser.get()
        self.driver.set_window_size(1400, 760)
        self.driver.get(f"http://127.0.0.1:{self.port}/")
        wait_until(lambda: self.text("#held") not in ("", "-"), "the page shows a number")

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, selector):
        return self.script("const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", selector)

    def of_row(self, mutex, selector, what="innerText"):
        """Of all parts of a row."""
        return self.script("const row = [...document.querySelectorAll('#space .row:not([hidden])')]"
                           ".find((one) => one.dataset.mutex === arguments[0]);"
                           "return row ? [...row.querySelectorAll(arguments[1])].map((e) => e[arguments[2]]) : null",
                           mutex, selector, what)

    def owner(self, mutex):
        found = self.of_row(mutex, ".who")
        return found[0].strip() if found else None

    def bars(self, mutex):
        found = self.script("const row = [...document.querySelectorAll('#space .row:not([hidden])')]"
                            ".find((one) => one.dataset.mutex === arguments[0]);"
                            "return row ? [...row.querySelectorAll('.bar')].map((e) => e.dataset.owner) : []", mutex)
        return [name.partition("~")[0] for name in found]

    def open(self, mutex):
        """A click on its row."""
        self.script("[...document.querySelectorAll('#space .row:not([hidden])')]"
                    ".find((one) => one.dataset.mutex === arguments[0]).click()", mutex)

    def zoom(self, ms=60000):
        self.script(f"document.querySelector('[data-span=\"{ms}\"]').click()")

    def shot(self, name):
        if FOLDER is not None:
            self.driver.save_screenshot(os.path.join(FOLDER, f"{ONE.name}-{name}.png"))

    def close(self):
        faults = [line["message"] for line in self.driver.get_log("browser") if line["level"] == "SEVERE"
                  and "net::ERR" not in line["message"] and "403" not in line["message"]]
        self.driver.get("about:blank")
        equal(self.program.end(), 0)
        equal(faults, [])


def shown_after(page, mutex, leaders):
    """Which of them leads, and how long after it has said so the page shows it."""
    name = wait_until(lambda: next((name for name, one in leaders.items() if "leading" in one.said()), None), "one leads")
    begun = now()
    wait_until(lambda: (page.owner(mutex) or "").startswith(name + "~"), f"the page shows {name}")
    return name, now() - begun


@ONE.case
def a_killed_owner_its_successor_and_the_gap_are_seen(prefix):
    """Within a second; a busy machine may be slow at two of three times."""
    mutex = prefix + "job"
    leaders = {"a": leader("a", mutex)}
    page = Page()
    page.zoom()
    owner, _ = shown_after(page, mutex, leaders)
    leaders |= {name: leader(name, mutex) for name in "bc"}
    wait_until(lambda: page.of_row(mutex, ".c-wait") == ["2"], "two wait")
    order, times = [owner], []
    for _ in range(2):
        leaders.pop(owner).end(signal.SIGKILL)
        owner, took = shown_after(page, mutex, leaders)
        order.append(owner)
        times.append(took)
    leaders.pop(owner).end(signal.SIGKILL)
    wait_until(lambda: page.owner(mutex) == "free", "it is free")
    wait_until(lambda: page.text("#held") == "0")
    page.shot("free")
    gap = now()
    wait_until(lambda: now() > gap + 1, "a gap of a second")
    again = leader("d", mutex)
    times.append(shown_after(page, mutex, {"d": again})[1])
    true(min(times) < 1, f"the page showed the owners after {times} s")
    wait_until(lambda: page.bars(mutex) == ["d", *reversed(order)], "each term has a bar")
    ends = page.script("const bars = [...document.querySelectorAll('.bar')].map((e) => e.getBoundingClientRect());"
                       "return bars.map((box) => [box.left, box.right])")
    true(ends[0][0] - ends[1][1] > 5, f"there is no gap: {ends}")
    if ONE.name == "redis":
        true(page.of_row(mutex, ".lost") and page.of_row(mutex, ".gap"), "the loss and the gap are not marked")
    page.open(mutex)
    wait_until(lambda: page.text("#panel h2") == mutex, "it opens")
    contains(page.text("#panel"), "a~")
    page.shot("panel")
    equal(again.end(), 0)
    page.close()


@ONE.case
def hostile_clients_of_the_page_disturb_neither_it_nor_an_owner(prefix):
    mutex = prefix + "job"
    leaders = [leader("a", mutex, "--listen", "0")]
    page = Page()
    wait_until(lambda: (page.owner(mutex) or "").startswith("a~"), "a owns")
    leaders.append(leader("b", mutex))
    wait_until(lambda: page.of_row(mutex, ".c-wait") == ["1"], "b waits")
    polled = Polled(port_of(leaders[0]), "/leader")
    with Attack(page.port):
        polled.start()
        wait_until(lambda: renewals_in(polled.answers) >= 5)
        equal({(status, told["fence"]) for _, _, status, told in polled.end()}, {(200, polled.answers[0][3]["fence"])})
        true(len(os.listdir(f"/proc/{page.program.pid}/fd")) < 200, "it keeps all of them")
        equal(leaders[0].end(), 0)
        wait_until(lambda: (page.owner(mutex) or "").startswith("b~"), "the page is live")
    equal(ask(page.port, "/healthz")[0], 200)
    equal(leaders[1].end(), 0)
    page.close()


@ONE.case
def hostile_names_stay_text(prefix):
    programs = [Simba("--id", f"<i>{place}</i>", "lock", "--note", "<b>note</b>", prefix + name, "--", "sleep", "1000")
                for place, name in enumerate(HOSTILE)]
    page = Page()
    wait_until(lambda: page.text("#held") == str(len(HOSTILE)))
    names = page.script("return [...document.querySelectorAll('#space .row:not([hidden])')].map((e) => e.dataset.mutex)")
    equal(sorted(name for name in names if name.startswith(prefix)), sorted(prefix + name for name in HOSTILE))
    equal(page.script("return document.querySelectorAll('#table script, #table img, #table b').length"), 0)
    equal(page.driver.title, f"{len(HOSTILE)} held - Simba")
    equal(check_metrics(ask(page.port, "/metrics")[1]), (0, ""))
    for program in programs:
        program.end()
    page.close()


def change_store(change, *arguments):
    store = sqlite3.connect(re.match("sqlite:([^?]*)", os.environ["SIMBA_URL"])[1], timeout=60)
    with store:
        change(store, *arguments)
    store.close()


def fill(store, name, count):
    """So many mutexes beside the one of that name, each owned for an hour."""
    columns = [row[1] for row in store.execute("PRAGMA table_info(simba_mutex)")]
    others = ",".join(column for column in columns if column != "mutex")
    store.executemany(f"INSERT INTO simba_mutex (mutex,{others}) SELECT ?,{others} FROM simba_mutex WHERE mutex = ?",
                      [(f"{name}-{number:05}", name) for number in range(count)])
    end_ms = int(now() + 3600) * 1000
    store.execute("UPDATE simba_mutex SET owner_id = 'host~' || substr(mutex, -1) || '12345', ttl_at = ?, "
                  "transition_at = ?, life = 0, life_version = 0 WHERE mutex > ?", (end_ms, end_ms, name))


def empty(store, name):
    """So that the rows of other cases are on the screen again."""
    store.execute("DELETE FROM simba_mutex WHERE mutex > ? AND mutex < ?", (name, name + "~"))


def cost_of(pid, seconds):
    """The part of a core that a process uses meanwhile, and the most memory it ever had, in MiB."""
    def ticks():
        return sum(map(int, read(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:13]))
    begun, before = now(), ticks()
    wait_until(lambda: now() - begun > seconds, "the time is over")
    used = (ticks() - before) / os.sysconf("SC_CLK_TCK") / (now() - begun)
    return used, int(re.search(r"VmHWM:\s+(\d+)", read(f"/proc/{pid}/status"))[1]) / 1024


@ONE.case
def ten_thousand_mutexes_cost_little_and_are_drawn_in_time(prefix):
    if ONE.name != "sqlite":
        raise stores.program.Skipped("rows are easily written on SQLite")
    equal(run("lock", prefix + "many", "--", "true").code, 0)
    change_store(fill, prefix + "many", 10000)
    page = Page("--interval", "500ms")
    wait_until(lambda: page.text("#held") == "10000", "all are held")
    used, mebibytes = cost_of(page.program.pid, 3)
    print(f"# {100 * used:.1f} % of a core, {mebibytes:.0f} MiB")
    if not is_sanitized():
        true(used < 0.1 and mebibytes < 95, f"{100 * used:.1f} % of a core, {mebibytes:.0f} MiB")
    true(page.script("return document.querySelectorAll('#space .row').length") < 100, "rows off the screen have elements")
    took = page.script("const begun = performance.now(); for (let i = 0; i < 10; i++) { state.dirty = true; render(); }"
                       "return (performance.now() - begun) / 10")
    true(took < 250, f"to draw takes {took:.0f} ms")
    page.script("const f = document.querySelector('#filter'); f.value = 'MANY-01234'; f.dispatchEvent(new Event('input'))")
    wait_until(lambda: page.script("return state.shown.length") == 1)
    page.close()
    change_store(empty, prefix + "many")


@ONE.case
def the_store_goes_away_and_comes_back(prefix):
    if ONE.name != "redis":
        raise stores.program.Skipped("there is no server")
    server = stores.Redis()
    page = Page(env={"SIMBA_URL": server.url})
    server.process.kill()
    server.process.wait()
    wait_until(lambda: "The store is away since " in page.text("#banner"), "the banner")
    equal(ask(page.port, "/healthz")[0], 503)
    equal(metric(ask(page.port, "/metrics")[1], "simba_store_up"), 0)
    page.shot("away")
    server.launch()
    server.await_service()
    wait_until(lambda: page.script("return document.querySelector('#banner').hidden"), "the banner is gone")
    equal(ask(page.port, "/healthz")[0], 200)
    page.close()
    server.stop()


@ONE.case
def a_page_with_the_token_hands_over_and_releases(prefix):
    mutex, token = prefix + "job", "0123456789abcdef-token"
    write("token", token + "\n")
    os.chmod("token", 0o600)
    leaders = [leader("a", mutex)]
    page = Page("--allow-handover", "token")
    wait_until(lambda: (page.owner(mutex) or "").startswith("a~"), "a owns")
    leaders.append(leader("b", mutex))
    wait_until(lambda: page.of_row(mutex, ".c-wait") == ["1"], "b waits")
    equal(ask(page.port, f"/release?mutex={mutex}&owner=x&fence=1", "POST", headers={"X-Simba-Token": "wrong"})[0], 403)
    equal(ask(page.port, f"/release?mutex={mutex}&owner=x&fence=1", "POST")[0], 403)
    equal(ask(page.port, f"/release?mutex={mutex}", "POST", headers={"X-Simba-Token": token})[0], 400)
    page.open(mutex)
    page.script("document.querySelector('#panel .hand').click()")
    page.shot("confirm")
    page.script("document.querySelector('#ask input').value = arguments[0];"
                "document.querySelector('#ask form').requestSubmit()", token)
    wait_until(lambda: (page.owner(mutex) or "").startswith("b~"), "b owns")
    contains(page.program.said(), f"hand-over of '{mutex}' from a~")
    wait_until(lambda: "b~" in page.text("#panel .facts"), "the panel shows it")
    page.script("document.querySelector('#panel .danger').click()")
    page.script("document.querySelector('#ask input').value = arguments[0];"
                "document.querySelector('#ask form').requestSubmit()", token)
    wait_until(lambda: f"release of '{mutex}' from b~" in page.program.said(), "it is in the log")
    equal("failed" in page.program.said(), False)
    equal(token in page.driver.page_source, False)
    for one in leaders:
        one.end()
    page.close()


@ONE.case
def it_is_read_only_and_keeps_secrets(prefix):
    page = Page()
    equal(ask(page.port, "/release?mutex=m&owner=x&fence=1", "POST")[0], 403)
    equal(ask(page.port, "/", headers={"Host": "evil.example.org"})[0], 403)
    equal(ask(page.port, "/", "PUT")[0], 405)
    with socket.create_connection(("127.0.0.1", page.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        contains(client.recv(4000).decode(), "Content-Security-Policy: default-src 'none'; script-src 'self'")
    page.close()
    if ONE.name == "redis":
        page = Page(env={"SIMBA_URL": f"redis://:s3cret@127.0.0.1:{stores.free_port()}"})
        wait_until(lambda: "The store is away" in page.text("#banner") and "redis://" in page.text("#store"))
        equal("s3cret" in page.driver.page_source, False)
        page.close()
    for mode, text, why in [(0o644, "x" * 20, "may be read by others"), (0o600, "short", "shorter than 16")]:
        write("token", text)
        os.chmod("token", mode)
        equal(stat.S_IMODE(os.stat("token").st_mode), mode)
        refused = Simba("dashboard", "--allow-handover", "token")
        equal(refused.wait(), 78)
        contains(refused.said(), why)


@ONE.case
def the_history_outlives_the_dashboard(prefix):
    mutex = prefix + "job"
    page = Page("--history", "hour")
    program = leader("a", mutex)
    wait_until(lambda: (page.owner(mutex) or "").startswith("a~"), "a owns")
    equal(program.end(), 0)
    wait_until(lambda: page.owner(mutex) == "free", "it is free")
    page.close()
    true(any(line.startswith("term\t") for line in lines("hour")), read("hour"))
    page = Page("--history", "hour")
    page.zoom()
    wait_until(lambda: page.bars(mutex) == ["a"], "the bar is there again")
    wait_until(lambda: page.of_row(mutex, ".away"), "the time between is marked")
    page.close()


@ONE.case
def it_is_readable_on_a_small_screen_and_in_the_dark(prefix):
    leaders = [leader("a", prefix + "job")]
    page = Page()
    wait_until(lambda: page.text("#held") == "1")
    for theme in ("dark", "light"):
        page.script("document.querySelector('#theme').click()")
        page.driver.set_window_size(400, 760)
        wait_until(lambda: page.script("return document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off")
        page.shot("small-" + theme)
    for one in leaders:
        one.end()
    page.close()


def main():
    if not all(map(os.path.exists, (CHROMIUM, DRIVER))):
        print("1..0 # SKIP chromium is not here")
        return 77
    Browser.get()
    try:
        return ONE.main()
    finally:
        Browser.driver.quit()


sys.exit(main())

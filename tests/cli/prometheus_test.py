#!/usr/bin/env python3
"""The alert rules and the dashboard that are installed, with the real Prometheus.

    prometheus_test.py FOLDER     that has the rules, their test and the dashboard for Grafana
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse

import stores
from program import Simba, contains, equal, now, read, true, wait_until, write
from servers import Server
from web import ask, ask_json, metric, port_of

FOLDER = sys.argv[1]
RULES, BOARD = f"{FOLDER}/simba.rules.yml", f"{FOLDER}/simba.dashboard.json"
ONE = stores.OneStore("redis")
# What Grafana puts into a query: a range that the scrapes of a test fill.
VARIABLES = {"$job": ".*", "$mutex": ".*", "$__rate_interval": "5s", "$__range": "1m"}


class Prometheus(Server):
    """Scrapes and evaluates twice a second."""

    def __init__(self, jobs):
        self.jobs = jobs
        super().__init__()

    def create_files(self):
        rules = re.sub(r"^( *for:) .*", r"\1 0s", read(RULES), flags=re.M)
        write(f"{self.folder}/rules.yml", rules)
        scrapes = [{"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
                   for job, ports in self.jobs.items()]
        each = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
        write(f"{self.folder}/prometheus.yml",  # JSON is YAML
              json.dumps({"global": each, "rule_files": ["rules.yml"], "scrape_configs": scrapes}))

    def serves(self):
        """It listens before it can answer."""
        return super().serves() and ask(self.port, "/-/ready")[0] == 200

    def command(self):
        return ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]

    def query(self, text):
        """The values, each with its labels."""
        status, told = ask_json(self.port, "/api/v1/query?query=" + urllib.parse.quote(text))
        equal((text, status, told["status"]), (text, 200, "success"))
        return [(row["metric"], float(row["value"][1])) for row in told["data"]["result"]]

    def number(self, text):
        found = self.query(text)
        return found[0][1] if found else None

    def firing(self):
        return {labels["alertname"] for labels, _ in self.query('ALERTS{alertstate="firing"}')}


def panels():
    """Those that show something; a row is a head."""
    with open(BOARD, encoding="utf-8") as file:
        return [panel for panel in json.load(file)["panels"] if panel["type"] != "row"]


def queries():
    """Of the dashboard, as Grafana sends them."""
    for panel in panels():
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield text


def told_by(ports):
    """The names of all metrics."""
    texts = "".join(ask(port, "/metrics")[1] for port in ports)
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", texts, re.M))
    return {name + end for name, kind in types.items()
            for end in (["_bucket", "_count", "_sum"] if kind == "histogram" else [""])}


def lead(identity):
    return Simba("--id", identity, "lead", "--listen", "0", "m", "--", "sleep", "1000")


def start_all(url):
    """Three contenders, a job with a schedule, and the dashboard of the store."""
    os.environ["SIMBA_URL"] = url
    leaders = [lead("a")]
    wait_until(lambda: "leading" in leaders[0].said())
    leaders += [lead("b"), lead("c")]
    job = Simba("schedule", "--listen", "0", "--every", "200ms", "job", "--", "true")
    board = Simba("dashboard", "--listen", "0", "--interval", "100ms")
    ports = [port_of(one) for one in [*leaders, job, board]]
    for port in ports:
        wait_until(lambda: metric(ask(port, "/metrics")[1], "simba_store_up") == 1)
    name = "simba_schedule_last_success_timestamp_seconds"
    wait_until(lambda: metric(ask(ports[3], "/metrics")[1], name))
    wait_until(lambda: metric(ask(ports[4], "/metrics")[1], "simba_store_waiters") == 2)
    return leaders, job, board, ports


@ONE.case
def the_rules_are_valid_and_fire_for_made_up_series(prefix):
    for arguments in (["check", "rules", RULES], ["test", "rules", f"{FOLDER}/simba.rules.test.yml"]):
        checked = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
        equal((checked.returncode, checked.stdout + checked.stderr if checked.returncode else ""), (0, ""))
    alerts = set(re.findall(r"- alert: (\w+)", read(RULES)))
    true(len(alerts) > 5, alerts)
    equal(alerts - set(re.findall(r"alertname: (\w+)\n        exp_alerts", read(f"{FOLDER}/simba.rules.test.yml"))), set())


@ONE.case
def panels_of_the_dashboard_do_not_overlap(prefix):
    taken, ids = {}, set()
    for panel in panels():
        grid = panel["gridPos"]
        true(panel["title"] and panel["id"] not in ids and grid["x"] + grid["w"] <= 24, panel)
        ids.add(panel["id"])
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                equal(taken.setdefault((x, y), panel["title"]), panel["title"])


@ONE.case
def prometheus_sees_a_fail_over_and_the_right_alerts_fire(prefix):
    leaders, job, board, ports = start_all(f"redis://127.0.0.1:{ONE.store.port}?ttl=2s&transition=2s&jitter=0ms..50ms")
    used = set(re.findall(r"\bsimba_\w+", " ".join(queries()) + re.sub("#.*", "", read(RULES))))
    equal(used - told_by(ports), set())
    prometheus = Prometheus({"lead": ports[:3], "schedule": ports[3:4], "store": ports[4:]})
    prometheus.start()
    try:
        wait_until(lambda: prometheus.number("sum(up)") == 5, "all are scraped")
        wait_until(lambda: prometheus.number('count_over_time(simba_store_up{job="store"}[1m])') > 3, "rates exist")
        wait_until(lambda: prometheus.number('sum(simba_is_owner{mutex="m"})') == 1, "a leader")
        wait_until(lambda: not [text for text in queries() if "> 0" not in text and not prometheus.query(text)],
                   "each query of the dashboard finds something")
        wait_until(lambda: not prometheus.firing(), "nothing fires")

        killed = now()
        leaders[0].end(signal.SIGKILL)
        wait_until(lambda: "SimbaNobodyLeads" in prometheus.firing(), "the alert")
        alerted = now()
        other = wait_until(lambda: next((one for one in leaders[1:] if "leading" in one.said()), None), "another leads")
        place = leaders.index(other)
        wait_until(lambda: prometheus.number(f'simba_is_owner{{instance="127.0.0.1:{ports[place]}", mutex="m"}}') == 1)
        wait_until(lambda: prometheus.firing() == {"SimbaOwnerGone"}, "a leader is seen, and the loss")
        contains(f'{prometheus.query("ALERTS")}', f"127.0.0.1:{ports[4]}")
        equal(prometheus.number('max_over_time(sum(simba_is_owner{mutex="m"})[5m:500ms])'), 1)
        ever = prometheus.query('count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[5m]))')
        equal({labels["alertname"] for labels, _ in ever}, {"SimbaNobodyLeads", "SimbaOwnerGone"})
        print(f"# the alert fired {alerted - killed:.1f} s after the kill")
    finally:
        prometheus.stop()
    for one in [*leaders[1:], job, board]:
        equal(one.end(), 0)


if shutil.which("prometheus") is None:
    print("1..0 # SKIP there is no prometheus here")
    sys.exit(77)
sys.exit(ONE.main())

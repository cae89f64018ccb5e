"""What tests of the program ask over HTTP."""
import http.client
import json
import re
import subprocess

from program import wait_until


def port_of(program, kind="http"):
    """Where a program says that it listens."""
    return int(wait_until(lambda: re.search(rf"listening on {kind}://127\.0\.0\.1:(\d+)/", program.said()),
                          "it listens")[1])


def ask(port, path, method="GET", body=None, headers=None):
    """The status and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def ask_json(port, path):
    status, body = ask(port, path)
    return status, json.loads(body)


def metric(text, line):
    """The value of a line of /metrics, or None."""
    found = re.search(rf"^{re.escape(line)} (\S+)$", text, re.M)
    return float(found[1]) if found else None


def check_metrics(text):
    """What promtool thinks of the text."""
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    return checked.returncode, checked.stdout + checked.stderr

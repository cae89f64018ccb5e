"""reports/management/commands/nightly_report.py: cron runs `manage.py nightly_report` on every host, one host works."""
from django.core.management.base import BaseCommand

import simba_lock as simba


class Command(BaseCommand):
    help = "Writes the report of the night, on one host at a time."

    def handle(self, *arguments, **options):
        with simba.open() as client:  # SIMBA_URL
            lock = client.lock("nightly-report")
            if not lock.try_acquire():
                self.stdout.write("another host writes the report")
                return
            with lock.releasing():
                self.write_report(lock)

    def write_report(self, lock):
        for page in range(10):
            lock.check()
            self.stdout.write(f"page {page}, written with token {lock.fence}")

"""What goes wrong, at its time: each fault on a thread, so that one may begin while another lasts."""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from proof.soak.database import Database
from proof.soak.instances import Instances
from proof.soak.operator import Operator
from proof.soak.outside import SoakMailServer, SoakVendor
from proof.soak.plan import Fault, Plan

# The share of the vendor's requests that fail on a good day, and of those that are answered too late.
_TROUBLE = 0.01
_LATE = 0.001
_CUT_SHARE = 0.5
# Seconds for which a process in the middle of a job is looked for.
_SEARCHES = 5.0


class Faults:
    """`happened`: the faults so far, with when they began and ended, in seconds. `failed`: those that could not be."""

    def __init__(
        self,
        plan: Plan,
        *,
        database: Database,
        instances: Instances,
        vendor: SoakVendor,
        mail: SoakMailServer,
        operator: Operator,
    ) -> None:
        self.happened: list[tuple[str, float, float]] = []
        self.failed: list[str] = []
        self._plan = plan
        self._database, self._instances, self._operator = database, instances, operator
        self._vendor, self._mail = vendor, mail
        self._rng = random.Random(plan.seed + 4)
        self._stop = threading.Event()
        self._server = threading.Lock()
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="fault")
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)
        self._began = 0.0
        self._deeds: dict[str, Callable[[float], None]] = {
            "kill": lambda lasts: self._patiently(lambda database: instances.kill(self._victim(database))),
            "stop": lambda lasts: self._patiently(lambda database: instances.replace(self._victim(database))),
            "cut": self._cut,
            "restart": self._restart,
            "vendor": self._trouble_vendor,
            "mail": self._trouble_mail,
            "read_only": self._read_only,
            "pause": lambda lasts: operator.pause(seconds=lasts),
            "cancel": lambda lasts: operator.cancel(seconds=lasts),
            "requeue": lambda lasts: operator.requeue(),
        }

    def start(self) -> None:
        """Let the first one come."""
        self._vendor.trouble, self._vendor.late = _TROUBLE, _LATE
        self._began = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Let no more come, wait for the end of those that last, and leave everything whole."""
        self._stop.set()
        self._thread.join()
        self._pool.shutdown()
        self._vendor.trouble = self._vendor.late = 0

    @property
    def acts(self) -> int:
        """What the operator has done."""
        return self._operator.acts

    def requeue(self) -> None:
        """Let the operator requeue dead letters."""
        self._operator.requeue()

    def _run(self) -> None:
        for fault in self._plan.faults():
            if self._stop.wait(max(0.0, self._began + fault.at - time.monotonic())):
                return
            self._pool.submit(self._happen, fault)

    def _happen(self, fault: Fault) -> None:
        began = time.monotonic() - self._began
        try:
            self._deeds[fault.kind](fault.lasts)
        except Exception as error:  # noqa: BLE001 - a fault that cannot be must not end the others
            self.failed.append(f"{fault.kind} at {began:.0f} s: {type(error).__name__}: {error}")
            return
        self.happened.append((fault.kind, began, time.monotonic() - self._began))

    def _victim(self, database: Database) -> int:
        """Return a place whose process is in the middle of a job; after a few seconds without one, any."""
        mortal = self._instances.mortal()
        end = time.monotonic() + min(_SEARCHES, self._plan.seconds / 15)
        while time.monotonic() < end:
            with contextlib.suppress(psycopg.OperationalError):
                for (owner,) in database.rows("select lock_owner from giftcard_jobs where status = 'running'"):
                    pid = int(str(owner).rpartition(":")[2])
                    if pid in mortal:
                        return mortal[pid]
            time.sleep(0.02)
        return self._rng.choice(list(mortal.values()))

    def _cut(self, _lasts: float) -> None:
        self._patiently(lambda database: database.cut(_CUT_SHARE))

    def _restart(self, lasts: float) -> None:
        with self._server:
            self._database.restart(away=lasts)

    def _trouble_vendor(self, lasts: float) -> None:
        self._vendor.trouble = 1.0
        self._stop.wait(lasts)
        self._vendor.trouble = _TROUBLE

    def _trouble_mail(self, lasts: float) -> None:
        with self._mail.away():
            self._stop.wait(lasts)

    def _read_only(self, lasts: float) -> None:
        self._patiently(lambda database: database.read_only(is_on=True))
        self._stop.wait(lasts)
        self._patiently(lambda database: database.read_only(is_on=False))

    def _patiently(self, act: Callable[[Database], None]) -> None:
        """Act on the server over a connection of this thread's own, never while it is restarted."""
        with self._server:
            database = self._database.other()
            try:
                act(database)
            finally:
                self._database.cuts += database.cuts
                database.close()

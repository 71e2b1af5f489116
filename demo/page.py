"""The page of operators on the database of the last demo."""

import os
import sys
from pathlib import Path

from demo.database import existing_database
from demo.scenario import set_environment
from dev.serve import free_port, run_application
from lib.errors import StoreError


def serve_page(folder: Path) -> int:
    """Serve the demo's application with a minute clock until a signal, and return the exit code.

    The demo's vendors are gone, so the ledger takes payments and mails are written as files.
    """
    folder = folder.resolve()
    try:
        with existing_database(folder) as url, free_port(int(os.environ.get("PORT") or 8000)) as listener:
            os.environ["PORT"] = str(listener.getsockname()[1])
            own = {"DATABASE_URL": url, "GIFTCARD_MAIL_DIR": str(folder / "demo/mails"), "GIFTCARD_PAGE_OPEN": "1"}
            set_environment(own, folder=folder / "demo")
            print(f"The demo's page: http://127.0.0.1:{os.environ['PORT']}   (Ctrl-C to stop)", flush=True)
            run_application(listener.fileno())
    except StoreError as error:
        print(f"Cannot use the database: {error}", file=sys.stderr)
        return 2
    print("Stopped.")
    return 0

"""A client generated from the OpenAPI document works on the running application, and generating it needs no care."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.sql.supabase_cron.serving import served
from tests.support.openapi_document import openapi_document
from tests.support.world import ADMIN, World, an_order

pytestmark = pytest.mark.slow

PACKAGE = "generated_giftcards_client"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the generated package, and what the generator printed."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(openapi_document()), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"post_hooks": []}), encoding="utf-8")
    generator = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    options = ["--path", "openapi.json", "--config", "config.json", "--output-path", PACKAGE]
    done = subprocess.run([*generator, *options], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout + done.stderr


@pytest.fixture
def client(generated: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports modules of the generated client: `client("api.jobs.get_job")`."""
    monkeypatch.syspath_prepend(generated[0])

    def module(name: str) -> ModuleType:
        return importlib.import_module(f"{PACKAGE}.{name}")

    yield module
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_the_client_is_generated_without_a_warning(generated: tuple[Path, str]) -> None:
    assert generated[1].split() == ["Generating", PACKAGE]


def test_it_enqueues_finds_and_requeues_a_job(client: Any, world: World) -> None:
    models = client("models")
    with served(world.app) as url:
        api = client("client").AuthenticatedClient(base_url=url, token=ADMIN)
        payload = models.JobRequestPayload.from_dict(an_order())
        request = models.JobRequest(stage="customer_ingest", correlation_id="order-1", payload=payload)
        (enqueued,) = client("api.jobs.enqueue_jobs").sync(client=api, body=request).jobs
        assert enqueued.created

        page = client("api.jobs.list_jobs").sync(client=api, correlation_id="order-1")
        assert [(job.id, job.status) for job in page.jobs] == [(enqueued.id, models.JobStatus.QUEUED)]
        assert page.older is None

        world.sql("update public.giftcard_jobs set status = 'error' where id = %s", enqueued.id)
        requeued = client("api.jobs.requeue_job").sync(enqueued.id, client=api)
        assert (requeued.was, requeued.status) == (models.JobStatus.ERROR, models.JobStatus.QUEUED)

        assert (
            client("api.ticks.trigger_tick").sync(client=api, body=models.TickRequest(job_id=enqueued.id)).completed
            == 1
        )
        job = client("api.jobs.get_job").sync(enqueued.id, client=api)
        assert (job.status, job.waiting_for, job.archived_at) == (models.JobStatus.COMPLETED, None, None)
        assert client("api.jobs.get_job_history").sync(enqueued.id, client=api).runs[0].status == "SUCCESS"
        assert len(client("api.monitoring.get_status").sync(client=api).ticks) == 1


def test_its_errors_are_problems(client: Any, world: World) -> None:
    problem = client("models").Problem
    with served(world.app) as url:
        for token, status in ((ADMIN, 404), ("wrong", 401)):
            api = client("client").AuthenticatedClient(base_url=url, token=token)
            found = client("api.jobs.get_job").sync(4711, client=api)
            assert isinstance(found, problem)
            assert found.status == status

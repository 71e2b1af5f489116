"""The operations for batches."""

from collections.abc import Mapping

from lib.jobs import batch_schemas as requests
from lib.web.openapi.operation import IDEMPOTENCY_KEY, Operation
from lib.web.openapi.responses import batches, bulk, jobs

_KEY: Mapping[str, str] = {"Idempotency-Key": IDEMPOTENCY_KEY}

BATCHES: Mapping[str, Operation] = {
    "batches.list_batches": Operation("list_batches", "batches", batches.BatchPage, query=(requests.BatchPage,)),
    "batches.create": Operation(
        "create_batch", "batches", batches.NewBatch, 201, body=(requests.BatchRequest,), errors=(409,)
    ),
    "batches.show": Operation("get_batch", "batches", batches.Batch),
    "batches.add": Operation(
        "add_to_batch", "batches", jobs.EnqueueResult, 202, body=(requests.BatchJobsRequest,), errors=(409,)
    ),
    "batches.seal": Operation("seal_batch", "batches", batches.Batch),
    "batches.cancel": Operation(
        "cancel_batch", "batches", bulk.Operation, body=(requests.BatchActRequest,), headers=_KEY
    ),
    "batches.requeue": Operation(
        "requeue_batch", "batches", bulk.Operation, body=(requests.BatchActRequest,), headers=_KEY
    ),
}

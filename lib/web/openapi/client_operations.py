"""The operations for those who use the API: their webhooks, their tokens, and what limits their jobs."""

from collections.abc import Mapping

from lib.giftcards import square_events
from lib.jobs import schemas
from lib.tokens import schemas as token_requests
from lib.web.openapi.operation import IDEMPOTENCY_KEY, Operation
from lib.web.openapi.responses import base, limits, tokens, webhooks
from lib.webhooks import schemas as webhook_requests

_WEBHOOKS: Mapping[str, Operation] = {
    "webhooks.list_endpoints": Operation(
        "list_webhook_endpoints",
        "webhook-endpoints",
        webhooks.WebhookEndpointPage,
        query=(webhook_requests.EndpointPage,),
    ),
    "webhooks.create": Operation(
        "create_webhook_endpoint",
        "webhook-endpoints",
        webhooks.WebhookEndpointWithSecret,
        201,
        body=(webhook_requests.EndpointRequest,),
        headers={"Idempotency-Key": IDEMPOTENCY_KEY},
        errors=(409,),
    ),
    "webhooks.show": Operation("get_webhook_endpoint", "webhook-endpoints", webhooks.WebhookEndpoint),
    "webhooks.update": Operation(
        "update_webhook_endpoint",
        "webhook-endpoints",
        webhooks.WebhookEndpoint,
        body=(webhook_requests.EndpointPatch,),
        errors=(409,),
    ),
    "webhooks.delete": Operation("delete_webhook_endpoint", "webhook-endpoints", base.DeleteResult),
    "webhooks.rotate_secret": Operation(
        "rotate_webhook_secret",
        "webhook-endpoints",
        webhooks.WebhookEndpointWithSecret,
        body=(webhook_requests.RotateRequest,),
        body_optional=True,
        headers={"Idempotency-Key": IDEMPOTENCY_KEY},
        errors=(409,),
    ),
    "webhooks.test": Operation("test_webhook_endpoint", "webhook-endpoints", webhooks.WebhookTest, 202, errors=(409,)),
    "inbound_webhooks.from_square": Operation(
        "receive_square_event",
        "inbound-webhooks",
        webhooks.EventReceipt,
        202,
        body=(square_events.Event,),
        auth="square",
        all_errors=(403, 413, 429, 503),
    ),
}

_TOKENS: Mapping[str, Operation] = {
    "tokens.list_tokens": Operation("list_tokens", "tokens", tokens.TokenList, query=(token_requests.TokenPage,)),
    "tokens.create": Operation(
        "create_token", "tokens", tokens.NewToken, 201, body=(token_requests.TokenRequest,), errors=(409,)
    ),
    "tokens.revoke": Operation("revoke_token", "tokens", tokens.Token),
}

_LIMITS: Mapping[str, Operation] = {
    "limits.list_limits": Operation("list_limits", "limits", limits.LimitList, query=(schemas.LimitPage,)),
    "limits.set_limit": Operation("set_limit", "limits", limits.LimitRow, body=(schemas.LimitRequest,)),
    "limits.remove": Operation("remove_limit", "limits", limits.LimitRow, body=(schemas.LimitRemoval,), errors=(404,)),
}

CLIENTS: Mapping[str, Operation] = {**_WEBHOOKS, **_TOKENS, **_LIMITS}

"""What must be true in the end, whatever was killed: each broken fact is a line that names its order or job."""

import json
from typing import Any

from lib.giftcards.cards import Vault
from tests.crash.house import House
from tests.crash.vendors import Made, Mailbox, Vendor

_STAGES = "array['customer_ingest', 'personal_code', 'payment', 'issue_card', 'email']"

# Each answers the lines that say what is wrong. 5: the attempts in all of every stage here, by default.
_BROKEN = (
    """select format('order %s has %s payments', o.correlation_id, count(p.id))
         from giftcard_orders o left join giftcard_payments p using (tenant_id, correlation_id)
        group by o.correlation_id having count(p.id) <> 1""",
    """select format('order %s has %s cards', o.correlation_id, count(c.id))
         from giftcard_orders o left join giftcard_cards c using (tenant_id, correlation_id)
        group by o.correlation_id having count(c.id) <> 1""",
    """select format('order %s over %s: paid %s, card over %s, payment knows card: %s',
                     o.correlation_id, o.amount, p.amount, c.amount, p.card_id = c.id)
         from giftcard_orders o join giftcard_payments p using (tenant_id, correlation_id)
         join giftcard_cards c using (tenant_id, correlation_id)
        where not (p.amount = o.amount and c.amount = o.amount and c.balance = o.amount)
           or p.card_id is distinct from c.id""",
    f"""select format('order %s has the jobs %s', o.correlation_id, j.stages)
         from giftcard_orders o
         cross join lateral (select array_agg(stage || ' ' || status order by id) as stages from giftcard_jobs
                              where tenant_id = o.tenant_id and correlation_id = o.correlation_id) j
        where j.stages is distinct from
              (select array_agg(s || ' completed' order by n) from unnest({_STAGES}) with ordinality u(s, n))""",
    """select format('code %s belongs to %s customers', personal_code, count(*)) from giftcard_customers
        group by tenant_id, personal_code having count(*) > 1""",
    """select format('customer %s has no code', id) from giftcard_customers where personal_code is null""",
    """select format('order %s was told the code %s, its customer has %s',
                     j.correlation_id, j.context ->> 'personal_code', u.personal_code)
         from giftcard_jobs j join giftcard_customers u on u.id = (j.context ->> 'customer_id')::bigint
        where j.stage = 'email' and j.context ->> 'personal_code' is distinct from u.personal_code""",
    """select format('job %s (%s of %s) ran %s times, its history has %s',
                     j.id, j.stage, j.correlation_id, j.run_no, h.runs)
         from giftcard_jobs j
         cross join lateral (select coalesce(array_agg(run_no order by run_no), '{}') as runs
                               from giftcard_job_history where job_id = j.id) h
        where h.runs <> array(select generate_series(1, j.run_no))""",
    """select format('job %s (%s of %s) has the results %s', j.id, j.stage, j.correlation_id, h.results)
         from giftcard_jobs j
         cross join lateral (select array_agg(result order by run_no) as results
                               from giftcard_job_history where job_id = j.id) h
        where array_positions(h.results, 'SUCCESS') is distinct from array[cardinality(h.results)]""",
    """select format('job %s (%s of %s) had %s attempts', h.job_id, j.stage, j.correlation_id, max(h.attempt))
         from giftcard_job_history h join giftcard_jobs j on j.id = h.job_id
        group by h.job_id, j.stage, j.correlation_id having max(h.attempt) > 5""",
    """select format('job %s (%s of %s) counts %s attempts, its history %s',
                     j.id, j.stage, j.correlation_id, j.attempts, h.counted)
         from giftcard_jobs j
         cross join lateral (select count(*) filter (where result not in ('RELEASED', 'SNOOZED')) as counted
                               from giftcard_job_history where job_id = j.id) h
        where j.revivals = 0 and j.attempts <> h.counted""",
    """select format('effect %s of %s has no result', name, correlation_id)
         from giftcard_effects where result is null""",
)


def broken(house: House) -> list[str]:
    """What the tables say against the orders being done right."""
    lines = [str(row[0]) for query in _BROKEN for row in house.rows(query)]
    return lines + _uncounted(house)


def _uncounted(house: House) -> list[str]:
    """Runs that a process says it began, which no line of history tells of, or which began twice."""
    counted = set(house.rows("select job_id, run_no from giftcard_job_history"))
    begun: dict[tuple[int, int], str] = {}
    lines = []
    for event in _runs_begun(house):
        run, where = (event["job_id"], event["run_no"]), event["lock_owner"]
        if run not in counted:
            lines.append(f"run {run[1]} of job {run[0]} began in {where} and is not in its history")
        if run in begun:
            lines.append(f"run {run[1]} of job {run[0]} began twice, in {begun[run]} and in {where}")
        begun[run] = where
    return lines


def _runs_begun(house: House) -> list[dict[str, Any]]:
    lines = [line for worker in house.workers for line in worker.log.read_text().splitlines()]
    events: list[dict[str, Any]] = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [event for event in events if event["event"] == "run_started"]


def broken_outside(house: House, vendor: Vendor, vault: Vault) -> list[str]:
    """What the vendor's books say against them: each order is charged once and has one card, and we know which."""
    lines = []
    by_order: dict[str, list[Made]] = {}
    for one in vendor.made:
        by_order.setdefault(one.order, []).append(one)
    ours = house.rows("""select correlation_id, amount, p.provider_ref, c.provider_ref,
                                c.number_encrypted, c.number_hash
                           from giftcard_orders
                           left join giftcard_payments p using (tenant_id, correlation_id, amount)
                           left join giftcard_cards c using (tenant_id, correlation_id, amount) order by 1""")
    for order, amount, payment, card, sealed, hashed in ours:
        made = by_order.get(order, [])
        for stage, reference in (("payment", payment), ("issue_card", card)):
            theirs = [one.answer["id"] for one in made if one.stage == stage]
            if theirs != [reference]:
                lines.append(f"order {order}: the vendor has {stage} {theirs}, we know of {reference}")
        if any(json.loads(one.asked)["amount"] != amount for one in made):
            lines.append(f"order {order} is over {amount}, the vendor was asked for {[one.asked for one in made]}")
        numbers = [one.answer["number"] for one in made if one.stage == "issue_card"]
        if sealed and [vault.open(sealed, ("default", order), number_hash=hashed)] != numbers:
            lines.append(f"order {order}: the card's number is not the vendor's")
    strangers = set(by_order) - {row[0] for row in ours}
    return lines + [f"the vendor took money for {order}, which is no order" for order in sorted(strangers)]


def broken_mails(house: House, mailbox: Mailbox) -> list[str]:
    """Each order's mail came at least once, always with the same Message-ID, which no other order's has."""
    lines: list[str] = []
    owner: dict[str, str] = {}
    for (order,) in house.rows("select correlation_id from giftcard_orders order by 1"):
        ids = set(mailbox.mails.get(order, []))
        if len(ids) != 1:
            lines.append(f"order {order} got {len(ids)} different mails: {sorted(ids)}")
        strange = [each for each in ids if owner.setdefault(each, order) != order]
        lines += [f"order {order} got the Message-ID of order {owner[each]}" for each in strange]
    return lines

"""Faults to plant, which show that the facts can break: a proof that cannot fail proves nothing."""

from tests.crash.shop import Shop

# What each does, for `--help` and the tests.
PLANTS = {
    "keys": "the vendor ignores idempotency keys",
    "journal": "each run begins its charge or card anew, under a key of its own",
    "history": "the history loses the runs of killed workers",
    "commits": "the server answers before its commits are durable (scenario server)",
}
_JOURNAL = """
    do $do$ begin
      execute replace(pg_get_functiondef('public.giftcard_begin_effect'::regproc), 'if e.result is not null then', $sql$
        if j.stage <> 'email' then
          update public.giftcard_effects
             set vendor_key = e.vendor_key || '/' || j.run_no, result = null, started_at = null
           where vendor_key = e.vendor_key returning * into e;
        end if;
        if e.result is not null then$sql$);
    end $do$"""
_HISTORY = (
    """create function public.forget_run() returns trigger language plpgsql as $$ begin
         delete from public.giftcard_job_history where job_id = new.job_id and run_no = new.run_no;
         return null;
       end $$""",
    """create trigger forget_run after insert on public.giftcard_job_history
         for each row when (new.result = 'INTERRUPTED') execute function public.forget_run()""",
)


def plant(name: str, shop: Shop) -> None:
    """Plant the fault of this name; none: an empty text. `commits` is a setting of the server's."""
    match name:
        case "keys":
            shop.vendor.ignores_keys = True
        case "journal":
            shop.house.execute(_JOURNAL)
        case "history":
            for statement in _HISTORY:
                shop.house.execute(statement)

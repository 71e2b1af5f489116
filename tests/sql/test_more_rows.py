"""Lists of the operators' scripts say that more rows follow, and go on from the last one."""

from tests.support.factory import World


def test_lists_for_operators_say_that_more_follow_and_go_on(world: World) -> None:
    made = [world.enqueue("payment", correlation_id=f"c-{number}") for number in range(5)]
    world.run("update giftcard_jobs set scheduled_at = now() - interval '1 day', attempts = 1 + id % 3")
    world.run("update giftcard_jobs set status = 'running' where id = %s", made[3])
    for query, after in (
        ("giftcard_stuck_jobs(p_limit => 2", ("since", "id")),
        ("giftcard_jobs_with_many_attempts(p_at_least => 2, p_limit => 2", ("attempts", "id")),
    ):
        page = world.rows(f"select * from {query})")
        found = list(page)
        while page[-1]["more"]:
            last = ", ".join(f"p_after_{name} => %s" for name in after)
            page = world.rows(f"select * from {query}, {last})", *(page[-1][name] for name in after))
            found += page
        ids = [row["id"] for row in found]
        assert len(ids) == len(set(ids))
        assert ids == [
            row["id"] for row in world.rows(f"select * from {query.replace('p_limit => 2', 'p_limit => 9')})")
        ]
        assert len(ids) > 2

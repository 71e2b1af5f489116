-- Show the whole picture, one fact per line: counts by stage and status (each up to 1,000), pauses, circuits that are
-- not well, limits, the newest dead letters, where money and cards do not match, the head of each queue, last ticks.
select topic, fact
  from jsonb_each(public.giftcard_status()) as status(topic, value)
 cross join lateral jsonb_path_query(value, '$[*]') with ordinality as facts(fact, n)
 order by array_position(array['now', 'counts', 'paused', 'circuits', 'limits', 'dead_letters', 'differences', 'queues',
                               'ticks'], topic), n;

-- List runs whose lease has ended, and jobs that have been due for long, with the reason.
select * from public.giftcard_stuck_jobs(
  p_due_for     => '5 minutes',  -- due for at least this long
  p_limit       => 100,          -- at most so many; 1000 is the most
  p_after_since => null,         -- if more is true: since of the last row
  p_after_id    => null          -- and its id
);

-- List jobs that need many attempts in their present round, those with the most first.
select * from public.giftcard_jobs_with_many_attempts(
  p_at_least       => 3,     -- attempts
  p_limit          => 100,   -- at most so many; 1000 is the most
  p_after_attempts => null,  -- if more is true: attempts of the last row
  p_after_id       => null   -- and its id
);

-- List flows that were paid and will not get a card by themselves, the oldest payment first. Amounts are in minor
-- units.
select * from public.giftcard_paid_without_card(
  p_limit => 100  -- at most so many; 1000 is the most
);

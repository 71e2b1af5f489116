-- Raise ids: after a restore or a move that copied rows without their sequences, new rows get the ids of old ones and
-- are refused. First run it as it is: it lists the tables that are behind. Then set p_dry_run to false, and run it
-- again. Run it as the owner of the tables.
select * from jsonb_to_recordset(public.giftcard_raise_ids(
  p_dry_run => true -- true lists, false raises
)) as answer("table" text, highest bigint, next_id bigint);

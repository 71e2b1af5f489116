-- Close a circuit by hand: its jobs start with the next tick. If the vendor is still down, it opens again by itself.
select * from jsonb_to_record(public.giftcard_reset_circuit(
  p_circuit => '',   -- its name, which is the stage's: 'email'
  p_by      => null, -- you, for the audit; null: your database role
  p_reason  => null  -- for the audit: 'the provider is back'
)) as answer(circuit text, was text, state text);

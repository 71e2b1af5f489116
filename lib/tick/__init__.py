"""One bounded pass over due work: claim, run, settle, maintain."""

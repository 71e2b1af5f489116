"""The report of a day, made by Postgres (`supabase/schemas/55_reports.sql`): how it is asked for, as CSV, as a mail."""

"""Daily reports, which Postgres creates (`supabase/schemas/55_reports.sql`): requests, CSV and mail."""

#!/bin/sh
# For the image of PostgreSQL, which runs this after roles.sql on an empty volume: a password for each
# role, from the environment. None is an argument of a program.
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv owner OWNER_PASSWORD
\getenv jobs JOBS_PASSWORD
\getenv desk DESK_PASSWORD
\getenv gateway GATEWAY_PASSWORD
\getenv reader READER_PASSWORD
ALTER ROLE headrace_owner PASSWORD :'owner';
ALTER ROLE headrace_jobs PASSWORD :'jobs';
ALTER ROLE headrace_desk PASSWORD :'desk';
ALTER ROLE headrace_gateway PASSWORD :'gateway';
ALTER ROLE headrace_reader PASSWORD :'reader';
SQL

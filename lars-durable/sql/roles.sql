-- If your programs may not create tables: as the owner, run the scripts with numbers, in their order,
-- and then this, with the name of the nodes' role:
--
--     psql -v ON_ERROR_STOP=1 -v node=shop -f roles.sql

GRANT USAGE ON SCHEMA lars TO :"node";
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lars TO :"node";
GRANT SELECT, UPDATE, USAGE ON ALL SEQUENCES IN SCHEMA lars TO :"node";
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA lars TO :"node";
REVOKE INSERT, UPDATE, DELETE ON lars.meta FROM :"node";

CREATE MATERIALIZED VIEW orders_by_partition AS
SELECT partition, count(*) AS records, max(offset) AS last_offset
FROM orders
GROUP BY partition;

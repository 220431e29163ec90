/** As `countLateSql`. Rows of a foreign table have the id 0: written at any time. @param column the row's `xmin` */
export function isWrittenSince(column: string, xmin: string): string {
  if (!/^\d+$/.test(xmin)) throw new Error('A transaction id is a whole number.');
  const newest =
    'CAST(CAST(pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()) AS pg_catalog.text) AS pg_catalog.int8)';
  const half = `CAST(CAST(${column} AS pg_catalog.text) AS pg_catalog.int8)`;
  const full = `${newest} - ((${newest} & 4294967295) - ${half} + 4294967296) % 4294967296`;
  return `(${full} >= ${xmin} OR ${newest} < ${xmin} OR ${half} = 0)`;
}

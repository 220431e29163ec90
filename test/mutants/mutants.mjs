/**
 * Faults that a test must see. Each replaces `find`, which its file has exactly once, and names the
 * test file that must fail then.
 *
 * @typedef {{ name: string, file: string, find: string, replace: string, test: string }} Mutant
 */

const store = 'test/integration/store';
const pipeline = 'test/integration/pipeline';

/** @type {readonly Mutant[]} */
export const mutants = [
  {
    name: 'scheduling: a tick at the boundary belongs to the interval before it',
    file: 'src/scheduling/boundary.ts',
    find: ': Math.floor(instant / step) * step + step;',
    replace: ': Math.ceil(instant / step) * step;',
    test: 'test/unit/scheduling/boundary.test.ts',
  },
  {
    name: 'scheduling: the jitter exceeds the share of the interval',
    file: 'src/scheduling/jitter.ts',
    find: 'Math.min(nominalMs(cadence.interval) * maxShare, maxJitterSeconds * 1000)',
    replace: 'Math.max(nominalMs(cadence.interval) * maxShare, maxJitterSeconds * 1000)',
    test: 'test/unit/scheduling/jitter.test.ts',
  },
  {
    name: 'scheduling: one tenant may have every slot',
    file: 'src/scheduling/fairness.ts',
    find: 'capacity >= sharedFrom ? capacity - 1',
    replace: 'capacity >= sharedFrom ? capacity',
    test: 'test/unit/scheduling/fairness.test.ts',
  },
  {
    name: 'scheduling: backfills go before live runs',
    file: 'src/scheduling/fairness.ts',
    find: 'Number(a.backfillId !== null) - Number(b.backfillId !== null) ||',
    replace: 'Number(b.backfillId !== null) - Number(a.backfillId !== null) ||',
    test: 'test/unit/scheduling/fairness.test.ts',
  },
  {
    name: 'scheduling: intervals after the end of the window count as missed',
    file: 'src/scheduling/missed-while-paused.ts',
    find: 'Math.min(until, now, gate.endAt ?? Number.POSITIVE_INFINITY)',
    replace: 'Math.min(until, now)',
    test: 'test/unit/scheduling/missed-while-paused.test.ts',
  },
  {
    name: 'leases: a run that is held is claimed',
    file: 'src/store/leases.ts',
    find: 'or lease_expires_at < now() or lease_holder = $2',
    replace: 'or lease_expires_at > now() or lease_holder = $2',
    test: `${store}/leases.test.ts`,
  },
  {
    name: 'leases: a claim does not raise the fence',
    file: 'src/store/leases.ts',
    find: 'attempt = attempt + 1, fence = fence + 1,',
    replace: 'attempt = attempt + 1, fence = fence,',
    test: `${store}/leases.test.ts`,
  },
  {
    name: 'leases: a lease is renewed whatever its fence',
    file: 'src/store/leases.ts',
    find: "where r.id = held.id and r.fence = held.fence and r.status = 'Running'",
    replace: "where r.id = held.id and r.status = 'Running'",
    test: `${store}/leases.test.ts`,
  },
  {
    name: 'leases: a commit begins without the lease',
    file: 'src/store/leases.ts',
    find: `where id = $1 and fence = $2 and status = 'Running'
       returning export_id`,
    replace: `where id = $1 and fence >= $2 and status = 'Running'
       returning export_id`,
    test: `${store}/leases.test.ts`,
  },
  {
    name: 'commit: adopted without comparing digests',
    file: 'src/pipeline/commit.ts',
    find: '  if (!haveSameBytes(manifest.files, intent.files)) return null;\n',
    replace: '',
    test: `${pipeline}/commit.test.ts`,
  },
  {
    name: 'commit: the manifest of another generation is adopted',
    file: 'src/pipeline/commit.ts',
    find: '  if (generationOf(manifest) !== intent.generation) return null;\n',
    replace: '',
    test: `${pipeline}/commit.test.ts`,
  },
  {
    name: 'commit: left out though another commit may still come',
    file: 'src/pipeline/commit.ts',
    find: 'if (job.mayBeOvertaken || job.current === null)',
    replace: 'if (job.current === null)',
    test: `${pipeline}/commit.test.ts`,
  },
  {
    name: 'commit: left out though a current file is gone',
    file: 'src/pipeline/commit.ts',
    find: '    if (!(await isThere(destination, file, signal))) return null;\n',
    replace: '',
    test: `${pipeline}/commit.test.ts`,
  },
  {
    name: 'commit: the manifest is put as if there were none',
    file: 'src/pipeline/commit.ts',
    find: 'commitManifest(key, body, found.etag, confirm, ours, signal)',
    replace: 'commitManifest(key, body, null, confirm, ours, signal)',
    test: `${pipeline}/commit.test.ts`,
  },
  {
    name: 'commit: uploads are aborted after a transient error',
    file: 'src/pipeline/export-interval.ts',
    find: 'leavesUploads(error, signal) ? files.suspend() : endUploads(files, ports)',
    replace: 'endUploads(files, ports)',
    test: `${pipeline}/export-interval.test.ts`,
  },
  {
    name: 'growth: concat_ws does not repeat its separator',
    file: 'src/query/growth-rules.ts',
    find: 'times(separator, Math.max(0, values.length - 1))',
    replace: 'separator',
    test: 'test/security/query-bounds.test.ts',
  },
  {
    name: 'bounds: no guard around what a column decides',
    file: 'src/query/print.ts',
    find: 'if (!limit) return text;',
    replace: 'return text;',
    test: 'test/security/query-on-server.test.ts',
  },
  {
    name: 'bounds: a search of any cost',
    file: 'src/query/bounds.ts',
    find: 'for (const demand of this.#demands) this.#holdProduct(demand, most);',
    replace: '',
    test: 'test/security/query-bounds.test.ts',
  },
  {
    name: 'sources: a large row is held',
    file: 'src/sources/postgres/row-blocks.ts',
    find: 'reach - this.#rowStart > this.#maxRowBytes',
    replace: 'reach < 0',
    test: 'test/security/query-on-server.test.ts',
  },
  {
    name: 'api: a tenant takes every slot of the previews',
    file: 'src/api/insights/preview-slots.ts',
    find: ' && own < this.#limits.perTenant',
    replace: '',
    test: 'test/security/previews.test.ts',
  },
  {
    name: 'allow-list: padding of any length',
    file: 'src/query/allow-list.ts',
    find: "['lpad', allow(2, 3, { refuse: refusePadding })]",
    replace: "['lpad', allow(2, 3)]",
    test: 'test/unit/query/refused.test.ts',
  },
  {
    name: 'encoders: CSV leaves a lone CR unquoted',
    file: 'src/encoders/csv/encode.ts',
    find: '[COMMA, QUOTE, LINE_FEED, CARRIAGE_RETURN]',
    replace: '[COMMA, QUOTE, LINE_FEED]',
    test: 'test/conformance/text-formats-and-postgres.test.ts',
  },
  {
    name: 'encoders: JSON Lines do not escape the backslash',
    file: 'src/encoders/text/json-text.ts',
    find: 'byte >= SPACE && byte !== QUOTE && byte !== BACKSLASH',
    replace: 'byte >= SPACE && byte !== QUOTE',
    test: 'test/conformance/text-formats-and-postgres.test.ts',
  },
  {
    name: 'completions: the high-water mark counts ticks of any fate',
    file: 'src/store/completions.ts',
    find: "where t.export_id = e.id and t.fate = 'ran')",
    replace: 'where t.export_id = e.id)',
    test: `${store}/outcomes.test.ts`,
  },
  {
    name: 'completions: the high-water mark moves back',
    file: 'src/store/completions.ts',
    find: 'case when m.mark > coalesce(e.high_water_mark, m.first) then',
    replace: 'case when m.mark >= m.first then',
    test: `${store}/outcomes.test.ts`,
  },
  {
    name: 'completions: what another transaction has just recorded is not noticed',
    file: 'src/store/completions.ts',
    find: 'e.xmin = (select seen.xmin from batch_exports seen where seen.id = $2) as is_fresh',
    replace:
      '(select seen.xmin from batch_exports seen where seen.id = $2) is not null as is_fresh',
    test: `${store}/overtaken.test.ts`,
  },
  {
    name: 'leases: what the last holder has just written is not noticed',
    file: 'src/store/leases.ts',
    find: 'and xmin = (select seen.xmin from runs seen where seen.id = $1)',
    replace: '',
    test: `${store}/overtaken.test.ts`,
  },
  {
    name: 'receipts: the high-water mark passes an accepted interval that failed again',
    file: 'src/store/receipts.ts',
    find: 'and not exists (select from holes h where h.export_id = $1 and h.data_interval_start = p.mark)',
    replace: '',
    test: `${store}/coverage.test.ts`,
  },
  {
    name: 'retention: the run of a hole is deleted',
    file: 'src/store/retention.ts',
    find: 'on e.id = h.export_id and e.deleted_at is null',
    replace: 'on e.id = h.export_id and e.deleted_at is not null',
    test: `${store}/retention.test.ts`,
  },
  {
    name: 'exports: an unpause is looked for in the parameter beside it',
    file: 'src/store/exports.ts',
    find: "parameterOf('paused', 1)",
    replace: "parameterOf('transformations', 1)",
    test: `${store}/batch-exports.test.ts`,
  },
  {
    name: 'exports: creations near the limit of a project do not wait',
    file: 'src/store/exports.ts',
    find: 'else pg_advisory_xact_lock($2, $1) end',
    replace: 'end',
    test: `${store}/project-limit.test.ts`,
  },
  {
    name: 'store: statements have names behind a pooler',
    file: 'src/store/prepared.ts',
    find: "if (rows[0]?.pid !== client.processID) this.#use = 'off';",
    replace: "if (rows.length === 0) this.#use = 'off';",
    test: `${store}/prepared.test.ts`,
  },
];

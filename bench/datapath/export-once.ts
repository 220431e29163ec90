import { randomBytes } from 'node:crypto';
import { readConfig } from '../../src/foundation/config/config.ts';
import type { ExportMode } from '../../src/foundation/domain/export-settings.ts';
import { keyNames, usualFileName } from '../../src/foundation/domain/file-name.ts';
import { readFileSettings } from '../../src/foundation/domain/file-settings.ts';
import { destinationContextOf, joinConnectors } from '../../src/main/connectors.ts';
import { joinSources } from '../../src/main/models.ts';
import { growYoungGeneration } from '../../src/service/admission/process-memory.ts';
import { unrecorded } from '../../src/rows/destinations/destination.ts';
import { exportInterval } from '../../src/rows/pipeline/export-interval.ts';
import { createSecretBox } from '../../src/foundation/security/secret-box.ts';
import { makeSigningKey, signWith } from '../../src/foundation/security/signing-keys.ts';
import { openBenchChain } from './chains.ts';
import { interval, teamId } from './interval.ts';
import { benchTables, changingOf } from './tables.ts';
import { reportTaken } from './taken.ts';

/**
 * Exports the rows as a worker does, to an S3, and reports to its parent what it took. A worker is there
 * before its runs are, so a sixth of the rows goes first, and is not measured. Left out is what a
 * worker writes to its own database meanwhile.
 */
const [
  url = '',
  endpoint = '',
  tableName = '',
  format = '',
  compression = '',
  chainName = '',
  modeName = '',
] = process.argv.slice(2);
const table = benchTables.find(({ name }) => name === tableName);
if (!table) throw new Error(`there is no table ${tableName}`);
const mode = (modeName || 'append') as ExportMode;
const model = mode === 'changes' ? changingOf(table) : table.model;
const config = readConfig({ DATABASE_URL: url, ALLOWED_PRIVATE_ENDPOINTS: new URL(endpoint).host });
const context = destinationContextOf(config);
const connectors = joinConnectors(
  joinSources(config, [{ model, sourceUrl: null, primaryUrl: null }], url),
  context,
  createSecretBox([{ id: 'bench', key: randomBytes(32) }]),
);
const encoding = {
  file_format: format,
  compression: compression === '' ? null : compression,
};
const destination = connectors.openDestination({
  exportId: 'bench',
  externalId: 'bench',
  destination: {
    type: 'S3',
    config: {
      bucket_name: 'bench',
      region: 'us-east-1',
      prefix: 'events',
      aws_access_key_id: 'bench',
      aws_secret_access_key: 'bench',
      endpoint_url: endpoint,
      ...encoding,
    },
    secrets: null,
  },
});
const nothing = async () => {};
const sign = signWith(makeSigningKey(null, '').key);
const chain = openBenchChain(chainName);

async function exportUntil(end: number) {
  growYoungGeneration();
  const part = { start: interval.start, end };
  const { result } = await exportInterval(
    {
      exportId: 'bench',
      runId: 'bench',
      attempt: 1,
      purpose: 'whole',
      mode,
      ...(mode === 'changes' && { sequence: { last: null, begun: [], newBase: 0 } }),
      dropsMissing: false,
      sign,
      readRows: connectors.readRows,
      withoutRows: connectors.withoutRows,
      interval: part,
      chain,
      request: {
        model: model.name,
        tenantKey: String(teamId),
        interval: part,
        dslQuery: null,
        includeEvents: null,
        excludeEvents: null,
        ...(mode !== 'append' && { whole: true }),
      },
      names: keyNames(end === interval.end ? 'events' : 'warm-up', usualFileName, part),
      encoding: connectors.encodingOf(readFileSettings(encoding)),
      maxFileBytes: null,
      partitionBy: [],
      writesManifest: true,
      onRejected: 'warn',
      generation: 1,
      era: 'bench',
      current: null,
      formerManifests: [],
      intent: null,
      mayBeOvertaken: false,
      begunManifests: [],
    },
    connectors.sourceOf(model.name),
    destination,
    {
      journal: unrecorded,
      withdraw: async () => {},
      knowsCommit: async () => true,
      at: () => {},
      progressed: nothing,
      confirmCommit: nothing,
      lease: { holds: () => true, extend: nothing },
      raiseGeneration: async (floor) => floor + 1,
      readElements: async function* () {},
      readNow: async () => Date.now(),
      log: () => {},
      logOfPlugin: () => {},
    },
    new AbortController().signal,
  );
  return { rows: result.totalRows, bytes: result.bytes };
}

await exportUntil(interval.start + (interval.end - interval.start) / 6);
await reportTaken(() => exportUntil(interval.end));

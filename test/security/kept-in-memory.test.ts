/**
 * Each collection that lives as long as its process, or as an object of it. Its size has a bound, also in bytes, that no
 * tenant can exceed. A collection without a row here fails, so a new one cannot be forgotten.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { IANAZone } from 'luxon';
import { expect, it } from 'vitest';
import { offsetAt } from '../../src/service/scheduling/zone-offset.ts';

/** What bounds it. */
const collections: Readonly<Record<string, string>> = {
  // In every process.
  'foundation/domain/grouped.ts #groups': 'work in progress',
  'rows/query/bounded-map.ts #entries': 'the weight that its owner gives',
  'rows/query/select.ts checked': '4,000,000 characters',
  'service/scheduling/zone-offset.ts cellsOfZones':
    '100,000 cells, 1,000 zones; luxon forgets its zones with them',
  'service/scheduling/zone-offset.ts knownZones': '1,000 names of the zone database',
  'foundation/security/name-lookup.ts #tenants':
    'lookups in progress: 4 and 64 that wait for each tenant',
  'rows/sources/postgres/connection.ts typeNames': '1,000 names of built-in types',
  'state/store/database/prepared.ts names': 'statements of the code',
  'state/queue/postgres-backend.ts #all': 'queues of a worker: three',
  'state/queue/postgres-backend.ts #waiting': 'queues of a worker: three',
  'state/store/database/shrunk-pool.ts shrinkEach': 'pools of the process',
  'rows/transforms/jsonb-object.ts knownNames': '1,000 names of up to 200 characters',
  'service/use-cases/work-guard.ts #inProgress': 'work in progress',
  'rows/destinations/shared-probes.ts #probes': 'maxKept',
  // In the API.
  'service/api/connections.ts #open': 'MAX_CONNECTIONS of the service',
  'service/api/connections.ts #perAddress': 'open connections',
  'service/api/hooks/authentication.ts #buckets': 'maxRemembered addresses',
  'service/api/hooks/authentication.ts #valid': 'maxRemembered keys',
  'service/api/hooks/limits.ts #budgets': 'keys of the last hour, organizations of the last day',
  'service/api/hooks/limits.ts #pending': 'requests in progress',
  'service/api/insights/preview-slots.ts #savings':
    'organizations that used previews in the last two minutes',
  // In a worker: numbers per organization or project that has runs.
  'service/admission/reading-turns.ts #last': 'organizations with runs',
  'service/admission/reading-turns.ts #restEnds': 'organizations with runs',
  'rows/sources/postgres/joint-snapshots.ts #aloneUntil': 'projects, for some minutes',
  'rows/sources/postgres/snapshot-connections.ts #idle': 'connections, for seconds',
  'rows/sources/postgres/shared-server.ts #reading': 'mostNames names of transactions',
  'rows/sources/postgres/shared-server.ts #waitedMs': 'mostNames names of transactions',
  'rows/sources/postgres/short-reads.ts #until': 'models of the installation',
  'rows/sources/postgres/snapshot-connections.ts #pids': 'connections of a run',
  'service/admission/reading-turns.ts #seen': 'organizations with runs in the last 10 seconds',
  'service/use-cases/runs/look-back.ts #until': '1,000 exports',
  'foundation/telemetry/outages.ts #states': 'dependencies of the process: two',
  'foundation/telemetry/outages.ts #held':
    'lines with different texts: a hundred, for about a second',
  'service/admission/memory-gate.ts #held': 'organizations with runs',
  'service/admission/cpu-use.ts #executing': 'runs in progress',
  'service/admission/cpu-use.ts #used': 'organizations with runs lately',
  'service/worker/leases.ts #held': 'runs in progress',
  'service/worker/notification-courier.ts #sending': 'two kinds; 64 and 8 deliveries',
  'service/worker/run-jobs.ts #waiting': 'backfills whose runs ended since the last look',
  'service/admission/memory-gate.ts #running': 'WORKER_SMALL_RUNS',
  // In a run, a query or a file.
  'rows/destinations/s3/writer.ts #inFlight': 'parts in flight',
  'rows/encoders/parquet/page.ts #spares': 'columns of a file',
  'rows/pipeline/file-set.ts #parts': 'maxPartitions of an interval',
  'rows/pipeline/key-tally.ts #due': 'the sample of a check',
  'rows/pipeline/partitioned-rows.ts #numbers': 'maxPartitions of an interval',
  'rows/pipeline/rejection-tally.ts #found': 'maxReasons',
  'rows/pipeline/row-spool.ts #groups': 'maxPartitions of an interval',
  'rows/query/bounds.ts #limits': 'expressions of a query of 100,000 characters',
  'rows/query/bounds.ts #sizes': 'expressions of a query of 100,000 characters',
  'rows/transforms/chain-step.ts #errors': 'maxReasons of a step',
  // In `sluice verify`.
  'service/verify/find-strays.ts #last': 'four manifests, whose bytes are bounded',
  'service/verify/find-strays.ts #markers': 'objects that are listed: mostListed',
  'service/verify/find-strays.ts #replaced': 'objects that are listed: mostListed',
  'service/verify/places.ts #owners': 'exports of the installation',
  'service/verify/sums.ts #skipped': 'reasons of the code',
};

const declared =
  /^(?: {2}(?:readonly )?|(?:export )?(?:const|let) )(#?\w+)(?:: [^=\n]+)? = new (?:Map|Set|BoundedMap)(?:<[^\n]*>)?\(\w*\);/gm;
/** Pages, commands, and programs whose process is a tenant's own. */
const elsewhere =
  /^clients\/(?:cli|console|quickstart)\/|^extensions\/own-plugins\/(?:child|realm|program)/;

it('every collection that stays has a bound', () => {
  const found = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.ts$/.test(file) && !elsewhere.test(file))
    .flatMap((file) =>
      [...readFileSync(`src/${file}`, 'utf8').matchAll(declared)]
        // What nothing is added to.
        .filter(([, name = '']) => !/^no(?:ne$|[A-Z])/.test(name))
        // A variable of a function.
        .filter(([text, name = '']) => !text.startsWith('  ') || name.startsWith('#'))
        .map(([, name]) => `${file} ${name}`),
    );
  expect(found.toSorted()).toEqual(Object.keys(collections).toSorted());
});

it('spellings of a time zone are forgotten', () => {
  const name = 'America/Argentina/Buenos_Aires';
  const spelling = (bits: number) =>
    [...name].map((c, at) => ((bits >> at) & 1 ? c.toUpperCase() : c.toLowerCase())).join('');
  const kept = IANAZone.create(name);
  for (let bits = 0; bits < 2 ** 11 && IANAZone.create(name) === kept; bits += 1) {
    expect(offsetAt(spelling(bits), 0)).toBe(-3 * 3_600_000);
  }
  expect(IANAZone.create(name)).not.toBe(kept);
});

import { readConfig } from '../../src/config/config.ts';
import { destinationContextOf, joinConnectors } from '../../src/main/connectors.ts';
import { joinSources, loadModels } from '../../src/main/models.ts';
import { exportInterval } from '../../src/pipeline/export-interval.ts';
import { interval, teamId } from './events.ts';
import { reportTaken } from './taken.ts';

/**
 * Exports the rows as a worker does, to an S3, and reports to its parent what it took. A worker is there
 * before its runs are, so a sixth of the rows goes first, and is not measured. Left out is what a
 * worker writes to its own database meanwhile.
 */
const [url = '', endpoint = '', format = '', compression = ''] = process.argv.slice(2);
const config = readConfig({ DATABASE_URL: url, ALLOWED_PRIVATE_ENDPOINTS: new URL(endpoint).host });
const context = destinationContextOf(config);
const connectors = joinConnectors(joinSources(config, loadModels(config), url), context);
const encoding = { file_format: format, compression: compression === '' ? null : compression };
const destination = connectors.openDestination(
  'S3',
  {
    bucket_name: 'bench',
    region: 'us-east-1',
    prefix: 'events',
    aws_access_key_id: 'bench',
    aws_secret_access_key: 'bench',
    role_arn: null,
    endpoint_url: endpoint,
    use_virtual_style_addressing: false,
    encryption: null,
    kms_key_id: null,
    ...encoding,
  },
  { externalId: 'bench' },
);
const nothing = async () => {};

async function exportUntil(end: number) {
  const part = { start: interval.start, end };
  const { result } = await exportInterval(
    {
      exportId: 'bench',
      runId: 'bench',
      attempt: 1,
      interval: part,
      request: {
        model: 'events',
        teamId,
        interval: part,
        dslQuery: null,
        includeEvents: null,
        excludeEvents: null,
      },
      prefix: end === interval.end ? 'events' : 'warm-up',
      encoding: connectors.encodingOf(encoding),
      maxFileBytes: null,
      writesManifest: true,
      generation: 1,
      era: 'bench',
      current: null,
      intent: null,
      uploads: [],
      mayBeOvertaken: false,
      begunManifests: [],
    },
    connectors.sourceOf('events'),
    destination,
    {
      journal: { starting: nothing, started: nothing, progressed: nothing, ended: nothing },
      readingBegins: nothing,
      progressed: nothing,
      confirmCommit: nothing,
      confirmLease: nothing,
      ownsUploads: async () => true,
      raiseGeneration: async (floor) => floor + 1,
      log: () => {},
    },
    new AbortController().signal,
  );
  return { rows: result.rows, bytes: result.bytes };
}

await exportUntil(interval.start + (interval.end - interval.start) / 6);
await reportTaken(() => exportUntil(interval.end));

import { type Static, Type } from 'typebox';
import { describeError } from '../../../foundation/domain/describe-error.ts';
import { SluiceError } from '../../../foundation/domain/errors.ts';
import { hideFolders } from '../../../foundation/domain/partition.ts';
import { type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import type { CommittedFile } from '../../../foundation/domain/receipt.ts';
import { toTimestamp } from '../../../foundation/domain/time.ts';
import type {
  Destination,
  DestinationDefinition,
  FileLink,
} from '../../../rows/destinations/destination.ts';
import type { PageRequest } from '../../../state/store/database/lists.ts';
import { findFilesOf, type IntervalFiles } from '../../../state/store/files/run-files.ts';
import { listLeftDestinations } from '../../../state/store/intervals/verify-queries.ts';
import type { Run } from '../../../state/store/runs/runs.ts';
import { findProject } from '../../../state/store/tenants/tenants.ts';
import { recordExportActivity } from '../../use-cases/exports/activity.ts';
import { openDestinationConfig } from '../../use-cases/exports/destination.ts';
import { actorOf, batchExportOf, type Reply, type Request } from '../api.ts';
import { OffsetPageOf, offsetEnvelope } from '../lists.ts';
import { costOfTrial } from '../operations.ts';
import type { Deps } from '../options.ts';
import { untilClosed } from '../replies.ts';
import {
  Flag,
  Int,
  OptionalInt,
  Part,
  PartOrNull,
  Resource,
  Text,
  TextOrNull,
  Time,
  UuidOrNull,
} from '../shapes.ts';

const Uri = TextOrNull('`s3://bucket/key`; null at a destination without such addresses.');

const RunFile = Resource('RunFile', 'A file of a run.', {
  key: Text('The object key, with the prefix.'),
  uri: Uri,
  generation: Int(
    'The number of the commit that wrote it. A run that adds late rows writes files of a later generation.',
  ),
  rows: Type.Integer(),
  bytes: Type.Integer(),
  sha256: Text("Of the object's bytes, lower-case hexadecimal."),
  rejected: Flag('Whether it holds rows that the format cannot represent, each with the reason.'),
});
type RunFile = Static<typeof RunFile>;

export const RunFilePage = Type.Object({
  ...OffsetPageOf(RunFile).properties,
  manifest: PartOrNull('The manifest that names the files; null if there is none.', {
    key: Type.String(),
    uri: Uri,
    generation: Type.Integer(),
  }),
  current_run: UuidOrNull(
    'The run of the newest commit of the interval. It lists all current files. An earlier run lists those of its files that are still current: a run that adds late rows keeps them, and a run of the whole interval replaces them. Null if the interval is not exported.',
  ),
});

export async function runFilesPage(
  request: Request,
  run: Run,
  page: PageRequest,
  destinations: readonly DestinationDefinition[],
) {
  const { found, own } = await currentFilesOf(request, run);
  const views = own === null ? [] : viewsOf(own, destinations);
  const results = views.slice(page.offset, page.offset + page.limit);
  const { manifestKey: key = null, generation = 0 } = own ?? {};
  const manifest = own && key && { key, uri: uriOf(own, destinations, key), generation };
  return {
    ...(await offsetEnvelope(request, page, { count: views.length, results }, (view) => view)),
    manifest: manifest || null,
    current_run: found?.runId ?? null,
  };
}

async function currentFilesOf(request: Request, run: Run) {
  const runFiles = await findFilesOf(request.context.db, run);
  return { found: runFiles, own: runFiles && ownFiles(runFiles, run) };
}

/** The newest run of an interval has all its files, an earlier one those that it wrote and that no run has replaced. */
function ownFiles(found: IntervalFiles, run: Run): IntervalFiles | null {
  const { runId, runGeneration, manifestKey, files, rejectedFiles } = found;
  if (runId === run.id) return found;
  // Without a manifest, files are replaced in place, and their generation stays.
  if (runGeneration === null || manifestKey === null) return null;
  const isOwn = ({ generation }: CommittedFile) => generation === runGeneration;
  const own = { ...found, files: files.filter(isOwn), rejectedFiles: rejectedFiles.filter(isOwn) };
  return own.files.length + own.rejectedFiles.length === 0 ? null : own;
}

function viewsOf(own: IntervalFiles, destinations: readonly DestinationDefinition[]): RunFile[] {
  const view = (file: CommittedFile, rejected: boolean): RunFile => {
    const { key, generation, rows, bytes, sha256 } = file;
    return { key, uri: uriOf(own, destinations, key), generation, rows, bytes, sha256, rejected };
  };
  const { files, rejectedFiles } = own;
  return [...files.map((one) => view(one, false)), ...rejectedFiles.map((one) => view(one, true))];
}

function uriOf(
  { destination: { type, config } }: IntervalFiles,
  destinations: readonly DestinationDefinition[],
  key: string,
): string | null {
  return destinations.find((one) => one.type === type)?.uri(config, key) ?? null;
}

const usualSeconds = 300;

export const LinkBody = Type.Object({
  key: Type.String({
    minLength: 1,
    maxLength: 2_048,
    description:
      'The key of a file of the run, or of its manifest, as the list of its files has it.',
  }),
  expires_in_seconds: OptionalInt({
    minimum: 10,
    maximum: 3_600,
    default: usualSeconds,
    description: 'How long the link is valid.',
  }),
});
type LinkBody = Static<typeof LinkBody>;

export const FileLinkView = Part('A link to a file.', {
  url: Text('It reads the file without a key until it expires.'),
  expires_at: {
    ...Time,
    description: 'Sooner than asked if the session of the role of the export ends sooner.',
  },
});

/** Rows leave by it: no key has the right by another one. A record is made of each, so none is made twice. */
export const linkConfig = { scope: 'file:read', changesNothing: true, cost: costOfTrial } as const;

const patienceMs = 20_000;

/** Makes a link to a current file of a run, and records it in the changes of the export. @throws Refusal */
export async function linkFile(
  deps: Deps,
  request: Request & { readonly body: LinkBody },
  reply: Reply,
  run: Run,
) {
  const { key, expires_in_seconds: seconds = usualSeconds } = request.body;
  const { db } = request.context;
  const actor = actorOf(request);
  const batchExport = batchExportOf(request);
  const { own } = await currentFilesOf(request, run);
  const files = [...(own?.files ?? []), ...(own?.rejectedFiles ?? [])];
  const file = files.find((one) => one.key === key);
  if (own === null || (file === undefined && own.manifestKey !== key)) {
    throw refusal(
      'does_not_exist',
      'The run has no current file with this key. Use a key of the list of its files; the newest run of an interval has all.',
    );
  }
  if (/(?:^|\/)\.{1,2}(?:\/|$)/.test(key)) {
    throw refusal(
      'invalid_input',
      'A browser changes a path with the folder . or .. in it, so no link can name this file. Read it with the tools of the store.',
    );
  }
  const signal = AbortSignal.any([untilClosed(reply), AbortSignal.timeout(patienceMs)]);
  const link = await deps.tests.use(actor.organizationId, signal, async () => {
    const destination = await openPlace(deps, request, own);
    try {
      return await linkAt(destination, key, file?.bytes ?? null, seconds, signal);
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      throw refusal('error', describeError(error));
    } finally {
      await destination.close();
    }
  });
  const expiresAt = toTimestamp(link.expiresAt);
  const change = { field: 'file', before: null, after: hideFolders(key) };
  const until = { field: 'link_expires_at', before: null, after: expiresAt };
  await recordExportActivity(db, actor, 'linked a file', batchExport, [change, until]);
  reply.header('cache-control', 'no-store');
  return { url: link.url, expires_at: expiresAt };
}

/** @param bytes of the receipt; null: not recorded @throws SluiceError, Refusal */
async function linkAt(
  destination: Destination,
  key: string,
  bytes: number | null,
  seconds: number,
  signal: AbortSignal,
): Promise<FileLink> {
  if (destination.linkFile === undefined) {
    throw refusal('invalid_input', 'This destination has no links: its files are not in a store.');
  }
  // By its own credentials, so that the answer says what a browser would not: gone, or not readable.
  const facts = await destination.statFile(key, signal);
  if (facts === null || (bytes !== null && facts.bytes !== bytes)) {
    const detail = facts === null ? 'is not there' : 'has another size than was delivered';
    throw refusal('does_not_exist', `The file ${detail}. \`sluice verify\` says what is wrong.`);
  }
  const name = (key.split('/').at(-1) ?? '').replace(/[^\w.-]/g, '_');
  return destination.linkFile(key, { seconds, name, signal });
}

/** Opens the destination at which the files are, also if the export has left it. @throws Refusal, SluiceError */
async function openPlace(
  { destinations, destinationContext }: Deps,
  request: Request,
  { destination: { type, leftVersion } }: IntervalFiles,
): Promise<Destination> {
  const { db, secrets } = request.context;
  const { id, teamId, destination: present } = batchExportOf(request);
  const definition = destinations.find((one) => one.type === type);
  const project = await findProject(db, teamId);
  const former =
    leftVersion === null
      ? null
      : (await listLeftDestinations(db, id)).find(({ version }) => version === leftVersion);
  if (!definition || !project || former === undefined || former?.isLocked) {
    throw refusal(
      'invalid_input',
      'The export has left the destination of this file, and its credentials for it are gone. Read the file with the tools of the store.',
    );
  }
  const config = openDestinationConfig(secrets, id, former?.destination ?? present);
  return definition.open(config, destinationContext, { externalId: project.externalId });
}

function refusal(code: Problem['code'], detail: string): Refusal {
  return new Refusal({ code, detail, attr: code === 'error' ? null : 'key' });
}

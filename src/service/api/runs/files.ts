import { type Static, Type } from 'typebox';
import type { DestinationDefinition } from '../../../rows/destinations/destination.ts';
import type { PageRequest } from '../../../state/store/database/lists.ts';
import type { CommittedFile } from '../../../foundation/domain/receipt.ts';
import { findFilesOf, type IntervalFiles } from '../../../state/store/files/run-files.ts';
import type { Run } from '../../../state/store/runs/runs.ts';
import type { Request } from '../api.ts';
import { offsetEnvelope } from '../lists/paging.ts';
import { OffsetPageOf } from '../lists/schema.ts';
import { Nullable, named } from '../schemas/shapes.ts';

const Uri = Nullable(
  Type.String({ description: '`s3://bucket/key`; null at a destination without such addresses.' }),
);

export const RunFile = named(
  'RunFile',
  Type.Object(
    {
      key: Type.String({ description: 'The object key, with the prefix.' }),
      uri: Uri,
      generation: Type.Integer({
        description:
          'The number of the commit that wrote it. A run that adds late rows writes files of a later generation.',
      }),
      rows: Type.Integer(),
      bytes: Type.Integer(),
      sha256: Type.String({ description: "Of the object's bytes, lower-case hexadecimal." }),
      rejected: Type.Boolean({
        description:
          'Whether it holds rows that the format cannot represent, each with the reason.',
      }),
    },
    { description: 'A file of a run.' },
  ),
);
type RunFile = Static<typeof RunFile>;

export const RunFilePage = Type.Object({
  ...OffsetPageOf(RunFile).properties,
  manifest: Nullable(
    Type.Object(
      { key: Type.String(), uri: Uri, generation: Type.Integer() },
      { description: 'The manifest that names the files; null if there is none.' },
    ),
  ),
  current_run: Nullable(
    Type.String({
      format: 'uuid',
      description:
        'The run of the newest commit of the interval. It lists all current files. An earlier run lists those of its files that are still current: a run that adds late rows keeps them, and a run of the whole interval replaces them. Null if the interval is not exported.',
    }),
  ),
});

/** The files of a run that are current, those of rejected rows last. */
export async function runFilesPage(
  request: Request,
  run: Run,
  page: PageRequest,
  destinations: readonly DestinationDefinition[],
) {
  const { found, own } = await currentFilesOf(request, run);
  const views = own === null ? [] : viewsOf(own, destinations);
  const results = views.slice(page.offset, page.offset + page.limit);
  return {
    ...(await offsetEnvelope(request, page, { count: views.length, results }, (view) => view)),
    manifest:
      !own || own.manifestKey === null
        ? null
        : {
            key: own.manifestKey,
            uri: uriOf(own, destinations, own.manifestKey),
            generation: own.generation,
          },
    current_run: found?.runId ?? null,
  };
}

/** The current files of the interval of a run, and those of the run itself. */
export async function currentFilesOf(request: Request, run: Run) {
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
  const view =
    (rejected: boolean) =>
    ({ key, generation, rows, bytes, sha256 }: CommittedFile): RunFile => ({
      key,
      uri: uriOf(own, destinations, key),
      generation,
      rows,
      bytes,
      sha256,
      rejected,
    });
  return [...own.files.map(view(false)), ...own.rejectedFiles.map(view(true))];
}

function uriOf(
  { destination: { type, config } }: IntervalFiles,
  destinations: readonly DestinationDefinition[],
  key: string,
): string | null {
  return destinations.find((one) => one.type === type)?.uri(config, key) ?? null;
}

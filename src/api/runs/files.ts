import { type Static, Type } from 'typebox';
import type { DestinationDefinition } from '../../destinations/destination.ts';
import type { PageRequest } from '../../store/lists.ts';
import type { ReceiptFile } from '../../store/receipts.ts';
import { findFilesOf, type IntervalFiles } from '../../store/run-files.ts';
import type { Run } from '../../store/runs.ts';
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
        'The run that wrote the current files of the interval. If it is another run, it has replaced the files of this run, which are no longer listed. Null if the interval is not exported.',
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
  const found = await findFilesOf(request.context.db, run);
  const own = found?.runId === run.id ? found : null;
  const views = own === null ? [] : viewsOf(own, destinations);
  const results = views.slice(page.offset, page.offset + page.limit);
  return {
    ...offsetEnvelope(request, page, { count: views.length, results }, (view) => view),
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

function viewsOf(own: IntervalFiles, destinations: readonly DestinationDefinition[]): RunFile[] {
  const view =
    (rejected: boolean) =>
    ({ key, rows, bytes, sha256 }: ReceiptFile): RunFile => ({
      key,
      uri: uriOf(own, destinations, key),
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

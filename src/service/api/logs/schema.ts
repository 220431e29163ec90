import { type Static, Type } from 'typebox';
import { inSnakeCase } from '../../../foundation/domain/snake-case.ts';
import { type LogEntry, logLevels } from '../../../state/store/exports/log-entries.ts';
import { PageQuery } from '../lists/schema.ts';
import { TimeOrSpan } from '../runs/schema.ts';
import { Nullable, named, Time } from '../schemas/shapes.ts';

export const BatchExportLog = named(
  'BatchExportLog',
  Type.Object(
    {
      team_id: Type.Integer(),
      batch_export_id: Type.String({ format: 'uuid' }),
      run_id: Nullable(
        Type.String({
          format: 'uuid',
          description: 'Null if the entry is about the export itself.',
        }),
      ),
      timestamp: Time,
      level: Type.Enum([...logLevels]),
      message: Type.String(),
    },
    { description: 'A log entry for the owner of an export.' },
  ),
);
export type BatchExportLog = Static<typeof BatchExportLog>;

const Levels = Type.Optional(
  Type.Array(Type.Enum([...logLevels]), { description: 'May be repeated.' }),
);

export const LogListQuery = Type.Object({
  ...PageQuery,
  level: Levels,
  level_filter: Levels,
  after: TimeOrSpan('At or after'),
  before: TimeOrSpan('At or before'),
  search: Type.Optional(
    Type.String({ maxLength: 400, description: 'Part of the message; case does not matter.' }),
  ),
});
export type LogListQuery = Static<typeof LogListQuery>;

export function logView({ exportId, ...entry }: LogEntry): BatchExportLog {
  return { ...inSnakeCase(entry), batch_export_id: exportId };
}

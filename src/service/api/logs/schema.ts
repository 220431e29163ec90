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
    {
      description: 'A log entry for the owner of an export.',
      examples: [
        {
          team_id: 1,
          batch_export_id: '3f0cf0b7-5a2c-4e0e-9d0e-7d3b1c9f2a11',
          run_id: '018f3c1e-9c3e-7f6a-b5d5-0f7b2f6f3f55',
          timestamp: '2024-03-01T01:00:04.771203Z',
          level: 'INFO',
          message: 'Exported 8312 rows in 1 file.',
        },
      ],
    },
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

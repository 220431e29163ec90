import { useEffect, useState } from 'react';
import type { RowPreview } from '../api-types.ts';
import { useConsole, useResource } from '../use-api.ts';
import { formatCell } from '../numbers.ts';
import { Fact } from '../parts/tables.tsx';
import { TimeText } from '../parts/time-text.tsx';
import type { ExportInput } from './draft.ts';

interface Props {
  readonly body: ExportInput;
  /** Null for a new export. */
  readonly exportId: string | null;
  readonly model: string;
  /** The rows that were tried last; null: none. */
  readonly rows: RowPreview | null;
}

/** Time without a key before the service is asked. */
const pauseMs = 500;
const shownColumns = 8;

/** The fields that decide the key and the time of a file. */
const ofKeys = 'prefix file_name file_format compression max_file_size_mb partition_by'.split(' ');
const ofTimes = ['interval', 'timezone', 'offset_day', 'offset_hour', 'start_at', 'end_at'];

const pick = (whole: Readonly<Record<string, unknown>>, names: readonly string[]) =>
  Object.fromEntries(names.flatMap((name) => (name in whole ? [[name, whole[name]]] : [])));

/** The result that the export will write: its first key, its next run, and a row. */
export function Written({ body, exportId, model, rows }: Props) {
  const { api } = useConsole();
  const config = pick(body.destination.config, ofKeys);
  const settledDraft = useSettled(
    JSON.stringify({ ...pick(body, ofTimes), model, destination: { config } }),
  );
  const file = useResource({
    key: settledDraft,
    load: (signal) => api.post('batch_exports/query', {}, JSON.parse(settledDraft), signal),
  });
  const sample = useResource({
    key: model,
    load: async (signal) => {
      if (model === '') return null;
      const whose = exportId === null ? { model } : { id: exportId };
      return api.post('batch_exports/preview', {}, { ...whose, limit: 1 } as never, signal);
    },
  });
  const { first_key: key = null, next_run_at: at = null } = file.data ?? {};
  const shown = rows ?? sample.data;
  const row = shown?.rows.at(-1);
  return (
    <aside className="card panel written" aria-label="What will be written">
      <h2>What will be written</h2>
      <dl>
        <Fact name="First file">{key === null ? <Open /> : <code>{key}</code>}</Fact>
        <Fact name="Next run">{at === null ? <Open /> : <TimeText at={at} />}</Fact>
        <Fact name="A row">
          {row ? (
            <ul>
              {shown?.columns.slice(0, shownColumns).map(({ name }, column) => (
                <li key={name} className="one-line">
                  <code>{name}</code> {formatCell(row[column])}
                </li>
              ))}
              {shown && shown.columns.length > shownColumns && (
                <li className="muted">and {shown.columns.length - shownColumns} more columns</li>
              )}
            </ul>
          ) : (
            <span className="muted">
              {sample.failure
                ? '“Preview rows” says why there is none.'
                : shown
                  ? 'none yet'
                  : 'not read yet'}
            </span>
          )}
        </Fact>
      </dl>
    </aside>
  );
}

const Open = () => <span className="muted">open until the fields are complete</span>;

/** The text once it has not changed for a while. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

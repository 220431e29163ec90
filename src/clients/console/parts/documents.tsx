import { useState } from 'react';
import type { Api } from '../api.ts';
import { useConsole } from '../console-context.ts';
import { Choice } from '../form/choice.tsx';
import { isRecord, parseJson } from '../json.ts';
import { saveFile } from '../save-file.ts';
import { useAction } from '../use-action.ts';
import { lastMonths, useNow } from '../now.ts';
import { Failure } from './notice.tsx';

/** A page for people, or the bytes that are signed. */
const formats = [
  ['html', 'page', 'text/html'],
  ['json', 'signed JSON', 'application/json'],
] as const;
type Format = (typeof formats)[number][0];

interface SaveProps {
  /** Of the document. */
  readonly what: string;
  readonly save: (format: Format, type: string) => Promise<void>;
}

function SaveButtons({ what, save }: SaveProps) {
  const action = useAction(save);
  return (
    <>
      {formats.map(([format, name, type]) => (
        <button
          key={format}
          type="button"
          className="small quiet"
          aria-label={`Save as ${name}: ${what}`}
          aria-disabled={action.busy}
          onClick={() => void action.run(format, type)}
        >
          Save as {name}
        </button>
      ))}
      <Failure failure={action.failure} />
    </>
  );
}

/** The record of what all exports of the project have delivered in a month. */
export function DeliveryRecord() {
  const { api } = useConsole();
  const months = lastMonths(useNow());
  const [chosen, setMonth] = useState<string | null>(null);
  const month = chosen ?? months[0] ?? '';
  return (
    <section className="row" aria-label="Delivery record">
      <Choice
        attr="month"
        label="Delivery record of all exports"
        value={month}
        choices={months.map((one) => [one, one] as const)}
        onChange={setMonth}
      />
      <SaveButtons
        what="the delivery record"
        save={async (format, type) => {
          const text = await api.getText('delivery_record', { month, format });
          saveFile(`delivery ${month}.${format}`, text, type);
        }}
      />
    </section>
  );
}

interface CertificatesProps {
  readonly exportId: string;
  readonly number: number;
}

/** The certificates of what a statement has erased. */
export function Certificates({ exportId: id, number }: CertificatesProps) {
  const { api } = useConsole();
  return (
    <SaveButtons
      what={`the certificates of erasure of statement ${number}`}
      save={async (format, type) => {
        for (const request of await requestsOf(api, id, number)) {
          const text = await api.getText('batch_exports/{id}/erasures/{request}', {
            id,
            request,
            format,
          });
          saveFile(`erasure ${request}.${format}`, text, type);
        }
      }}
    />
  );
}

/** The requests to erase that a statement books. */
async function requestsOf(api: Api, id: string, number: number): Promise<ReadonlySet<string>> {
  const text = await api.getText('batch_exports/{id}/statements/{number}', { id, number });
  const statement = parseJson(text);
  const bookings: readonly unknown[] =
    isRecord(statement) && Array.isArray(statement.bookings) ? statement.bookings : [];
  const requests = bookings.flatMap((booking) => {
    const note = isRecord(booking) && booking.kind === 'erased' ? booking.note : null;
    return isRecord(note) && typeof note.request === 'string' ? [note.request] : [];
  });
  return new Set(requests);
}

import { useState } from 'react';
import type { Statement, StatementHead } from '../api-types.ts';
import { type Api, wholeList } from '../api.ts';
import { Choice } from '../form/inputs.tsx';
import { isRecord, parseJson } from '../json.ts';
import { formatCount, plural } from '../numbers.ts';
import { ActButton, CopyText } from '../parts/buttons.tsx';
import { Empty, Failure, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { Facts, ScrolledTable } from '../parts/tables.tsx';
import { IntervalText, lastMonths, useNow } from '../parts/time-text.tsx';
import { saveFile } from '../save-file.ts';
import { useAction, useConsole, useResource } from '../use-api.ts';
import { offsetOf, useQuery } from '../use-route.ts';

const pageSize = 20;
const pollMs = () => 15_000;
const heads = ['Number', 'Period', 'Delivered', 'Removed', 'Erased', 'Balance', 'Digest', 'File'];

export function StatementsTab({ exportId: id }: { readonly exportId: string }) {
  const { api, may } = useConsole();
  const offset = offsetOf(useQuery().query);
  const { data, failure, reload } = useResource({
    key: `${id} ${offset}`,
    load: (signal) =>
      api.get('batch_exports/{id}/statements', { id, limit: pageSize, offset }, signal),
    pollMs,
  });
  const head = useResource({
    key: id,
    load: (signal) => api.get('batch_exports/{id}/statements/head', { id }, signal),
    pollMs,
  });
  const key = useResource({ key: id, load: () => readSigningKey(api), pollMs });
  const make = useAction(async () => {
    await api.post('batch_exports/{id}/statements', { id });
  });
  return (
    <section aria-label="Statements">
      <div className="row">
        <p className="muted small">
          Each statement is signed, and names the one before. Rows are counted.
        </p>
        {may('batch_export:write') && (
          <ActButton act={make} className="last">
            Make one now
          </ActButton>
        )}
      </div>
      <Failure failure={head.failure ?? key.failure} />
      <Pending {...{ data, failure, reload }} lines={6} />
      {data?.count === 0 && (
        <Empty title="No statements yet">
          <p>Sluice makes one each day.</p>
        </Empty>
      )}
      {head.data && key.data && head.data.number > 0 && (
        <Proof exportId={id} head={head.data} signingKey={key.data} />
      )}
      {data && data.results.length > 0 && (
        <ScrolledTable className="scroll" label="List of statements" heads={heads}>
          {data.results.map((statement) => (
            <StatementRow key={statement.number} {...{ id, statement }} />
          ))}
        </ScrolledTable>
      )}
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} />}
      {head.data && head.data.number > 0 && <DeliveryRecord />}
    </section>
  );
}

function StatementRow({ id, statement }: { readonly id: string; readonly statement: Statement }) {
  const { api } = useConsole();
  const { number, sha256, begins, period_start: start, period_end: end, balance } = statement;
  const { delivered, removed, erased, closing } = balance;
  const save = useAction(async () => {
    const text = await api.getText('batch_exports/{id}/statements/{number}', { id, number });
    saveFile(`statement ${number} of ${id}.json`, text, 'application/json');
  });
  return (
    <tr>
      <th scope="row">
        {number}
        {begins !== null && begins !== 'first' && (
          <span className="warn-text small"> new chain: {begins}</span>
        )}
      </th>
      <td>
        <IntervalText start={start} end={end} />
      </td>
      {[delivered, removed, erased, closing].map((sum, index) => (
        <td key={heads[index + 2]}>{formatCount(sum.rows)}</td>
      ))}
      <td>
        <code title={sha256}>{sha256.slice(0, 16)}…</code>
      </td>
      <td>
        <ActButton act={save} className="small quiet" aria-label={`Download statement ${number}`}>
          Download
        </ActButton>
        {erased.rows > 0 && <Certificates exportId={id} number={number} />}
      </td>
    </tr>
  );
}

interface ProofProps {
  readonly exportId: string;
  readonly head: StatementHead;
  readonly signingKey: SigningKey;
}

/** The head, the key, the command of the checker, and a check in the browser. */
function Proof({ exportId, head, signingKey: { fingerprint, publicKey } }: ProofProps) {
  const { api } = useConsole();
  const [verdict, setVerdict] = useState<StatementVerdict | null>(null);
  const shownKey = fingerprint ?? publicKey;
  const check = useAction(async () => {
    setVerdict(null);
    const newest = await api.get('batch_exports/{id}/statements/head', { id: exportId });
    setVerdict(await checkStatements(api, exportId, newest, shownKey));
  });
  const command = `node sluice-check.mjs ./copy-of-the-bucket --deep --key ${shownKey} --head ${head.number}:${head.sha256}`;
  return (
    <>
      <Facts
        of={{
          'At the destination': (
            <>
              {head.put_number} of {head.number}
              {head.put_fault !== null && <span className="warn-text"> {head.put_fault}</span>}
            </>
          ),
          'Loaded by the receiver': <Loaded acknowledged={head.acknowledged} />,
          [fingerprint === null ? 'Public key' : 'Fingerprint of the key']: (
            <CopyText text={shownKey} what="key" />
          ),
          'Check a copy of the bucket': <CopyText text={command} what="command" />,
        }}
      />
      <div className="row">
        <ActButton act={check}>Check here</ActButton>
        <span className="muted small">
          Checks the chain and the signatures in this browser, not the files at the destination.
        </span>
      </div>
      {verdict && <Verdict verdict={verdict} />}
    </>
  );
}

function Loaded({ acknowledged }: Pick<StatementHead, 'acknowledged'>) {
  if (acknowledged === null) return <span className="muted">not said yet</span>;
  const { number, rows, difference, rows_of_balance: owed } = acknowledged;
  const said = `statement ${number}, ${plural(rows, 'row')}`;
  if (difference === 0) return said;
  return (
    <span className="warn-text">
      {said}, but{' '}
      {owed === null ? 'this statement was replaced' : `its balance is ${formatCount(owed)}`}
    </span>
  );
}

function Verdict({ verdict: { isRight, lines } }: { readonly verdict: StatementVerdict }) {
  return (
    <div role="status" aria-label="Result of the check">
      <p className={isRight ? 'good-text' : 'warn-text'}>
        <strong>
          {isRight ? 'The chain and all signatures are right.' : 'This is not shown to be right.'}
        </strong>
      </p>
      <ul className="small reason">
        {lines.map((line) => (
          <li key={line}>
            <code>{line}</code>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A page for people, or the bytes that are signed. */
const formats = [
  ['html', 'page', 'text/html'],
  ['json', 'signed JSON', 'application/json'],
] as const;
type Format = (typeof formats)[number][0];

interface SaveProps {
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

function DeliveryRecord() {
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

/** The certificates of what a statement has erased. */
function Certificates({ exportId: id, number }: { exportId: string; number: number }) {
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

interface StatementVerdict {
  readonly isRight: boolean;
  /** Months, and what the checker says. */
  readonly lines: readonly string[];
}

const cannot =
  'NOT CHECKED: this browser cannot check Ed25519 signatures at this address. Use a newer browser, and https, or run the checker.';

/**
 * Checks the statements of an export and their signatures by the script that customers run. The objects at the destination are
 * not looked at.
 *
 * @throws ApiFailure
 */
async function checkStatements(
  api: Api,
  id: string,
  head: StatementHead,
  fingerprint: string,
): Promise<StatementVerdict> {
  if (!(await hasEd25519())) return { isRight: false, lines: [cannot] };
  const list = await wholeList((page) => api.get('batch_exports/{id}/statements', { id, ...page }));
  const paths = list.results.map(({ number }) => `_sluice/statements/${number}.json`);
  const names = ['_sluice/keys.json', ...paths];
  const open = async (path: string) => {
    if (!names.includes(path)) return null;
    const [, number] = /(\d+)\.json$/.exec(path) ?? [];
    const text = await (number === undefined
      ? api.getText('/api/signing_keys', {})
      : api.getText('batch_exports/{id}/statements/{number}', { id, number: Number(number) }));
    const bytes = new Blob([text]);
    return { size: bytes.size, body: bytes.stream() };
  };
  const { check } = await import('../../../../client/check/sluice-check.mjs');
  const { exit, lines } = await check(
    { names, open },
    {
      // No interval ends after it, so no object is looked for.
      since: '9999-12-31',
      keys: [fingerprint],
      ...(head.sha256 !== null && { head: `${head.number}:${head.sha256}` }),
    },
  );
  return { isRight: exit === 0, lines: lines.filter((line) => !line.startsWith('Objects that')) };
}

/** Browsers have it in a secure context only: https, and localhost. */
async function hasEd25519(): Promise<boolean> {
  try {
    const pair = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
    return 'publicKey' in pair;
  } catch {
    return false;
  }
}

interface SigningKey {
  /** SHA-256 of the public key; null if the browser cannot compute it here. */
  readonly fingerprint: string | null;
  readonly publicKey: string;
}

/** The newest key of the installation; null before the first. */
async function readSigningKey(api: Api): Promise<SigningKey | null> {
  const answer = parseJson(await api.getText('/api/signing_keys', {}));
  const newest: unknown = isRecord(answer) && Array.isArray(answer.keys) && answer.keys.at(-1);
  if (!isRecord(newest) || typeof newest.public_key !== 'string') return null;
  const { public_key: publicKey } = newest;
  const pairs = publicKey.match(/../g) ?? [];
  const bytes = Uint8Array.from(pairs, (pair) => Number.parseInt(pair, 16));
  const digest = await globalThis.crypto.subtle?.digest('SHA-256', bytes);
  const digits =
    digest && Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0'));
  return { fingerprint: digits?.join('') ?? null, publicKey };
}

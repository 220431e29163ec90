import { useState } from 'react';
import type { Statement, StatementHead } from '../api-types.ts';
import {
  checkStatements,
  readSigningKey,
  type SigningKey,
  type StatementVerdict,
} from '../check-statements.ts';
import { useConsole } from '../console-context.ts';
import { formatCount, plural } from '../numbers.ts';
import { ActButton } from '../parts/act-button.tsx';
import { CopyText } from '../parts/copy-text.tsx';
import { Certificates, DeliveryRecord } from '../parts/documents.tsx';
import { Fact, Facts } from '../parts/facts.tsx';
import { Empty, Failure, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { ScrolledTable } from '../parts/scrolled-table.tsx';
import { IntervalText } from '../parts/time-text.tsx';
import { saveFile } from '../save-file.ts';
import { useAction } from '../use-action.ts';
import { offsetOf, useQuery } from '../use-query.ts';
import { useResource } from '../use-resource.ts';

const pageSize = 20;
const pollMs = () => 15_000;
const heads = ['Number', 'Period', 'Delivered', 'Removed', 'Erased', 'Balance', 'Digest', 'File'];

/** The signed statements of an export, and how to check them. */
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
  const check = useAction(async () => {
    setVerdict(null);
    const newest = await api.get('batch_exports/{id}/statements/head', { id: exportId });
    setVerdict(await checkStatements(api, exportId, newest, fingerprint ?? publicKey));
  });
  const shownKey = fingerprint ?? publicKey;
  const command = `node sluice-check.mjs ./copy-of-the-bucket --deep --key ${shownKey} --head ${head.number}:${head.sha256}`;
  return (
    <>
      <Facts>
        <Fact name="At the destination">
          {head.put_number} of {head.number}
          {head.put_fault !== null && <span className="warn-text"> {head.put_fault}</span>}
        </Fact>
        <Fact name="Loaded by the receiver">
          <Loaded acknowledged={head.acknowledged} />
        </Fact>
        <Fact name={fingerprint === null ? 'Public key' : 'Fingerprint of the key'}>
          <CopyText text={shownKey} what="key" />
        </Fact>
        <Fact name="Check a copy of the bucket">
          <CopyText text={command} what="command" />
        </Fact>
      </Facts>
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

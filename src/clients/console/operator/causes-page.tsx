import { useState } from 'react';
import type { Cause } from '../api-types.ts';
import { Choice } from '../form/choice.tsx';
import { TextField } from '../form/text-field.tsx';
import { plural } from '../numbers.ts';
import { Empty, Failure, Loading } from '../parts/notice.tsx';
import { TimeText } from '../parts/time-text.tsx';
import { useResource } from '../use-resource.ts';
import { useTitle } from '../use-title.ts';
import { CauseActions } from './cause-actions.tsx';
import { causeExportsPageSize, causesPageSize, type OperatorClient } from './operator-client.ts';
import { TaskList } from './task-list.tsx';

const turns = [
  ['', 'Anyone'],
  ['ours', 'Ours'],
  ['source', 'The source’s owner'],
  ['customer', 'The customer'],
] as const;

/** Over all customers: the rows are causes, not exports. */
export function CausesPage({ client }: { readonly client: OperatorClient }) {
  const [search, setSearch] = useState('');
  const [turn, setTurn] = useState('');
  const [offset, setOffset] = useState(0);
  useTitle('All customers');
  const filter = { search, turn: (turn || null) as Cause['turn'] | null, offset };
  const { data, failure, reload } = useResource({
    key: JSON.stringify(filter),
    load: (signal) => client.listCauses(filter, signal),
    pollMs: () => 10_000,
  });
  const narrow = (change: () => void) => {
    change();
    setOffset(0);
  };
  const shown = data?.results.length ?? 0;
  return (
    <>
      <div className="row heading">
        <h1>What keeps exports from their data</h1>
        {data && <span className="muted">{plural(data.count, 'cause')}</span>}
      </div>
      <search className="row">
        <TextField
          attr="search"
          label="Customer"
          value={search}
          onChange={(text) => narrow(() => setSearch(text))}
          input={{ placeholder: 'name, id or tenant key' }}
        />
        <Choice
          attr="turn"
          label="Whose turn"
          value={turn}
          choices={turns}
          onChange={(text) => narrow(() => setTurn(text))}
        />
      </search>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading lines={5} />}
      {data?.count === 0 && <Empty title="Nothing is wrong" />}
      {shown > 0 && (
        <ul className="card" aria-label={plural(data?.count ?? 0, 'cause')}>
          {data?.results.map((cause) => (
            <CauseRow key={cause.id} cause={cause} client={client} onDone={reload} />
          ))}
        </ul>
      )}
      {data && data.count > causesPageSize && (
        <div className="row end">
          <button
            type="button"
            disabled={offset === 0}
            onClick={() => setOffset(Math.max(0, offset - causesPageSize))}
          >
            Previous
          </button>
          <button
            type="button"
            disabled={offset + shown >= data.count}
            onClick={() => setOffset(offset + causesPageSize)}
          >
            Next
          </button>
        </div>
      )}
      <TaskList client={client} />
    </>
  );
}

interface RowProps {
  readonly cause: Cause;
  readonly client: OperatorClient;
  readonly onDone: () => void;
}

const turnNames: Readonly<Record<Cause['turn'], string>> = {
  ours: 'our turn',
  source: 'the source’s owner',
  customer: 'the customer',
};

function CauseRow({ cause, client, onDone }: RowProps) {
  const [isOpen, setOpen] = useState(false);
  const who = cause.organization_name ?? plural(cause.organizations, 'customer');
  return (
    <li className="stack cause-row">
      <div className="row heading">
        <h2>
          {cause.place === '' ? cause.means : `${cause.place}: ${cause.means}`}{' '}
          <code>{cause.code}</code>
        </h2>
        <strong className={cause.turn === 'ours' ? 'bad-text' : 'muted'}>
          {turnNames[cause.turn]}
        </strong>
      </div>
      <p>
        {who} · {plural(cause.exports, 'export')} · {plural(cause.missing_intervals, 'interval')}{' '}
        without data
        {cause.since !== null && (
          <>
            {' '}
            · since <TimeText at={cause.since} />
          </>
        )}
      </p>
      {cause.latest_error !== null && <p className="muted">{cause.latest_error}</p>}
      <p>
        {cause.remedy} <span className="muted">{cause.next}</span>
      </p>
      <div className="row">
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Exports
        </button>
        <CauseActions cause={cause} client={client} onDone={onDone} />
      </div>
      {isOpen && <CauseExports causeId={cause.id} client={client} />}
    </li>
  );
}

interface Props {
  readonly causeId: string;
  readonly client: OperatorClient;
}

/** The exports that a cause holds up. */
function CauseExports({ causeId, client }: Props) {
  const { data, failure, reload } = useResource({
    key: causeId,
    load: (signal) => client.listExports(causeId, 0, signal),
    pollMs: () => 10_000,
  });
  return (
    <>
      <Failure failure={failure} onRetry={reload} stale={data !== null} />
      {!data && !failure && <Loading lines={3} />}
      {data && (
        <ul className="cause-exports" aria-label={plural(data.count, 'export')}>
          {data.results.map((one) => (
            <li key={one.id}>
              {one.organization_name} › {one.project_name} › <strong>{one.name}</strong>{' '}
              <small className="muted">{one.id}</small>
              {one.missing_intervals > 0 &&
                ` · ${plural(one.missing_intervals, 'interval')} without data`}
              {one.latest_error !== null && <p className="muted">{one.latest_error}</p>}
            </li>
          ))}
        </ul>
      )}
      {data && data.count > causeExportsPageSize && (
        <p className="muted">{plural(data.count - causeExportsPageSize, 'more export')}</p>
      )}
    </>
  );
}

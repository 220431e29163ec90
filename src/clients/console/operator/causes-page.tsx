import { useState } from 'react';
import { type Api, ApiFailure, wholeList } from '../api.ts';
import type { Cause, OperatorExport } from '../api-types.ts';
import { Choice, TextField } from '../form/inputs.tsx';
import { plural } from '../numbers.ts';
import { MessageText, TimeText } from '../parts/time-text.tsx';
import { Empty, Failure, Loading, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { hrefOf } from '../route.ts';
import { chosenOf, offsetOf, useQuery, useSearchText, useTitle } from '../use-route.ts';
import { useAction, useConsole, useResource } from '../use-api.ts';
import { ConfirmDialog, DialogButton } from '../parts/buttons.tsx';

const turns = [
  ['', 'Anyone'],
  ['ours', 'Ours'],
  ['source', 'The source’s owner'],
  ['customer', 'The customer'],
] as const;

const turnsOfCauses = ['ours', 'source', 'customer'] as const satisfies readonly Cause['turn'][];

const pageSize = 50;

/** The id of a run or an export, which links search for. */
const exportId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Over all customers: the rows are causes, not exports. */
export function CausesPage() {
  const { api } = useConsole();
  const { query, setQuery } = useQuery();
  const [text, setText] = useSearchText();
  const search = query.get('search') ?? '';
  const [turn = null] = chosenOf(query, 'turn', turnsOfCauses);
  const offset = offsetOf(query);
  useTitle('All customers');
  const { data, failure, reload } = useResource({
    key: JSON.stringify([search, turn, offset]),
    load: (signal) =>
      api.get('/api/admin/causes', { search, turn, limit: pageSize, offset }, signal),
    pollMs: () => 10_000,
  });
  const isFiltered = search !== '' || turn !== null;
  return (
    <>
      <div className="row heading">
        <h1>What keeps exports from their data</h1>
        {data && <span className="muted">{plural(data.count, 'cause')}</span>}
      </div>
      <search className="row filters">
        <TextField
          attr="search"
          label="Customer"
          value={text}
          onChange={setText}
          help="Name, id or tenant key, or the id of an export."
        />
        <Choice
          attr="turn"
          label="Whose turn"
          value={turn ?? ''}
          choices={turns}
          onChange={(value) => setQuery({ turn: value, from: null })}
        />
      </search>
      <Pending {...{ data, failure, reload }} lines={5} />
      {data?.count === 0 &&
        (exportId.test(search) && turn === null ? (
          <Empty title="Nothing keeps this export from its data" />
        ) : (
          <Empty title={isFiltered ? 'No cause matches' : 'Nothing is wrong'} />
        ))}
      {data && data.results.length > 0 && (
        <ul className="card" aria-label={plural(data.count, 'cause')}>
          {data.results.map((cause) => (
            <CauseRow key={cause.id} cause={cause} />
          ))}
        </ul>
      )}
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} />}
    </>
  );
}

const exportHref = ({ id, project_id: project }: OperatorExport) =>
  hrefOf({ page: 'export', exportId: id, tab: 'runs' }, String(project));

interface RowProps {
  readonly cause: Cause;
}

const turnNames: Readonly<Record<Cause['turn'], string>> = {
  ours: 'our turn',
  source: 'the source’s owner',
  customer: 'the customer',
};

function CauseRow({ cause }: RowProps) {
  const { may } = useConsole();
  const { query, setQuery } = useQuery();
  const isOpen = query.get('cause') === cause.id;
  const who = cause.organization_name ?? plural(cause.organizations, 'customer');
  return (
    <li className="stack cause-row">
      <div className="row heading">
        <h2>
          {cause.place !== '' && (
            <>
              <bdi>{cause.place}</bdi>:{' '}
            </>
          )}
          {cause.means} <code>{cause.code}</code>
        </h2>
        <strong className={cause.turn === 'ours' ? 'bad-text' : 'muted'}>
          {turnNames[cause.turn]}
        </strong>
      </div>
      <p>
        <bdi>{who}</bdi> · {plural(cause.exports, 'export')} ·{' '}
        {plural(cause.missing_intervals, 'interval')} without data
        {cause.since !== null && (
          <>
            {' '}
            · since <TimeText at={cause.since} />
          </>
        )}
      </p>
      {cause.latest_error !== null && (
        <p className="muted">
          <MessageText text={cause.latest_error} />
        </p>
      )}
      <p>
        {!cause.latest_error?.includes(cause.remedy) && `${cause.remedy} `}
        <span className="muted">
          {cause.next_probe_at === null ? (
            cause.next
          ) : (
            <>
              Sluice tries it again at <TimeText at={cause.next_probe_at} />. Once it works, what
              lacks data runs by itself.
            </>
          )}
        </span>
      </p>
      <div className="row">
        <button
          type="button"
          aria-expanded={isOpen}
          onClick={() => setQuery({ cause: isOpen ? null : cause.id, exports: null })}
        >
          Exports
        </button>
        {may('operator:write') && <CauseActions cause={cause} />}
      </div>
      {isOpen && <CauseExports cause={cause} />}
    </li>
  );
}

function CauseExports({ cause }: RowProps) {
  const { api } = useConsole();
  const { query } = useQuery();
  const offset = offsetOf(query, 'exports');
  const { data, failure, reload } = useResource({
    key: `${cause.id} ${offset}`,
    load: (signal) =>
      api.get('/api/admin/exports', { cause_id: cause.id, limit: pageSize, offset }, signal),
    pollMs: () => 10_000,
  });
  return (
    <>
      <Pending {...{ data, failure, reload }} lines={3} />
      {data && (
        <ul className="cause-exports" aria-label={plural(data.count, 'export')}>
          {data.results.map((one) => (
            <li key={one.id}>
              <bdi>{one.organization_name}</bdi> › <bdi>{one.project_name}</bdi> ›{' '}
              <a href={exportHref(one)}>
                <bdi>{one.name}</bdi>
              </a>{' '}
              <small className="muted">{one.id}</small>
              {one.missing_intervals > 0 &&
                ` · ${plural(one.missing_intervals, 'interval')} without data`}
              {one.latest_error !== null && one.latest_error !== cause.latest_error && (
                <p className="muted">
                  <MessageText text={one.latest_error} />
                </p>
              )}
            </li>
          ))}
        </ul>
      )}
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} name="exports" />}
    </>
  );
}

type OperatorAction = 'probe' | 'retry' | 'pause';

const actions = [
  ['probe', 'Probe now', 'One interval of one export is exported again.'],
  ['retry', 'Retry all', 'Every interval without data is exported again, behind live runs.'],
  ['pause', 'Pause all', 'All exports of this cause are paused.'],
] as const satisfies readonly (readonly [OperatorAction, string, string])[];

/** The actions of an operator on all exports of a cause; each shows first how many it is. */
function CauseActions({ cause }: RowProps) {
  return actions.map(([action, verb, meaning]) => (
    <DialogButton
      key={action}
      aria-label={`${verb}: ${cause.code} ${cause.place}`}
      dialog={(onClose) => <ActionDialog {...{ cause, action, verb, meaning, onClose }} />}
    >
      {verb}
    </DialogButton>
  ));
}

interface DialogProps extends RowProps {
  readonly action: OperatorAction;
  readonly verb: string;
  readonly meaning: string;
  readonly onClose: () => void;
}

function ActionDialog(props: DialogProps) {
  const { cause, action, verb, meaning, onClose } = props;
  const { api } = useConsole();
  const [done, setDone] = useState(0);
  const load = async () => {
    const { results } = await wholeList((page) =>
      api.get('/api/admin/exports', { cause_id: cause.id, ...page }),
    );
    return action === 'probe' ? results.slice(0, 1) : results;
  };
  const preview = useResource({ key: `${cause.id} ${action}`, load });
  const exports = preview.data ?? [];
  const start = useAction(async () => {
    const chosen = preview.data ?? (await load());
    let passedOver = 0;
    setDone(0);
    for (const { id } of chosen) {
      if (!(await act(api, id, action))) passedOver += 1;
      setDone((count) => count + 1);
    }
    const rest = passedOver === 0 ? '' : `; nothing to do for ${passedOver} of them`;
    onClose();
    return `${verb}: ${plural(chosen.length, 'export')}${rest}.`;
  });
  const customers = new Set(exports.map((one) => one.organization_id)).size;
  const missing = exports.reduce((sum, one) => sum + one.missing_intervals, 0);
  const paused = action === 'retry' ? exports.filter((one) => one.paused).length : 0;
  return (
    <ConfirmDialog title={`${verb}?`} verb={verb} action={start} onClose={onClose}>
      <p>{meaning}</p>
      <Failure failure={preview.failure} onRetry={preview.reload} />
      {!preview.data && !preview.failure && <Loading lines={1} />}
      {preview.data && (
        <p role="status">
          {plural(exports.length, 'export')} of {plural(customers, 'customer')}
          {action !== 'pause' &&
            `, ${plural(action === 'probe' ? Math.min(1, missing) : missing, 'interval')} without data`}
          {paused > 0 && `; ${plural(paused, 'export')} that Sluice paused continue`}.
        </p>
      )}
      {done > 0 && (
        <progress aria-label="Exports that are done" value={done} max={exports.length} />
      )}
      {start.failure && <p>Press again: what is done is not done twice.</p>}
    </ConfirmDialog>
  );
}

/** Returns false if there was nothing to do, or the export is gone. */
async function act(api: Api, exportId: string, action: OperatorAction): Promise<boolean> {
  try {
    const path = '/api/admin/exports/{export_id}/act';
    return (await api.post(path, { export_id: exportId }, { action })).passed_over === null;
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 404) return false;
    throw error;
  }
}

import type { Api } from '../api.ts';
import type { Cause, OperatorExport } from '../api-types.ts';
import { Choice } from '../form/choice.tsx';
import { TextField } from '../form/text-field.tsx';
import { plural } from '../numbers.ts';
import { MessageText } from '../parts/message-text.tsx';
import { Empty, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { TimeText } from '../parts/time-text.tsx';
import { hrefOf } from '../route.ts';
import { chosenOf, offsetOf, useQuery } from '../use-query.ts';
import { useResource } from '../use-resource.ts';
import { useSearchText } from '../use-search-text.ts';
import { useTitle } from '../use-title.ts';
import { CauseActions } from './cause-actions.tsx';

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

interface PageProps {
  readonly api: Api;
  /** True if the key may do something about a cause. */
  readonly mayWrite: boolean;
}

/** Over all customers: the rows are causes, not exports. */
export function CausesPage({ api, mayWrite }: PageProps) {
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
            <CauseRow key={cause.id} {...{ cause, api, mayWrite }} />
          ))}
        </ul>
      )}
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} />}
    </>
  );
}

const exportHref = ({ id, project_id: project }: OperatorExport) =>
  hrefOf({ page: 'export', exportId: id, tab: 'runs' }, String(project));

interface RowProps extends PageProps {
  readonly cause: Cause;
}

const turnNames: Readonly<Record<Cause['turn'], string>> = {
  ours: 'our turn',
  source: 'the source’s owner',
  customer: 'the customer',
};

function CauseRow({ cause, api, mayWrite }: RowProps) {
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
        {mayWrite && <CauseActions cause={cause} api={api} />}
      </div>
      {isOpen && <CauseExports cause={cause} api={api} />}
    </li>
  );
}

interface Props {
  readonly cause: Cause;
  readonly api: Api;
}

function CauseExports({ cause, api }: Props) {
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

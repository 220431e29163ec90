import { useState } from 'react';
import type { Api } from '../api.ts';
import type { Usage } from '../api-types.ts';
import { Choice } from '../form/choice.tsx';
import { TextField } from '../form/text-field.tsx';
import { lastMonths, useNow } from '../now.ts';
import { formatBytes, formatCount, plural } from '../numbers.ts';
import { Empty, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { offsetOf, useQuery } from '../use-query.ts';
import { useResource } from '../use-resource.ts';
import { useSearchText } from '../use-search-text.ts';
import { useTitle } from '../use-title.ts';
import { AskButton, TenantActions } from './ask-button.tsx';
import { CustomerParts } from './customer-parts.tsx';

const pageSize = 50;

interface Props {
  readonly api: Api;
  readonly mayWrite: boolean;
}

/** All organizations, what was exported for each in a month, and their projects and keys. */
export function CustomersPage({ api, mayWrite }: Props) {
  const { query, setQuery } = useQuery();
  const [text, setText] = useSearchText();
  const search = query.get('search') ?? '';
  const months = lastMonths(useNow());
  const month = query.get('month') ?? months[0] ?? '';
  const offset = offsetOf(query);
  useTitle('Customers');
  const { data, failure, reload } = useResource({
    key: JSON.stringify([search, month, offset]),
    load: (signal) =>
      api.get('/api/admin/usage', { search, month, limit: pageSize, offset }, signal),
    pollMs: () => 60_000,
  });
  return (
    <>
      <div className="row heading">
        <h1>Customers</h1>
        {data && <span className="muted">{plural(data.count, 'organization')}</span>}
        {mayWrite && (
          <div className="row last">
            <AskButton
              verb="Create"
              of="an organization"
              name=""
              work={(name) => api.post('/api/admin/organizations', {}, { name })}
            />
          </div>
        )}
      </div>
      <search className="row filters">
        <TextField
          attr="search"
          label="Customer"
          value={text}
          onChange={setText}
          help="Name or id."
        />
        <Choice
          attr="month"
          label="Month"
          value={month}
          choices={months.map((one) => [one, one] as const)}
          onChange={(value) => setQuery({ month: value })}
        />
      </search>
      <Pending {...{ data, failure, reload }} lines={5} />
      {data?.count === 0 && (
        <Empty title={search === '' ? 'No customers yet' : 'No customer matches'} />
      )}
      {data && data.results.length > 0 && (
        <ul className="card" aria-label={plural(data.count, 'organization')}>
          {data.results.map((one) => (
            <CustomerRow key={one.id} {...{ one, api, mayWrite, month }} />
          ))}
        </ul>
      )}
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} />}
    </>
  );
}

interface RowProps extends Props {
  readonly one: Usage;
  readonly month: string;
}

function CustomerRow({ one, api, mayWrite, month }: RowProps) {
  const [isOpen, setOpen] = useState(false);
  const { id, name, rows, bytes, disabled_at: disabledAt } = one;
  const path = '/api/admin/organizations/{organization_id}';
  return (
    <li className="stack cause-row">
      <div className="row heading">
        <h2>
          <bdi>{name}</bdi>
        </h2>
        {disabledAt !== null && <span className="badge is-paused">Disabled</span>}
      </div>
      <p>
        {formatCount(rows)} rows, {formatBytes(bytes)} in {month} ·{' '}
        {plural(one.projects, 'project')} · {plural(one.exports, 'export')}{' '}
        <small className="muted">{id}</small>
      </p>
      <div className="row">
        <button
          type="button"
          aria-expanded={isOpen}
          aria-label={`Projects and keys of ${name}`}
          onClick={() => setOpen(!isOpen)}
        >
          Projects and keys
        </button>
        {mayWrite && (
          <TenantActions
            of={name}
            isDisabled={disabledAt !== null}
            change={(body) => api.patch(path, { organization_id: id }, body)}
          />
        )}
      </div>
      {isOpen && <CustomerParts {...{ api, mayWrite, id, name }} />}
    </li>
  );
}

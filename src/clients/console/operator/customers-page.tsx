import { useState } from 'react';
import type { ApiKey, Project, Usage } from '../api-types.ts';
import { Choice, TextField } from '../form/inputs.tsx';
import { lastMonths, TimeText, useNow } from '../parts/time-text.tsx';
import { formatBytes, formatCount, plural } from '../numbers.ts';
import { Empty, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { offsetOf, useQuery, useSearchText, useTitle } from '../use-route.ts';
import { useConsole, useResource } from '../use-api.ts';
import { AskButton, SecretDialog } from '../parts/buttons.tsx';

const pageSize = 50;

/** The texts of a button that asks before it does something with a thing. */
const about = (verb: string, what: string) => ({
  verb,
  label: `${verb} ${what}`,
  title: `${verb} ${what}?`,
});

/** All organizations, what was exported for each in a month, and their projects and keys. */
export function CustomersPage() {
  const { api, may } = useConsole();
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
        {may('operator:write') && (
          <div className="row last">
            <AskButton
              {...about('Create', 'an organization')}
              draft={{ name: '' }}
              work={(draft) => api.post('/api/admin/organizations', {}, draft)}
            >
              {({ field }) => <TextField {...field('name', 'Name')} />}
            </AskButton>
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
            <CustomerRow key={one.id} {...{ one, month }} />
          ))}
        </ul>
      )}
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} />}
    </>
  );
}

function CustomerRow({ one, month }: { one: Usage; month: string }) {
  const { api, may } = useConsole();
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
        {may('operator:write') && (
          <TenantActions
            of={name}
            isDisabled={disabledAt !== null}
            change={(body) => api.patch(path, { organization_id: id }, body)}
          />
        )}
      </div>
      {isOpen && <CustomerParts {...{ id, name }} />}
    </li>
  );
}

interface OrganizationProps {
  readonly id: string;
  readonly name: string;
}

function CustomerParts({ id, name }: OrganizationProps) {
  const { api, may } = useConsole();
  const of = { organization_id: id };
  const projects = useResource({
    key: `projects ${id}`,
    load: (signal) => api.get('/api/admin/organizations/{organization_id}/projects', of, signal),
    // Only what is polled is loaded again after a change.
    pollMs: () => 60_000,
  });
  const keys = useResource({
    key: `keys ${id}`,
    load: (signal) => api.get('/api/admin/organizations/{organization_id}/keys', of, signal),
    pollMs: () => 60_000,
  });
  const [made, setMade] = useState<{ readonly name: string; readonly key: string } | null>(null);
  return (
    <>
      <Pending {...projects} lines={2} />
      <ul className="cause-exports" aria-label={`Projects of ${name}`}>
        {projects.data?.results.map((one) => (
          <ProjectItem key={one.id} one={one} />
        ))}
      </ul>
      <Pending {...keys} lines={2} />
      <ul className="cause-exports" aria-label={`Keys of ${name}`}>
        {keys.data?.results.map((one) => (
          <KeyItem key={one.id} one={one} />
        ))}
      </ul>
      {may('operator:write') && (
        <div className="row">
          <NewProjectButton {...{ id, name }} />
          <NewKeyButton
            {...{ id, name }}
            projects={projects.data?.results ?? []}
            onMade={setMade}
          />
        </div>
      )}
      {made && (
        <SecretDialog name={made.name} secret={made.key} what="key" onClose={() => setMade(null)}>
          <p>Give it to the customer. It is shown only now: copy it.</p>
        </SecretDialog>
      )}
    </>
  );
}

function ProjectItem({ one }: { readonly one: Project }) {
  const { api, may } = useConsole();
  const path = '/api/admin/projects/{project_id}';
  return (
    <li>
      <strong>
        <bdi>{one.name}</bdi>
      </strong>{' '}
      <small className="muted">
        {one.id} · tenant key <code>{one.tenant_key}</code>
      </small>{' '}
      {one.disabled_at !== null && <span className="badge is-paused">Disabled</span>}{' '}
      {may('operator:write') && (
        <TenantActions
          of={one.name}
          isDisabled={one.disabled_at !== null}
          change={(body) => api.patch(path, { project_id: one.id }, body)}
        />
      )}
    </li>
  );
}

function KeyItem({ one }: { readonly one: ApiKey }) {
  const { api, may } = useConsole();
  const isRevoked = one.revoked_at !== null;
  return (
    <li>
      Key <bdi>{one.name}</bdi>{' '}
      <small className="muted">
        {one.scopes.join(', ')} ·{' '}
        {one.project_ids === null ? 'all projects' : `project ${one.project_ids.join(', ')}`}
        {isRevoked && ' · revoked'}
        {!isRevoked && one.last_used_at !== null && (
          <>
            {' · used '}
            <TimeText at={one.last_used_at} as="ago" />
          </>
        )}
      </small>{' '}
      {may('operator:write') && !isRevoked && (
        <AskButton
          {...about('Revoke', one.name)}
          danger
          work={() => api.post('/api/admin/keys/{key_id}/revoke', { key_id: one.id })}
        >
          <p>What uses the key is refused from the next request on.</p>
        </AskButton>
      )}
    </li>
  );
}

function NewProjectButton({ id, name }: OrganizationProps) {
  const { api } = useConsole();
  return (
    <AskButton
      button="New project"
      label={`New project of ${name}`}
      title="New project"
      verb="Create"
      draft={{ name: '', tenant_key: '' }}
      work={async ({ tenant_key: key, ...draft }) => {
        const body = { ...draft, ...(key === '' ? {} : { tenant_key: key }) };
        const path = '/api/admin/organizations/{organization_id}/projects';
        const { warnings, ...made } = await api.post(path, { organization_id: id }, body);
        return [`Project ${made.name} has the id ${made.id}.`, ...warnings].join(' ');
      }}
    >
      {({ field }) => (
        <>
          <TextField {...field('name', 'Name')} />
          <TextField
            {...field('tenant_key', 'Tenant key')}
            help="The value that the tenant column of your models has for this customer’s rows. It cannot be changed. Empty: the id of the project."
          />
        </>
      )}
    </AskButton>
  );
}

const rights = [
  ['*', 'Everything'],
  ['batch_export:write,plugin:write', 'Exports and transformations, to change'],
  ['batch_export:read,plugin:read', 'Exports and transformations, to read'],
  ['batch_export:read,plugin:read,file:read', 'The same, and to download delivered files'],
] as const;

interface KeyButtonProps extends OrganizationProps {
  readonly projects: readonly Project[];
  readonly onMade: (made: { readonly name: string; readonly key: string }) => void;
}

function NewKeyButton({ id, name: organization, projects, onMade }: KeyButtonProps) {
  const { api } = useConsole();
  return (
    <AskButton
      button="New key"
      label={`New key of ${organization}`}
      title="New key"
      verb="Create"
      draft={{ name: '', scopes: rights[1][0] as string, project_ids: '' }}
      work={async ({ name, scopes, project_ids: project }) => {
        const { key } = await api.post(
          '/api/admin/organizations/{organization_id}/keys',
          { organization_id: id },
          {
            name,
            scopes: scopes.split(',') as ['*'],
            project_ids: project === '' ? null : [Number(project)],
          },
        );
        if (key === null) {
          throw new Error('Its key was in an answer that did not arrive. Revoke it.');
        }
        onMade({ name, key });
      }}
    >
      {({ field }) => (
        <>
          <TextField {...field('name', 'Name')} />
          <Choice {...field('scopes', 'May')} choices={rights} />
          <Choice
            {...field('project_ids', 'For')}
            choices={[
              ['', 'All projects'] as const,
              ...projects.map((one) => [String(one.id), one.name] as const),
            ]}
          />
        </>
      )}
    </AskButton>
  );
}

interface TenantProps {
  readonly of: string;
  readonly isDisabled: boolean;
  readonly change: (body: { name?: string; disabled?: boolean }) => Promise<unknown>;
}

function TenantActions({ of, isDisabled, change }: TenantProps) {
  return (
    <>
      <AskButton {...about('Rename', of)} draft={{ name: of }} work={change}>
        {({ field }) => <TextField {...field('name', 'Name')} />}
      </AskButton>
      <AskButton
        {...about(isDisabled ? 'Enable' : 'Disable', of)}
        danger={!isDisabled}
        work={() => change({ disabled: !isDisabled })}
      >
        <p>
          {isDisabled
            ? 'Its keys are accepted again. Exports that this has paused continue with the next interval.'
            : 'Its keys are refused and its exports are paused. Live runs finish.'}
        </p>
      </AskButton>
    </>
  );
}

import { useState } from 'react';
import type { Api } from '../api.ts';
import type { ApiKey, Project } from '../api-types.ts';
import { Choice } from '../form/choice.tsx';
import { TextField } from '../form/text-field.tsx';
import { ConfirmDialog, DialogButton } from '../parts/dialog.tsx';
import { Pending } from '../parts/notice.tsx';
import { SecretDialog } from '../parts/secret-dialog.tsx';
import { TimeText } from '../parts/time-text.tsx';
import { useSay } from '../parts/toasts.tsx';
import { useAction } from '../use-action.ts';
import { useResource } from '../use-resource.ts';
import { AskButton, TenantActions } from './ask-button.tsx';

interface Props {
  readonly api: Api;
  readonly mayWrite: boolean;
  /** Of the organization. */
  readonly id: string;
  readonly name: string;
}

/** The projects and the keys of an organization. */
export function CustomerParts({ api, mayWrite, id, name }: Props) {
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
          <ProjectItem key={one.id} {...{ api, mayWrite, one }} />
        ))}
      </ul>
      <Pending {...keys} lines={2} />
      <ul className="cause-exports" aria-label={`Keys of ${name}`}>
        {keys.data?.results.map((one) => (
          <KeyItem key={one.id} {...{ api, mayWrite, one }} />
        ))}
      </ul>
      {mayWrite && (
        <div className="row">
          <DialogButton
            aria-label={`New project of ${name}`}
            dialog={(onClose) => <ProjectDialog {...{ api, id, onClose }} />}
          >
            New project
          </DialogButton>
          <DialogButton
            aria-label={`New key of ${name}`}
            dialog={(onClose) => (
              <KeyDialog
                {...{ api, id, onClose }}
                projects={projects.data?.results ?? []}
                onMade={setMade}
              />
            )}
          >
            New key
          </DialogButton>
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

interface PartProps<One> {
  readonly api: Api;
  readonly mayWrite: boolean;
  readonly one: One;
}

function ProjectItem({ api, mayWrite, one }: PartProps<Project>) {
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
      {mayWrite && (
        <TenantActions
          of={one.name}
          isDisabled={one.disabled_at !== null}
          change={(body) => api.patch(path, { project_id: one.id }, body)}
        />
      )}
    </li>
  );
}

function KeyItem({ api, mayWrite, one }: PartProps<ApiKey>) {
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
      {mayWrite && !isRevoked && (
        <AskButton
          verb="Revoke"
          of={one.name}
          danger
          work={() => api.post('/api/admin/keys/{key_id}/revoke', { key_id: one.id })}
        >
          <p>What uses the key is refused from the next request on.</p>
        </AskButton>
      )}
    </li>
  );
}

interface DialogProps {
  readonly api: Api;
  /** Of the organization. */
  readonly id: string;
  readonly onClose: () => void;
}

function ProjectDialog({ api, id, onClose }: DialogProps) {
  const say = useSay();
  const [name, setName] = useState('');
  const [tenantKey, setTenantKey] = useState('');
  const action = useAction(async () => {
    const body = { name, ...(tenantKey === '' ? {} : { tenant_key: tenantKey }) };
    const path = '/api/admin/organizations/{organization_id}/projects';
    const { warnings, ...made } = await api.post(path, { organization_id: id }, body);
    say([`Project ${made.name} has the id ${made.id}.`, ...warnings].join(' '));
    onClose();
  });
  return (
    <ConfirmDialog title="New project" verb="Create" action={action} onClose={onClose}>
      <TextField attr="name" label="Name" value={name} onChange={setName} />
      <TextField
        attr="tenant_key"
        label="Tenant key"
        value={tenantKey}
        onChange={setTenantKey}
        help="The value that the tenant column of your models has for this customer’s rows. It cannot be changed. Empty: the id of the project."
      />
    </ConfirmDialog>
  );
}

const rights = [
  ['*', 'Everything'],
  ['batch_export:write,plugin:write', 'Exports and transformations, to change'],
  ['batch_export:read,plugin:read', 'Exports and transformations, to read'],
  ['batch_export:read,plugin:read,file:read', 'The same, and to download delivered files'],
] as const;

interface KeyProps extends DialogProps {
  readonly projects: readonly Project[];
  readonly onMade: (made: { readonly name: string; readonly key: string }) => void;
}

function KeyDialog({ api, id, projects, onMade, onClose }: KeyProps) {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<string>(rights[1][0]);
  const [project, setProject] = useState('');
  const action = useAction(async () => {
    const created = await api.post(
      '/api/admin/organizations/{organization_id}/keys',
      { organization_id: id },
      {
        name,
        scopes: scopes.split(',') as ['*'],
        project_ids: project === '' ? null : [Number(project)],
      },
    );
    if (created.key === null)
      throw new Error('Its key was in an answer that did not arrive. Revoke it.');
    onClose();
    onMade({ name, key: created.key });
  });
  return (
    <ConfirmDialog title="New key" verb="Create" action={action} onClose={onClose}>
      <TextField attr="name" label="Name" value={name} onChange={setName} />
      <Choice attr="scopes" label="May" value={scopes} choices={rights} onChange={setScopes} />
      <Choice
        attr="project_ids"
        label="For"
        value={project}
        choices={[
          ['', 'All projects'] as const,
          ...projects.map((one) => [String(one.id), one.name] as const),
        ]}
        onChange={setProject}
      />
    </ConfirmDialog>
  );
}

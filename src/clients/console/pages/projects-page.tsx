import type { Health, ProjectOverview } from '../api-types.ts';
import { useConsole } from '../console-context.ts';
import { formatCount, plural } from '../numbers.ts';
import { HealthLinks } from '../parts/health-links.tsx';
import { ListTools } from '../parts/list-tools.tsx';
import { Empty, Pending } from '../parts/notice.tsx';
import { OffsetPager } from '../parts/pager.tsx';
import { hrefOf } from '../route.ts';
import { chosenOf, offsetOf, useQuery } from '../use-query.ts';
import { useResource } from '../use-resource.ts';
import { useTitle } from '../use-title.ts';

const orderings = { health: 'Most urgent first', name: 'By name', '-id': 'Newest first' } as const;

const pageSize = 50;

/** The organization: all its projects, with the health of their exports. */
export function ProjectsPage() {
  const { me } = useConsole();
  const { query } = useQuery();
  const search = query.get('search') ?? '';
  const [ordering = 'health'] = chosenOf(query, 'ordering', Object.keys(orderings));
  const offset = offsetOf(query);
  const mayAsk = me?.all_projects ?? false;
  useTitle('Projects');
  return (
    <>
      <div className="row heading">
        <h1>{me ? `Projects of ${me.organization.name}` : 'Projects'}</h1>
        {mayAsk && <Summary />}
      </div>
      {me !== null && !mayAsk && (
        <p className="muted" role="status">
          This needs an API key of the whole organization. Yours has access to{' '}
          {plural(me.projects_count, 'project')}.
        </p>
      )}
      {mayAsk && (
        <>
          <ListTools what="projects" orderings={orderings} ordering={ordering} />
          <ProjectList {...{ search, ordering, offset }} />
        </>
      )}
    </>
  );
}

function Summary() {
  const { api } = useConsole();
  const { data } = useResource({
    key: 'all',
    load: (signal) =>
      api.get('/api/organizations/{organization_id}/batch_exports/health', {}, signal),
    pollMs: () => 15_000,
  });
  if (!data) return null;
  const { total, failing } = data;
  return (
    <span className="muted">
      {plural(total, 'export')}
      {failing > 0 && <strong className="bad-text"> · {formatCount(failing)} failing</strong>}
    </span>
  );
}

interface ListProps {
  readonly search: string;
  readonly ordering: string;
  readonly offset: number;
}

function ProjectList({ search, ordering, offset }: ListProps) {
  const { api } = useConsole();
  const { data, failure, reload } = useResource({
    key: JSON.stringify([search, ordering, offset]),
    load: (signal) =>
      api.get(
        '/api/organizations/{organization_id}/projects',
        { search, ordering: ordering as keyof typeof orderings, limit: pageSize, offset },
        signal,
      ),
    pollMs: () => 15_000,
  });
  return (
    <>
      <Pending {...{ data, failure, reload }} lines={5} />
      {data?.results.length === 0 && <Empty title="No projects match" />}
      {data && data.results.length > 0 && (
        <ul className="card" aria-label={plural(data.count, 'project')}>
          {data.results.map((project) => (
            <ProjectRow key={project.id} project={project} />
          ))}
        </ul>
      )}
      {data && <OffsetPager page={data} pageSize={pageSize} offset={offset} />}
    </>
  );
}

function ProjectRow({
  project: { id, name, batch_exports: counts },
}: {
  project: ProjectOverview;
}) {
  const to = (health: Health | null) => hrefOf({ page: 'exports' }, String(id), { health });
  return (
    <li className="row project-row">
      <h2>
        <a href={to(null)}>{name}</a> <small className="muted">{id}</small>
      </h2>
      {counts.total === 0 ? (
        <span className="muted">no exports</span>
      ) : (
        <HealthLinks counts={counts} chosen={[]} to={to} />
      )}
    </li>
  );
}

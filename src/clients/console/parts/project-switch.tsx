import type { Me } from '../api-types.ts';
import { hrefOf } from '../route.ts';

interface Props {
  /** Null until the API has answered. */
  readonly me: Me | null;
  /** The id of the open project. */
  readonly project: string;
}

/** The name of the open project; a choice if the key has several. */
export function ProjectSwitch({ me, project }: Props) {
  const projects = me?.projects ?? [];
  const open = projects.find(({ id }) => String(id) === project);
  if (projects.length < 2) {
    return <span className="muted small">{open?.name ?? `Project ${project}`}</span>;
  }
  return (
    <select
      className="project"
      aria-label="Project"
      value={project}
      onChange={({ target }) => {
        window.location.hash = hrefOf({ page: 'exports' }, target.value);
      }}
    >
      {open === undefined && <option value={project}>{`Project ${project}`}</option>}
      {projects.map(({ id, name }) => (
        <option key={id} value={id}>{`${name} (${id})`}</option>
      ))}
    </select>
  );
}

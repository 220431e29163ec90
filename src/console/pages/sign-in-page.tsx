import { type FormEvent, useState } from 'react';
import type { BatchExport, OffsetPage } from '../api-types.ts';
import { ApiFailure, callApi } from '../client.ts';
import { TextField } from '../form/text-field.tsx';
import { Logo } from '../parts/logo.tsx';
import { Failure } from '../parts/notice.tsx';
import type { Session } from '../session.ts';
import { useAction } from '../use-action.ts';

interface Props {
  /** Why the operator was signed out; empty at first. */
  readonly notice: string;
  readonly onSignedIn: (session: Session) => void;
}

/** Asks for a key, and for a project if the key has several. */
export function SignInPage({ notice, onSignedIn }: Props) {
  const [key, setKey] = useState('');
  const [project, setProject] = useState('');
  /** Known projects; null until it is clear that the key has several. */
  const [choices, setChoices] = useState<readonly string[] | null>(null);

  const signIn = useAction(async () => {
    const trimmed = key.trim();
    const asked = choices === null ? '@current' : project.trim();
    if (await opens(trimmed, asked)) onSignedIn({ key: trimmed, project: asked });
    else setChoices(await findProjects(trimmed));
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void signIn.run();
  };
  return (
    <main className="sign-in">
      <form className="stack" onSubmit={submit}>
        <h1>
          <Logo /> Sluice
        </h1>
        <p className="muted slogan">Rows out of PostgreSQL, each exactly once.</p>
        {notice !== '' && (
          <p className="row alert is-paused" role="status">
            {notice}
          </p>
        )}
        <TextField
          attr="key"
          label="API key"
          value={key}
          onChange={(text) => {
            setKey(text);
            setChoices(null);
          }}
          input={{ type: 'password', placeholder: 'slc_…' }}
          help={
            <>
              Create one with <code>sluice keys create</code>. Only this tab keeps it.
            </>
          }
        />
        {choices !== null && (
          <ProjectChoice choices={choices} project={project} onChange={setProject} />
        )}
        <Failure failure={signIn.failure} />
        <button
          type="submit"
          className="primary"
          disabled={signIn.busy || key.trim() === '' || (choices !== null && project === '')}
        >
          {signIn.busy ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
    </main>
  );
}

interface ChoiceProps {
  readonly choices: readonly string[];
  readonly project: string;
  readonly onChange: (project: string) => void;
}

function ProjectChoice({ choices, project, onChange }: ChoiceProps) {
  const known = choices.length > 0 ? ` Projects with exports: ${choices.join(', ')}.` : '';
  return (
    <>
      <TextField
        attr="project"
        label="Project"
        value={project}
        onChange={onChange}
        // The input appears in answer to the submit.
        input={{ inputMode: 'numeric', list: 'projects', autoFocus: true }}
        help={`This key has access to several projects. Enter the id of one.${known}`}
      />
      <datalist id="projects">
        {choices.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
    </>
  );
}

/**
 * Whether the key has access to the project; false if the project is `@current` and the key has several.
 *
 * @throws ApiFailure if the key or the project is refused
 */
async function opens(key: string, project: string): Promise<boolean> {
  try {
    const path = `/api/projects/${encodeURIComponent(project)}/batch_exports`;
    await callApi(key, path, { query: { limit: 1 } });
    return true;
  } catch (error) {
    const isOpen = error instanceof ApiFailure && error.status === 403 && project === '@current';
    if (isOpen && !/scope/.test(error.message)) return false;
    throw error;
  }
}

/** Projects of the key's organization that have exports; empty if the key may not list them. */
async function findProjects(key: string): Promise<readonly string[]> {
  try {
    const path = '/api/organizations/@current/batch_exports';
    const page = await callApi<OffsetPage<BatchExport>>(key, path, { query: { limit: 1_000 } });
    const ids = new Set(page.results.map(({ team_id }) => team_id));
    return [...ids].toSorted((a, b) => a - b).map(String);
  } catch {
    return [];
  }
}

import { useState } from 'react';
import type { Me } from '../api-types.ts';
import { ApiFailure, connectApi } from '../api.ts';
import { Choice, onSubmit, TextField } from '../form/inputs.tsx';
import { Logo } from '../parts/top-bar.tsx';
import { Failure } from '../parts/notice.tsx';
import { projectOf } from '../route.ts';
import { operatorProject, type Session } from '../session.ts';
import { useAction } from '../use-api.ts';

interface Props {
  /** Why the operator was signed out; empty at first. */
  readonly notice: string;
  readonly onSignedIn: (session: Session) => void;
}

/** Asks for a key, and for a project if the key has several. */
export function SignInPage({ notice, onSignedIn }: Props) {
  const [key, setKey] = useState('');
  const [project, setProject] = useState('');
  /** Null until it is clear that the key has several. */
  const [choices, setChoices] = useState<Me['projects'] | null>(null);

  const signIn = useAction(async () => {
    const trimmed = key.trim();
    const api = connectApi(trimmed, '', () => {});
    const me = await api.get('/api/me', {}).catch(async (error: unknown) => {
      // The key of an operator belongs to no organization.
      if (!(error instanceof ApiFailure) || error.status !== 403) throw error;
      await api.get('/api/admin/me', {}).catch(() => {
        throw error;
      });
      return null;
    });
    if (me === null) return onSignedIn({ key: trimmed, project: operatorProject });
    const { projects } = me;
    const [first] = projects;
    const inAddress = projectOf(window.location.hash);
    const chosen = projects.find(({ id }) => String(id) === (inAddress ?? project));
    if (!first)
      throw new Error(
        'This key has no project. Create one with `sluice projects create --organization <id> --name <name>`.',
      );
    const open = chosen ?? (projects.length === 1 ? first : null);
    if (open) onSignedIn({ key: trimmed, project: String(open.id) });
    else {
      setChoices(projects);
      setProject(String(first.id));
    }
  });
  return (
    <main className="sign-in">
      <form className="stack" onSubmit={onSubmit(signIn.run)}>
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
          input={{ type: 'password', placeholder: 'slc_…', autoFocus: true }}
          help={
            <>
              Create one with{' '}
              <code>sluice keys create --organization ID --scopes &apos;*&apos; --name NAME</code>.
              Only open tabs of this page keep it.
            </>
          }
        />
        {choices !== null && (
          <Choice
            attr="project"
            label="Project"
            value={project}
            choices={choices.map(({ id, name }) => [String(id), `${name} (${id})`] as const)}
            onChange={setProject}
          />
        )}
        <Failure failure={signIn.failure} />
        <button
          type="submit"
          className="primary"
          aria-disabled={signIn.busy}
          disabled={key.trim() === '' || (choices !== null && project === '')}
        >
          {signIn.busy ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
    </main>
  );
}

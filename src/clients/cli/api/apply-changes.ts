import { type Paint, plain } from '../text.ts';
import type { Api } from './api.ts';
import { RefusedRequest } from './explain.ts';
import type { Json } from './json.ts';

export interface ApplyChoice {
  readonly prune?: boolean;
  readonly secrets?: boolean;
}

export type Action = 'create' | 'update' | 'delete' | 'unchanged';

/** A change that makes a step of the project that of a file. */
export interface Change {
  readonly action: Action;
  readonly name: string;
  readonly id: number | null;
  readonly fields: readonly string[];
  readonly body: Json;
}

/** For a log: without the body, which can have secrets. */
export const shownChange = ({ body: _, ...change }: Change): Omit<Change, 'body'> => change;

export const deletionOf = (id: number, name: string): Change => {
  return { action: 'delete', name, id, fields: [], body: {} };
};

const marks = { create: '+', update: '~', delete: '-', unchanged: '=' } as const;
const colours = { create: 'green', update: 'yellow', delete: 'red', unchanged: 'dim' } as const;

/** `~ update     step Mask (7): enabled` */
export function changeLine(
  paint: Paint,
  { action, name, id }: Pick<Change, 'action' | 'name'> & { readonly id: string | number | null },
  what = '',
  fields: readonly string[] = [],
): string {
  const which = id === null ? '' : ` (${id})`;
  const changed = fields.length === 0 ? '' : `: ${fields.join(', ')}`;
  const line = `${marks[action]} ${action.padEnd(9)}  ${what}${plain(name)}${which}${changed}`;
  return paint(line, colours[action]);
}

/**
 * `1 created, 0 updated, …`; of a dry run `1 to create, 0 to update, …`.
 *
 * @param created what stands for the number of new ones
 */
export function countsOf(
  changes: readonly { readonly action: Action }[],
  isDryRun: boolean,
  created: (count: number) => string = String,
): string {
  const number = (action: Action) => changes.filter((change) => change.action === action).length;
  const [made, updated, deleted] = [created(number('create')), number('update'), number('delete')];
  const counts = isDryRun
    ? `${made} to create, ${updated} to update, ${deleted} to delete`
    : `${made} created, ${updated} updated, ${deleted} deleted`;
  return `${counts}, ${number('unchanged')} unchanged.`;
}

/**
 * Goes on after a change that the service refuses, so that all faults are known at once.
 *
 * @param refused gets a line for each problem
 */
export async function sendChanges(
  api: Api,
  changes: readonly Change[],
  refused: string[],
): Promise<void> {
  const path = 'pipeline_transformation_configs';
  for (const change of changes) {
    const { action, name, id, body } = change;
    // A step that would take its place was refused.
    if (action === 'delete' && refused.length > 0) continue;
    const one = { path: { id } };
    try {
      if (action === 'create') await api.send('post', path, { body });
      if (action === 'update') await api.send('patch', `${path}/{id}`, { ...one, body });
      if (action === 'delete') await api.send('delete', `${path}/{id}`, one);
    } catch (error) {
      if (!(error instanceof RefusedRequest)) throw error;
      refused.push(...error.message.split('\n').map((line) => `${plain(`step ${name}`)}: ${line}`));
    }
  }
}

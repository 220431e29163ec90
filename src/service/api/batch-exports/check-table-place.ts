import { describeError } from '../../../foundation/domain/describe-error.ts';
import {
  type DestinationConfig,
  readFileSettings,
} from '../../../foundation/domain/file-settings.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import { readNewDestination } from '../../use-cases/exports/unsaved.ts';
import { actorOf, type Reply, type Request } from '../api.ts';
import type { Deps, FoundTablePlace } from '../options.ts';
import { lookPatiently } from '../until-closed.ts';

/**
 * Looks whether the place of a new export's table has one already. If the store cannot be asked now, the export is
 * accepted: its runs will say what is wrong.
 *
 * @param input a new export
 * @returns warnings for the export's owner
 * @throws Refusal if there is a table
 */
export async function checkTablePlace(
  { findTable, tests, rules }: Deps,
  request: Request,
  reply: Reply,
  input: {
    readonly teamId: number;
    readonly model: string;
    readonly destination: { readonly type: string; readonly config: DestinationConfig };
  },
): Promise<readonly string[]> {
  const { teamId, model, destination } = input;
  if (!findTable || readFileSettings(destination.config).tableFormat === null) return [];
  const config = readConfig(rules, teamId, destination);
  // The use case refuses it with all other faults.
  if (config === null) return [];
  const { organizationId } = actorOf(request);
  const look = async (signal: AbortSignal) => {
    const existing = await tests.use(organizationId, signal, () =>
      findTable({ teamId, model, type: destination.type, config }, signal),
    );
    if (!existing) return [];
    const attr = 'destination__config__prefix';
    throw new Refusal({ code: 'invalid_input', detail: describe(existing), attr });
  };
  return lookPatiently(reply, unchecked, look, describeError);
}

const unchecked = 'The export was accepted without a check for another Iceberg table at its prefix';

function readConfig(
  rules: Deps['rules'],
  teamId: number,
  { type, config }: { readonly type: string; readonly config: DestinationConfig },
): DestinationConfig | null {
  try {
    return readNewDestination(rules, teamId, type, config);
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

function describe({ key, owner, folder }: FoundTablePlace): string {
  const whose = owner === null ? 'of another program' : `of the export ${owner}`;
  const place = folder === '' ? 'in the bucket' : `below ${folder}/`;
  return `${key} is the Iceberg table ${whose}. A table belongs to one export. Choose another prefix. If you no longer need the table, delete or move everything ${place}, then send this request again.`;
}

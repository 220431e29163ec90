import type { Config } from '../../foundation/config/config.ts';
import { turnOfCode } from '../../foundation/domain/causes.ts';
import { describeError } from '../../foundation/domain/describe-error.ts';
import { toSluiceError } from '../../foundation/domain/errors.ts';
import {
  destinationContextOf,
  destinationOf,
  joinConnectors,
  registry,
} from '../../main/connectors.ts';
import { openSecretBox } from '../../main/encryption-keys.ts';
import { counted } from '../../service/verify/finding.ts';
import type { Database } from '../../state/store/database/database.ts';
import {
  listVerifiedExports,
  type VerifiedExport,
} from '../../state/store/intervals/verify-queries.ts';

/** One check of an installation. */
export interface Examined {
  readonly check: string;
  readonly result: 'ok' | 'warning' | 'failed';
  /** The finding; if it is not ok, also the remedy. */
  readonly detail: string;
}

const finding =
  (result: Examined['result']) =>
  (check: string, detail: string): Examined => ({ check, result, detail });

export const ok = finding('ok');
export const warning = finding('warning');
export const failed = finding('failed');

/** The message of an error; of the first one if there are many. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message || error.name : String(error);
}

const testPatienceMs = 25_000;
/** Places that are tried. */
const triedPlaces = 10;

/** Tries each place of destinations with the credentials of its newest export. */
export async function examineDestinations(
  config: Config,
  db: Database,
  onlyInstallation: boolean,
): Promise<readonly Examined[]> {
  const places = new Map<string, VerifiedExport[]>();
  for (const one of await listVerifiedExports(db, null)) {
    const { type, config: own } = one.destination;
    const definition = registry.destinations.find((candidate) => candidate.type === type);
    if (!definition?.keepsFiles) continue;
    const place = `${type} ${definition.place(own)}`;
    places.set(place, [one, ...(places.get(place) ?? [])]);
  }
  if (places.size === 0) return [];
  const context = destinationContextOf(config);
  const faulty = (check: string, detail: string, code: string): Examined =>
    (onlyInstallation && turnOfCode(code) === 'customer' ? warning : failed)(check, detail);
  try {
    const secrets = await openSecretBox(config);
    const noSource = () => {
      throw new Error('the test of a destination reads no rows');
    };
    const connectors = joinConnectors(noSource, context, secrets);
    const tryOne = async (place: string, one: VerifiedExport): Promise<Examined> => {
      const check = place.startsWith('S3 ')
        ? 'S3'
        : destinationOf(registry, one.destination.type).type;
      const which = `${place.slice(place.indexOf(' ') + 1)} (${one.name})`;
      try {
        const destination = connectors.openDestination({ ...one, exportId: one.id });
        const steps = await destination
          .test(AbortSignal.timeout(testPatienceMs))
          .finally(() => destination.close());
        const fault = steps.find(({ passed }) => !passed);
        // A step's error begins with its code.
        const code = fault?.error?.split(':', 1)[0] ?? '';
        return fault
          ? faulty(check, `${which}: ${fault.step}: ${fault.error}`, code)
          : ok(check, which);
      } catch (error) {
        const fault = toSluiceError(error);
        return faulty(check, `${which}: ${describeError(fault)}`, fault.code);
      }
    };
    const tried = [...places].slice(0, triedPlaces).map(async ([place, [newest, ...others]]) => {
      if (!newest) return [];
      const { detail, ...found } = await tryOne(place, newest);
      const untried = untriedOf(others);
      return [
        { ...found, detail: untried === '' ? detail : `${detail.replace(/\.$/, '')}${untried}` },
      ];
    });
    return [...(await Promise.all(tried)).flat(), ...untriedPlaces(places.size - triedPlaces)];
  } catch (error) {
    return [failed('encryption keys', reasonOf(error))];
  } finally {
    context.httpAgent.destroy();
    context.httpsAgent.destroy();
  }
}

/** The exports at a place that a test with the credentials of one of them does not speak for. */
function untriedOf({ length }: readonly VerifiedExport[]): string {
  if (length === 0) return '';
  return `. Not tried: the credentials of ${counted(length, 'other export')} there`;
}

function untriedPlaces(count: number): readonly Examined[] {
  if (count <= 0) return [];
  const detail = `${counted(count, 'more place')} of destinations ${count === 1 ? 'was' : 'were'} not tried. \`sluice causes\` names those where runs fail.`;
  return [warning('destinations', detail)];
}

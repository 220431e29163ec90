import { nearestName } from '../domain/nearest-name.ts';
import { clientVariables } from './client-settings.ts';
import type { Setting } from './setting.ts';
import { settings } from './settings.ts';
import { findStruckSettings } from './struck-settings.ts';

/** A variable that looks like one of our settings and is none. */
export interface UnknownSetting {
  readonly name: string;
  /** The setting that was probably meant; null if none is near. */
  readonly nearest: string | null;
}

const names = Object.keys(settings);
const secrets = Object.entries<Setting<unknown>>(settings)
  .filter(([, { secret }]) => secret)
  .map(([name]) => name);
const valid = [...names, ...[...secrets, clientVariables.key].map((name) => `${name}_FILE`)];
/** The command line reads them; on the same machine a service sees them too. */
const ofClients: readonly string[] = Object.values(clientVariables);

/** They begin with `SLUICE_`, or differ from a setting in a letter or two. Names without an underscore say too little. */
export function findUnknownSettings(
  env: Readonly<Record<string, string | undefined>> = process.env,
): readonly UnknownSetting[] {
  return Object.keys(env)
    .filter((name) => name.includes('_') && !valid.includes(name) && !ofClients.includes(name))
    .filter((name) => findStruckSettings({ [name]: 'x' }).length === 0)
    .flatMap((name) => {
      // Only a secret can be in a file.
      const plain = name.replace(/_FILE$/, '');
      if (plain !== name && names.includes(plain)) return [{ name, nearest: plain }];
      const nearest = nearestName(name.replace(/^SLUICE_/, ''), valid) ?? nearestName(name, valid);
      return nearest !== null || name.startsWith('SLUICE_') ? [{ name, nearest }] : [];
    });
}

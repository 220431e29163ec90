import { ConfigError, readSecret } from './config.ts';

/** Which service the command line calls, and with which key. */
export interface ClientSettings {
  /** Null: not set. */
  readonly url: string | null;
  readonly key: string | null;
  /** An id, or `@current`. */
  readonly project: string | null;
}

export const clientVariables = {
  url: 'SLUICE_URL',
  key: 'SLUICE_KEY',
  project: 'SLUICE_PROJECT',
} as const;

export type Environment = Record<string, string | undefined>;

export const ownEnvironment = (): Environment => process.env;

/** Reads the settings of the command line; an empty variable is not set. @throws ConfigError if the file of the key cannot be read */
export function readClientSettings(env: Readonly<Environment>): ClientSettings {
  const read = (name: string) => env[name]?.trim() || null;
  return {
    url: read(clientVariables.url),
    key: readKey(env)?.trim() || null,
    project: read(clientVariables.project),
  };
}

function readKey(env: Readonly<Environment>): string | undefined {
  try {
    return readSecret(env, clientVariables.key);
  } catch (error) {
    throw new ConfigError([
      `${clientVariables.key} ${error instanceof Error ? error.message : error}`,
    ]);
  }
}

/** Says whether the environment allows colours on a terminal (https://no-color.org). */
export function allowsColours({ NO_COLOR, TERM }: Readonly<Environment>): boolean {
  return !NO_COLOR && TERM !== 'dumb';
}

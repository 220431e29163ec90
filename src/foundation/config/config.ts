import { readFileSync } from 'node:fs';
import type { Setting } from './setting.ts';
import { settings } from './settings.ts';
import { findStruckSettings } from './struck-settings.ts';

export type Config = {
  readonly [Name in keyof typeof settings]: (typeof settings)[Name] extends Setting<infer T>
    ? T
    : never;
};

/** Many programs read the variables of proxies in lower case. */
const otherSpelling: Readonly<Record<string, string>> = {
  HTTP_PROXY: 'http_proxy',
  HTTPS_PROXY: 'https_proxy',
  NO_PROXY: 'no_proxy',
};

/** Lists every fault of the configuration at once, one per line. */
export class ConfigError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The configuration is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

/** @param kept gets the faults of the variables that it names, which are then not set @throws ConfigError with the others */
export function readConfig(
  env: Record<string, string | undefined> = process.env,
  kept: Map<string, string | null> = new Map(),
): Config {
  // The AWS SDK is pinned to a version that supports this Node. Its warning about later versions is
  // of no use to operators.
  env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
  const faults = findStruckSettings(env);
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(settings)) {
    try {
      const text = env[name] ?? env[otherSpelling[name] ?? ''];
      values[name] = setting.read(setting.secret ? readSecret(env, name, text) : text);
    } catch (error) {
      const fault = `${name} ${error instanceof Error ? error.message : String(error)}`;
      if (kept.has(name)) {
        kept.set(name, fault);
        values[name] = setting.read('');
      } else faults.push(fault);
    }
  }
  if (values.METRICS_PORT && values.METRICS_PORT === values.PORT) {
    faults.push('METRICS_PORT is the same as PORT: set another port');
  }
  if (values.WORKER_PORT && values.WORKER_PORT === values.METRICS_PORT) {
    faults.push(
      'WORKER_PORT is the same as METRICS_PORT, which the API of the machine takes: set another port',
    );
  }
  // The embedded database has no pooler.
  if (values.DATABASE_DIRECT_URL && !values.DATABASE_URL) {
    faults.push('DATABASE_DIRECT_URL needs DATABASE_URL too: set both, or neither');
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return values as Config;
}

/** Its variable, or the file that `<name>_FILE` names. @throws Error if both are set, or the file cannot be read */
export function readSecret(
  env: Readonly<Record<string, string | undefined>>,
  name: string,
  text: string | undefined = env[name],
): string | undefined {
  const file = env[`${name}_FILE`];
  if (!file) return text;
  if (text) throw new Error(`and ${name}_FILE are both set: set one of them`);
  const read = readText(name, file).replace(/[\r\n]+$/, '');
  if (read === '') throw new Error(`cannot be read: the file of ${name}_FILE, ${file}, is empty`);
  return read;
}

function readText(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    throw new Error(
      `cannot be read: ${name}_FILE names ${file} (${code}): correct the path or its rights`,
    );
  }
}

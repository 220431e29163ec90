import type { Setting } from './setting.ts';
import { settings } from './settings.ts';

/** The values of all settings, by the name of their variable. */
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

/**
 * Reads the configuration.
 *
 * @param kept gets the faults of the variables that it names; these are then not set
 * @throws ConfigError that names each invalid variable and what it must be
 */
export function readConfig(
  env: Record<string, string | undefined> = process.env,
  kept: Map<string, string | null> = new Map(),
): Config {
  // The AWS SDK is pinned to a version that supports this Node. Its warning about later versions is
  // of no use to operators.
  env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(settings)) {
    try {
      values[name] = setting.read(env[name] ?? env[otherSpelling[name] ?? '']);
    } catch (error) {
      const fault = `${name} ${error instanceof Error ? error.message : String(error)}`;
      if (kept.has(name)) {
        kept.set(name, fault);
        values[name] = setting.read('');
      } else faults.push(fault);
    }
  }
  // The embedded database has no pooler.
  if (values.DATABASE_DIRECT_URL && !values.DATABASE_URL) {
    faults.push('DATABASE_DIRECT_URL needs DATABASE_URL too: set both, or neither');
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return values as Config;
}

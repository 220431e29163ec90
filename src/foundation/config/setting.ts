import { type NoProxyEntry, noProxyForms, parseNoProxy } from '../domain/no-proxy.ts';
import { readRedisAddress, redisAddressForm } from '../domain/redis-address.ts';
import {
  findAddressFault,
  findOwnFault,
  inClientWords,
  isPostgresAddress,
} from './postgres-address.ts';

/** An environment variable: how to read its text, and its documentation. */
export interface Setting<T> {
  readonly about: string;
  /** The default as the documentation shows it; empty if there is none. */
  readonly defaultText: string;
  readonly secret: boolean;
  /** The allowed values, for the documentation. */
  readonly accepts: string;
  /** @throws Error whose message says what the value must be. `text` is undefined if it is not set. */
  read(text: string | undefined): T;
}

function setting<T>(
  facts: Omit<Setting<T>, 'read' | 'secret'> & { readonly secret?: boolean },
  byDefault: T,
  parse: (text: string) => T,
): Setting<T> {
  const read = (text: string | undefined) => (text ? parse(text) : byDefault);
  return { secret: false, ...facts, read };
}

export function wholeNumber(
  about: string,
  byDefault: number,
  [min, max]: readonly [number, number],
): Setting<number> {
  const facts = { about, defaultText: String(byDefault), accepts: `${min} to ${max}` };
  return setting(facts, byDefault, (text) => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    throw new Error(`must be a whole number from ${min} to ${max}`);
  });
}

/** A whole number whose default follows from other settings; null if it is not set. */
export function optionalNumber(
  about: string,
  byDefault: string,
  range: readonly [number, number],
): Setting<number | null> {
  const number = wholeNumber(about, range[0], range);
  const read = (text: string | undefined) => (text ? number.read(text) : null);
  return { ...number, defaultText: byDefault, read };
}

/** `true` is 1, `false` is 0. */
export function count(about: string, max: number): Setting<number> {
  const facts = { about, defaultText: 'false', accepts: `true, false or 0 to ${max}` };
  return setting(facts, 0, (text) => {
    if (/^(true|yes|on)$/i.test(text)) return 1;
    if (/^(false|no|off)$/i.test(text)) return 0;
    if (/^\d+$/.test(text) && Number(text) <= max) return Number(text);
    throw new Error(`must be true, false or a whole number from 0 to ${max}`);
  });
}

export function flag(about: string, byDefault: boolean): Setting<boolean> {
  const facts = { about, defaultText: String(byDefault), accepts: 'true or false' };
  return setting(facts, byDefault, (text) => {
    if (/^(1|true|yes|on)$/i.test(text)) return true;
    if (/^(0|false|no|off)$/i.test(text)) return false;
    throw new Error('must be true or false');
  });
}

export function choice<T extends string>(
  about: string,
  byDefault: T,
  of: readonly T[],
): Setting<T> {
  const accepts = of.join(', ');
  return setting({ about, defaultText: byDefault, accepts }, byDefault, (text) => {
    const choice = of.find((candidate) => candidate === text);
    if (choice === undefined) throw new Error(`must be one of ${accepts}`);
    return choice;
  });
}

export function text(about: string, byDefault: string): Setting<string> {
  return setting({ about, defaultText: byDefault, accepts: 'text' }, byDefault, (value) => value);
}

interface TextOptions {
  readonly default?: string;
  readonly secret?: boolean;
  readonly matches?: RegExp;
  /** A value that does not match must be this. */
  readonly mustBe?: string;
}

export function optionalText(about: string, options: TextOptions = {}): Setting<string | null> {
  const { default: defaultText = '', secret = false, matches, mustBe: accepts = 'text' } = options;
  return setting<string | null>({ about, defaultText, secret, accepts }, null, (value) => {
    if (matches && !matches.test(value)) throw new Error(`must be ${accepts}`);
    return value;
  });
}

export function list(
  about: string,
  options: Omit<TextOptions, 'default'> = {},
): Setting<readonly string[]> {
  const { secret = false, matches, mustBe = 'text' } = options;
  const accepts = `a list, comma separated${matches ? `: ${mustBe}` : ''}`;
  return setting<readonly string[]>({ about, defaultText: '', secret, accepts }, [], (value) => {
    const items = value.split(',').map((item) => item.trim());
    const wrong = items.findIndex((item) => item !== '' && matches?.test(item) === false);
    // A secret list is not quoted.
    const which = secret ? `item ${wrong + 1}` : `"${items[wrong]}"`;
    if (wrong >= 0) throw new Error(`must be a list of ${mustBe}; ${which} is none`);
    return items.filter((item) => item !== '');
  });
}

export function noProxyList(about: string): Setting<readonly NoProxyEntry[]> {
  const facts = { about, defaultText: '', accepts: `a list, comma separated: ${noProxyForms}` };
  return setting<readonly NoProxyEntry[]>(facts, [], parseNoProxy);
}

/** Null: none. 0: any that is free. */
export function port(about: string): Setting<number | null> {
  return optionalNumber(about, '', [0, 65_535]);
}

export function postgresUrl(
  about: string,
  defaultText = '',
  isOwn = false,
): Setting<string | null> {
  const accepts = 'a postgres:// address';
  const facts = { about, defaultText, secret: true, accepts };
  return setting<string | null>(facts, null, (value) => {
    if (!isPostgresAddress(value)) throw new Error(`must be ${accepts}`);
    const fault = findAddressFault(value) ?? (isOwn ? findOwnFault(value) : null);
    if (fault !== null) throw new Error(fault);
    return inClientWords(value);
  });
}

export function redisUrl(about: string): Setting<string | null> {
  const facts = { about, defaultText: '', secret: true, accepts: redisAddressForm };
  return setting<string | null>(facts, null, readRedisAddress);
}

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

interface Described {
  readonly about: string;
}

const blank = (text: string | undefined): text is undefined | '' =>
  text === undefined || text === '';

export function wholeNumber(
  options: Described & { default: number; min: number; max: number },
): Setting<number> {
  return {
    about: options.about,
    defaultText: String(options.default),
    secret: false,
    accepts: `${options.min} to ${options.max}`,
    read(text) {
      if (blank(text)) return options.default;
      const value = Number(text);
      if (!Number.isInteger(value) || value < options.min || value > options.max) {
        throw new Error(`must be a whole number from ${options.min} to ${options.max}`);
      }
      return value;
    },
  };
}

/** A whole number whose default follows from other settings; null if it is not set. */
export function optionalNumber(
  options: Described & { default: string; min: number; max: number },
): Setting<number | null> {
  const number = wholeNumber({ ...options, default: options.min });
  return {
    ...number,
    defaultText: options.default,
    read: (text) => (blank(text) ? null : number.read(text)),
  };
}

export function flag(options: Described & { default: boolean }): Setting<boolean> {
  return {
    about: options.about,
    defaultText: options.default ? 'true' : 'false',
    secret: false,
    accepts: 'true or false',
    read(text) {
      if (blank(text)) return options.default;
      if (/^(1|true|yes|on)$/i.test(text)) return true;
      if (/^(0|false|no|off)$/i.test(text)) return false;
      throw new Error('must be true or false');
    },
  };
}

export function choice<T extends string>(
  options: Described & { default: T; of: readonly T[] },
): Setting<T> {
  return {
    about: options.about,
    defaultText: options.default,
    secret: false,
    accepts: options.of.join(', '),
    read(text) {
      if (blank(text)) return options.default;
      const found = options.of.find((candidate) => candidate === text);
      if (found === undefined) throw new Error(`must be one of ${options.of.join(', ')}`);
      return found;
    },
  };
}

export function text(options: Described & { default: string }): Setting<string> {
  return {
    about: options.about,
    defaultText: options.default,
    secret: false,
    accepts: 'text',
    read: (value) => (blank(value) ? options.default : value),
  };
}

export function optionalText(
  options: Described & { default?: string; secret?: boolean; matches?: RegExp; mustBe?: string },
): Setting<string | null> {
  return {
    about: options.about,
    defaultText: options.default ?? '',
    secret: options.secret ?? false,
    accepts: options.mustBe ?? 'text',
    read(value) {
      if (blank(value)) return null;
      if (options.matches && !options.matches.test(value)) {
        throw new Error(`must be ${options.mustBe}`);
      }
      return value;
    },
  };
}

export function list(options: Described & { secret?: boolean }): Setting<readonly string[]> {
  return {
    about: options.about,
    defaultText: '',
    secret: options.secret ?? false,
    accepts: 'a list, comma separated',
    read: (value) =>
      blank(value)
        ? []
        : value
            .split(',')
            .map((item) => item.trim())
            .filter((item) => item !== ''),
  };
}

export function postgresUrl(about: string, defaultText = ''): Setting<string | null> {
  return optionalText({
    about,
    default: defaultText,
    secret: true,
    matches: /^postgres(ql)?:\/\//,
    mustBe: 'a postgres:// address',
  });
}

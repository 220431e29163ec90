/** A setting of an export that is one value. Null as its default: it may be null, and then it is off. */
interface Setting {
  /** Its name in the API, in the database and in the activity. */
  readonly field: string;
  readonly type: 'integer' | 'time of day' | 'choice';
  /** Of a choice, the default first. */
  readonly choices?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default: number | string | null;
  /** True if it may be null although its default is not. */
  readonly mayBeNull?: true;
  readonly title: string;
  readonly description: string;
  /** True if it is for days and weeks only, which follow a time zone. */
  readonly isLocal?: true;
}

/**
 * The settings of an export that are one value, by their names in code. Each is defined here and nowhere else, but for its column in
 * `migrations/`: the API takes, shows and documents what is here, the store keeps it, the activity shows its changes, and the page
 * asks for it. What a setting does is where it is used.
 */
export const exportSettings = {
  deadlineMinutes: {
    field: 'deadline_minutes',
    type: 'integer',
    minimum: 1,
    maximum: 43_200,
    default: null,
    title: 'Due minutes after the end of an interval',
    description:
      'An interval is due at the destination this many minutes after its end. Null: no deadline.',
  },
  deadlineAt: {
    field: 'deadline_at',
    type: 'time of day',
    default: null,
    title: 'Due at',
    description:
      'For day and week: an interval is due at this local time, HH:MM in timezone, the first one after its end. Instead of deadline_minutes.',
    isLocal: true,
  },
  warnMinutes: {
    field: 'warn_minutes',
    type: 'integer',
    minimum: 1,
    maximum: 43_200,
    default: null,
    title: 'At risk minutes before it is due',
    description:
      'An interval counts as at risk this many minutes before its deadline. Null: never.',
  },
  mode: {
    field: 'mode',
    type: 'choice',
    choices: ['append', 'snapshot', 'changes'],
    default: 'append',
    title: 'What each run exports',
    description:
      'append: each row once, in the interval in which it arrived. snapshot: all rows of the project at each tick, as one snapshot of the source has them after the end of the interval; what was missed is not made later. changes: a sequence of elements, a base with all rows and then what changed; readers apply them by number (docs/changing-tables.md). It cannot change once the export has had a run.',
  },
  keepSnapshots: {
    field: 'keep_snapshots',
    type: 'integer',
    minimum: 1,
    maximum: 10_000,
    default: 30,
    mayBeNull: true,
    title: 'Snapshots to keep',
    description:
      'With mode snapshot: the newest snapshots that stay at the destination. Sluice removes older ones. Null: all stay. Default 30.',
  },
  newBase: {
    field: 'new_base',
    type: 'integer',
    minimum: 0,
    maximum: 1_000_000,
    default: 0,
    title: 'New base',
    description:
      'With mode changes: raise it to get all rows again. The next element is then a base, which replaces all elements before it. Default 0.',
  },
  healForHours: {
    field: 'heal_for_hours',
    type: 'integer',
    minimum: 0,
    maximum: 720,
    default: 168,
    title: 'Hours to try again by itself',
    description:
      'Hours for which Sluice tries again by itself to export an interval whose run ended without success. 0: it does not. A larger number counts for intervals that failed before, too. Default 168.',
  },
  statementShows: {
    field: 'statement_shows',
    type: 'choice',
    choices: ['digests', 'definition'],
    default: 'digests',
    title: 'What statements show of the definition',
    description:
      'digests: statements have the digests of model, query and transformations. definition: they also have their text, without secrets. Everyone who reads the bucket can read it.',
  },
  lookBackHours: {
    field: 'look_back_hours',
    type: 'integer',
    minimum: 0,
    maximum: 720,
    default: null,
    title: 'Hours to look for late rows',
    description:
      'Hours after the end of an interval in which Sluice compares it with the source and adds rows that came late. 0: it does not. Null: look_back_hours of the model, or LATE_LOOKBACK_HOURS of the installation.',
  },
} as const satisfies Readonly<Record<string, Setting>>;

type Settings = typeof exportSettings;
type Value<S extends Setting> =
  | (S extends { readonly choices: readonly (infer Choice)[] }
      ? Choice
      : S['type'] extends 'integer'
        ? number
        : string)
  | (S['default'] extends null ? null : S extends { readonly mayBeNull: true } ? null : never);

/** Their values, by their names in code. */
export type ExportSettings = { readonly [Name in keyof Settings]: Value<Settings[Name]> };

export type ExportSettingFields = {
  readonly [S in Settings[keyof Settings] as S['field']]: Value<S>;
};

export type ExportMode = ExportSettings['mode'];

/** Each with its name in code. */
export const settingList = (Object.entries(exportSettings) as [keyof Settings, Setting][]).map(
  ([name, setting]) => ({ name, ...setting }),
);

/** Some fields of a record. */
export type Changes<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** A record after a change. */
export function withChanges<T extends object>(before: T, changes: Changes<T>): T {
  const said = Object.entries(changes).filter(([, value]) => value !== undefined);
  return { ...before, ...Object.fromEntries(said) };
}

/** The settings of an export after a change: what is undefined stays. @param before default: of a new export */
export function changeSettings(
  before: ExportSettings | null,
  change: Changes<ExportSettings>,
): ExportSettings {
  return pick(({ name, default: preset }) => {
    const value = change[name];
    return value === undefined ? (before === null ? preset : before[name]) : value;
  });
}

export function settingsOfFields(fields: Changes<ExportSettingFields>): Changes<ExportSettings> {
  return pick(({ field }) => fields[field as keyof ExportSettingFields]);
}

export function fieldsOfSettings(settings: ExportSettings): ExportSettingFields {
  const fields = settingList.map(({ field, name }) => [field, settings[name]]);
  return Object.fromEntries(fields) as ExportSettingFields;
}

function pick(read: (setting: (typeof settingList)[number]) => unknown): ExportSettings {
  return Object.fromEntries(
    settingList.map((setting) => [setting.name, read(setting)]),
  ) as ExportSettings;
}

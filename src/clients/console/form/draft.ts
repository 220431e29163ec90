import type { BatchExport, Config } from '../api-types.ts';
import { readLocalInput, type TimeFormat } from '../times.ts';
import { type ConfigDraft, configOf, type Field, type FieldValues, valuesOf } from './fields.ts';
import { applies, isSent } from './file-settings.ts';
import { type ApiDescription, type DestinationForm, offered } from './openapi.ts';

export interface Draft extends ConfigDraft {
  readonly name: string;
  readonly type: string;
  readonly interval: string;
  readonly timezone: string;
  readonly offsetDay: string;
  readonly offsetHour: string;
  readonly startAt: string;
  readonly endAt: string;
  readonly backfill: boolean;
  /** The settings that are one value. */
  readonly settings: FieldValues;
  /** Empty: not chosen yet. */
  readonly model: string;
  readonly dslQuery: string;
  /** `yes`, `no`; empty: not decided yet. */
  readonly transformations: string;
}

export function draftOf(
  description: ApiDescription,
  batchExport: BatchExport | null,
  times: TimeFormat,
): Draft {
  const here = description.installation;
  const [firstType = ''] = offered(typesOf(description), here?.destinations, '');
  const type = batchExport?.destination.type ?? firstType;
  const form = destinationForm(description, type);
  const local = (iso: string | null | undefined) => (iso ? times.inputValue(iso) : '');
  return {
    name: batchExport?.name ?? '',
    type,
    values: valuesOf(form?.fields ?? [], batchExport?.destination.config ?? {}),
    cleared: new Set(),
    interval: batchExport?.interval ?? firstInterval(description),
    timezone: batchExport?.timezone ?? 'UTC',
    offsetDay: String(batchExport?.offset_day ?? ''),
    offsetHour: String(batchExport?.offset_hour ?? ''),
    startAt: local(batchExport?.start_at),
    endAt: local(batchExport?.end_at),
    backfill: false,
    settings: valuesOf(description.settings, { ...batchExport }),
    model: batchExport?.model ?? here?.default_model ?? '',
    dslQuery: batchExport?.dsl_query ?? '',
    transformations: batchExport === null ? '' : batchExport.transformations ? 'yes' : 'no',
  };
}

export function typesOf({ destinations }: ApiDescription): readonly string[] {
  return destinations.map(({ type }) => type);
}

/** An hour, if this installation allows it. */
function firstInterval({ installation }: ApiDescription): string {
  const allowed = installation?.intervals ?? ['hour'];
  return allowed.includes('hour') ? 'hour' : (allowed[0] ?? 'hour');
}

/** The models to choose from: those of this installation, and that of the draft. */
export function modelChoices(
  { installation }: Pick<ApiDescription, 'installation'>,
  current: string,
): readonly (readonly [string, string])[] {
  const names = installation?.models.map(({ name }) => name) ?? [];
  const all = names.includes(current) ? names : [current, ...names];
  return all.map((name) => [name, name === '' ? 'Choose…' : name]);
}

export function destinationForm(
  { destinations }: ApiDescription,
  type: string,
): DestinationForm | undefined {
  return destinations.find((form) => form.type === type);
}

/** Changes the destination's type; keeps the values of fields that both types have. */
export function withType(description: ApiDescription, draft: Draft, type: string): Draft {
  const fields = destinationForm(description, type)?.fields ?? [];
  const fresh = valuesOf(fields, {});
  const unchanged = fields
    .filter(({ name, kind }) => kind !== 'secret' && draft.values[name] !== undefined)
    .map(({ name }) => [name, draft.values[name] ?? '']);
  return { ...draft, type, values: { ...fresh, ...Object.fromEntries(unchanged) } };
}

/** Days and weeks begin at an hour, weeks also on a day; other intervals have neither. */
export function scheduleFields(interval: string): {
  readonly day: boolean;
  readonly hour: boolean;
} {
  return { day: interval === 'week', hour: interval === 'day' || interval === 'week' };
}

/** A bound keeps its seconds if its input did not change. @param batchExport null for a new one */
export function bodyOf(
  description: ApiDescription,
  draft: Draft,
  batchExport: BatchExport | null,
  times: TimeFormat,
): ExportInput {
  const fields = destinationForm(description, draft.type)?.fields ?? [];
  const isNew = batchExport === null;
  const { cleared } = draft;
  const sent = fields.filter((field) => isSent(field, draft.values));
  const config = configOf(sent, sentValues(sent, draft.values), { isNew, cleared });
  const bound = (value: string, before: string | null | undefined) =>
    before && times.inputValue(before) === value ? before : readLocalInput(value);
  const scheduled = scheduleFields(draft.interval);
  const mayBackfill = modeOf(description, draft) === 'append';
  const offset = (wanted: boolean, text: string) => (wanted && text !== '' ? Number(text) : null);
  return {
    name: draft.name,
    destination: isNew ? { type: draft.type, config } : { config },
    interval: draft.interval,
    timezone: draft.timezone.trim() || 'UTC',
    offset_day: offset(scheduled.day, draft.offsetDay),
    offset_hour: offset(scheduled.hour, draft.offsetHour),
    start_at: bound(draft.startAt, batchExport?.start_at),
    end_at: bound(draft.endAt, batchExport?.end_at),
    ...settingsOf(description, draft),
    dsl_query: draft.dslQuery.trim() === '' ? null : draft.dslQuery,
    // A person who changes the query sees the conditions of the filters in it: the text alone decides.
    ...(isQueryChanged(draft, batchExport) && { filters: null }),
    transformations: draft.transformations === 'yes',
    ...(isNew && draft.model !== '' && { model: draft.model }),
    ...(isNew && { backfill: draft.backfill && draft.startAt !== '' && mayBackfill }),
  };
}

export function modesOf(
  { installation, settings }: ApiDescription,
  model: string,
): readonly string[] {
  const allowed = installation?.models.find(({ name }) => name === model)?.modes;
  return allowed ?? settings.find(({ name }) => name === 'mode')?.choices ?? [];
}

/** The chosen mode; another if the model does not allow it. */
export function modeOf(description: ApiDescription, { model, settings }: Draft): string {
  const allowed = modesOf(description, model);
  const chosen = String(settings.mode ?? '');
  return allowed.includes(chosen) ? chosen : (allowed[0] ?? 'append');
}

const modes: Readonly<Record<string, string>> = {
  ...{ keep_snapshots: 'snapshot', new_base: 'changes', look_back_hours: 'append' },
};

/** Says whether an export with this interval and mode has the setting. */
export function hasSetting(
  { interval, settings: { mode } }: Draft,
  { name, isLocal }: ApiDescription['settings'][number],
): boolean {
  return (scheduleFields(interval).hour || !isLocal) && (modes[name] ?? mode) === mode;
}

/** The settings of the body. One that may not be empty, and is, keeps its value. */
function settingsOf(description: ApiDescription, draft: Draft): Partial<ExportInput> {
  const { settings } = description;
  const values: Record<string, string | boolean> = {
    ...draft.settings,
    mode: modeOf(description, draft),
  };
  const chosen = { ...draft, settings: values };
  for (const setting of settings) if (!hasSetting(chosen, setting)) values[setting.name] = '';
  const sent = settings.filter(({ name, nullable }) => nullable || values[name] !== '');
  return configOf(sent, values, { isNew: false, cleared: new Set() });
}

/** Says whether a query that has the conditions of filters is to be another one. */
function isQueryChanged(
  { dslQuery }: Draft,
  batchExport: Pick<BatchExport, 'dsl_query' | 'filters'> | null,
): boolean {
  return Boolean(batchExport?.filters) && dslQuery !== (batchExport?.dsl_query ?? '');
}

/** Settings without an effect have their default, which is what they are sent for. */
function sentValues(fields: readonly Field[], values: FieldValues): FieldValues {
  const idle = fields.filter((field) => !applies(field, values));
  return { ...values, ...valuesOf(idle, {}) };
}

/** The part of a body that decides which rows an export has; no secret. */
export function rowsOf(input: ExportInput): object {
  const { destination, model, mode, dsl_query, transformations } = input;
  const { include_events, exclude_events } = destination.config;
  const config = { include_events, exclude_events };
  return { model, mode, dsl_query, transformations, destination: { config } };
}

export interface ExportInput {
  readonly name: string;
  readonly destination: { readonly type?: string; readonly config: Config };
  readonly interval: string;
  readonly [field: string]: unknown;
}

export function configAttr(name: string): string {
  return `destination__config__${name}`;
}

export interface PartProps {
  readonly description: ApiDescription;
  readonly draft: Draft;
  readonly batchExport: BatchExport | null;
  /** By the API's name of the field. */
  readonly errors: ReadonlyMap<string, string>;
  readonly onChange: (part: Partial<Draft>) => void;
}

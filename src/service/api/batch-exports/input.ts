import type { Static } from 'typebox';
import {
  type Changes,
  changeSettings,
  settingsOfFields,
  withChanges,
} from '../../../foundation/domain/export-settings.ts';
import { nearestName } from '../../../foundation/domain/nearest-name.ts';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { invalid, type Problem, Refusal } from '../../../foundation/domain/problem.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import type { CreateExportInput, ExportFields } from '../../use-cases/exports/create-export.ts';
import { changeFilters, type ExportRules } from '../../use-cases/exports/rules.ts';
import type { UpdateExportInput } from '../../use-cases/exports/update-export.ts';
import { isRecord } from '../validation/every-problem.ts';
import type { BatchExportBodies } from './schema.ts';

type CreateBody = Static<BatchExportBodies['Create']>;
type PatchBody = Static<BatchExportBodies['Patch']>;

/** The model of a new export. The validation of its body adds the default. */
export function modelOf({ model }: { readonly model?: string | undefined }): string {
  if (model === undefined) throw new Error('the validation left a body without a model');
  return model;
}

export function timesOf(
  body: Pick<PatchBody, 'interval' | 'timezone' | 'offset_day' | 'offset_hour'>,
) {
  const { interval, timezone, offset_day: offsetDay, offset_hour: offsetHour } = body;
  return { interval, timezone, offsetDay, offsetHour };
}

/** Turns a validated body into the input of the use case; drops read-only and unknown fields. */
export function createInput(body: CreateBody): CreateExportInput {
  const { name, interval, destination, backfill = false, unique_name: uniqueName = false } = body;
  return {
    ...timesOf(body),
    ...withChanges(defaults, storedFields(body)),
    ...{ name, interval, destination, model: modelOf(body), backfill, uniqueName },
    ...changeSettings(null, settingsOfFields(body)),
  };
}

const defaults: Omit<ExportFields, 'name' | 'model'> = {
  ...{ dslQuery: null, filters: null, transformations: false, paused: false },
  ...{ lastPausedAt: null, startAt: null, endAt: null },
};

function storedFields(body: PatchBody): Changes<typeof defaults> {
  return {
    dslQuery: queryOf(body),
    filters: body.filters,
    transformations: body.transformations,
    paused: body.paused,
    lastPausedAt: readTime(body.last_paused_at),
    startAt: readTime(body.start_at),
    endAt: readTime(body.end_at),
  };
}

export function updateInput(body: PatchBody): UpdateExportInput {
  const { name, destination, model } = body;
  const settings = settingsOfFields(body);
  return { name, destination, model, ...timesOf(body), ...storedFields(body), settings };
}

export function newQuery(
  rules: ExportRules,
  input: Pick<CreateExportInput, 'model' | 'dslQuery' | 'filters'>,
) {
  return changeFilters(rules, { model: input.model, dslQuery: null, filters: null }, input);
}

/** The query of a body, by either of its names. @throws Refusal (400) if the two differ */
export function queryOf(body: {
  readonly dsl_query?: string | null | undefined;
  readonly hogql_query?: string | null | undefined;
}): string | null | undefined {
  const { dsl_query: own, hogql_query: other } = body;
  if (own === undefined) return other;
  if (other === undefined || own === other) return own;
  throw new Refusal(twoQueries);
}

export const needsOffset = 'Must have an offset from UTC, such as 2024-03-01T00:00:00Z.';
/** A bound without an offset is refused: a guess could take the wrong hours. */
export const hasOffset = (text: string) => parseTime(text)?.hasOffset === true;

/** `text` has passed the schema's format. */
export function readTime<T extends string | null | undefined>(
  text: T,
): Timestamp | Exclude<T, string> {
  if (typeof text !== 'string') return text as Exclude<T, string>;
  const parsed = parseTime(text);
  if (!parsed) throw new Error(`the schema accepted ${text} as a time`);
  return parsed.timestamp;
}

type Json = Readonly<Record<string, unknown>>;

/** The problems that the schema of an export cannot see: a query under two names, and the config of a destination without a type. */
export function exportFaults(
  { destinationTypes }: ExportRules,
  body: Json,
  isNew: boolean,
): readonly Problem[] {
  const { dsl_query: query, hogql_query: other, destination } = body;
  const faults: Problem[] = [];
  if (query !== undefined && other !== undefined && query !== other) faults.push(twoQueries);
  if (!isRecord(destination) || destinationTypes.includes(textOf(destination.type))) return faults;
  const attr = 'destination__config';
  const { config } = destination;
  if (config === undefined) {
    if (isNew) faults.push({ code: 'required', detail: 'This field is required.', attr });
  } else if (config === null) {
    faults.push({ code: 'null', detail: 'This field may not be null.', attr });
  } else if (!isRecord(config)) {
    faults.push({ code: 'incorrect_type', detail: 'Expected an object.', attr });
  }
  return faults;
}

const twoQueries = invalid(
  'hogql_query',
  'This is another name of dsl_query, and the two differ. Send one of them.',
);

/**
 * Values for fields of an export with a problem. No interval: then only the ranges of its offsets are checked. The model is the one
 * that the query names. The destination is the one whose name or settings the body has.
 */
export function repairExport(rules: ExportRules, body: Json, faulty: ReadonlySet<string>): Json {
  const destination = faulty.has('destination') ? likelyDestination(rules, body) : null;
  return {
    ...(faulty.has('interval') && { interval: '' }),
    ...(faulty.has('model') && { model: likelyModel(rules, body) }),
    ...(destination && { destination }),
  };
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function likelyModel({ models }: ExportRules, { model, dsl_query: query }: Json): string {
  const names = models.map(({ name }) => name);
  const words = new Set(textOf(query).split(/[^\p{L}\p{N}_]+/u));
  const inQuery = names.find((name) => words.has(name));
  return inQuery ?? nearestName(textOf(model), names) ?? names[0] ?? '';
}

function likelyDestination(rules: ExportRules, { destination }: Json) {
  if (!isRecord(destination) || !isRecord(destination.config)) return null;
  const { type, config } = destination;
  const hits = (name: string) => rules.ownProperties(name).filter((one) => one in config).length;
  const [most] = rules.destinationTypes.toSorted((a, b) => hits(b) - hits(a));
  const own = most !== undefined && hits(most) > 0 ? most : null;
  const likely = nearestName(textOf(type), rules.destinationTypes, 3) ?? own;
  return likely === null ? null : { type: likely, config };
}

import type { Static } from 'typebox';
import { parseTime } from '../../../foundation/domain/parse-time.ts';
import { Refusal } from '../../../foundation/domain/problem.ts';
import type { Timestamp } from '../../../foundation/domain/time.ts';
import { changeSettings, settingsOfFields } from '../../../foundation/domain/export-settings.ts';
import type { CreateExportInput } from '../../use-cases/exports/create-export.ts';
import { changeFilters } from '../../use-cases/exports/filters.ts';
import type { ExportRules } from '../../use-cases/exports/rules.ts';
import type { UpdateExportInput } from '../../use-cases/exports/update-export.ts';
import { twoQueries } from './repair.ts';
import type { BatchExportBodies } from './schema.ts';

type CreateBody = Static<BatchExportBodies['Create']>;
type PatchBody = Static<BatchExportBodies['Patch']>;

/** The model of a new export. The validation of its body adds the default. */
export function modelOf({ model }: { readonly model?: string | undefined }): string {
  if (model === undefined) throw new Error('the validation left a body without a model');
  return model;
}

/** Turns a validated body into the input of the use case; drops read-only and unknown fields. */
export function createInput(body: CreateBody): CreateExportInput {
  return {
    name: body.name,
    destination: { type: body.destination.type, config: body.destination.config },
    interval: body.interval,
    timezone: body.timezone,
    offsetDay: body.offset_day,
    offsetHour: body.offset_hour,
    model: modelOf(body),
    dslQuery: queryOf(body) ?? null,
    filters: body.filters ?? null,
    transformations: body.transformations ?? false,
    paused: body.paused ?? false,
    lastPausedAt: readTime(body.last_paused_at) ?? null,
    startAt: readTime(body.start_at) ?? null,
    endAt: readTime(body.end_at) ?? null,
    ...changeSettings(null, settingsOfFields(body)),
    backfill: body.backfill ?? false,
    uniqueName: body.unique_name ?? false,
  };
}

export function updateInput(body: PatchBody): UpdateExportInput {
  return {
    name: body.name,
    destination: body.destination,
    interval: body.interval,
    timezone: body.timezone,
    offsetDay: body.offset_day,
    offsetHour: body.offset_hour,
    model: body.model,
    dslQuery: queryOf(body),
    filters: body.filters,
    transformations: body.transformations,
    paused: body.paused,
    lastPausedAt: readTime(body.last_paused_at),
    startAt: readTime(body.start_at),
    endAt: readTime(body.end_at),
    settings: settingsOfFields(body),
  };
}

/** The query and filters of an export that does not exist yet. */
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

/** `text` has passed the schema's format. */
export function readTime<T extends string | null | undefined>(
  text: T,
): Timestamp | Exclude<T, string> {
  if (typeof text !== 'string') return text as Exclude<T, string>;
  const parsed = parseTime(text);
  if (!parsed) throw new Error(`the schema accepted ${text} as a time`);
  return parsed.timestamp;
}

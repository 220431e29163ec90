import type { Static } from 'typebox';
import { parseTime } from '../../domain/parse-time.ts';
import type { Timestamp } from '../../domain/time.ts';
import type { CreateExportInput } from '../../use-cases/exports/create-export.ts';
import type { UpdateExportInput } from '../../use-cases/exports/update-export.ts';
import type { BatchExportBodies } from './schema.ts';

type CreateBody = Static<BatchExportBodies['Create']>;
type PatchBody = Static<BatchExportBodies['Patch']>;

/** The model of a request that names none. */
export const defaultModel = 'events';

/** Turns a validated body into the input of the use case; drops read-only and unknown fields. */
export function createInput(body: CreateBody): CreateExportInput {
  return {
    name: body.name,
    destination: { type: body.destination.type, config: body.destination.config },
    interval: body.interval,
    timezone: body.timezone,
    offsetDay: body.offset_day,
    offsetHour: body.offset_hour,
    model: body.model ?? defaultModel,
    dslQuery: body.dsl_query ?? null,
    transformations: body.transformations ?? false,
    paused: body.paused ?? false,
    lastPausedAt: readTime(body.last_paused_at) ?? null,
    startAt: readTime(body.start_at) ?? null,
    endAt: readTime(body.end_at) ?? null,
    freshnessMinutes: body.freshness_minutes ?? null,
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
    dslQuery: body.dsl_query,
    transformations: body.transformations,
    paused: body.paused,
    lastPausedAt: readTime(body.last_paused_at),
    startAt: readTime(body.start_at),
    endAt: readTime(body.end_at),
    freshnessMinutes: body.freshness_minutes,
  };
}

/** `text` has passed the schema's format. */
function readTime<T extends string | null | undefined>(text: T): Timestamp | Exclude<T, string> {
  if (typeof text !== 'string') return text as Exclude<T, string>;
  const parsed = parseTime(text);
  if (!parsed) throw new Error(`the schema accepted ${text} as a time`);
  return parsed.timestamp;
}

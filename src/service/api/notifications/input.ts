import { notificationTypes, type TargetKind } from '../../../foundation/domain/notification.ts';
import type { TargetChange } from '../../use-cases/notifications/change-targets.ts';
import type { TargetInput } from '../../use-cases/notifications/rules.ts';
import type { CreateTarget, PatchTarget } from './schema.ts';

/** Turns a validated body into the input of the use case; drops unknown fields. */
export function createInput(body: CreateTarget): TargetInput & { readonly kind: TargetKind } {
  return {
    kind: body.kind ?? 'webhook',
    description: body.description ?? '',
    url: body.url ?? null,
    format: body.format ?? 'json',
    recipients: unique(body.recipients ?? []),
    events: unique(body.events ?? notificationTypes),
    enabled: body.enabled ?? true,
    digests: body.digests ?? true,
  };
}

export function changeInput(body: PatchTarget): TargetChange {
  return {
    description: body.description,
    url: body.url,
    format: body.format,
    recipients: body.recipients && unique(body.recipients),
    events: body.events && unique(body.events),
    enabled: body.enabled,
    digests: body.digests,
  };
}

const unique = <T>(values: readonly T[]): readonly T[] => [...new Set(values)];

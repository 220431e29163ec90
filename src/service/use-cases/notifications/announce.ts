import { nextStepOf, type Turn, turnOf } from '../../../foundation/domain/causes.ts';
import { errorCatalogue, isErrorCode } from '../../../foundation/domain/errors.ts';
import type { NotificationType } from '../../../foundation/domain/notification.ts';
import type { Sql } from '../../../state/store/database/database.ts';
import type { HeldUp } from '../../../state/store/healing/announced.ts';
import {
  notifyGroup,
  notifyInstallation,
} from '../../../state/store/notifications/group-events.ts';

export interface Concerned extends Omit<HeldUp, 'code'> {
  /** Why; null: nothing has failed. */
  readonly code: string | null;
  readonly turn: Turn;
}

const namedExports = 20;

/**
 * Records events, one for each cause (error and turn) of an organization, and one for each cause of a project that has targets
 * of its own. So a target gets one message per cause, whatever number of exports it is about. Targets of the installation get one per
 * customer, or one in all if it is not the customers' turn.
 */
export async function announce(
  tx: Sql,
  type: NotificationType,
  concerned: readonly Concerned[],
  more: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const isOver = type === 'healing.ended' || type === 'interval.delivered_late';
  const facts = (group: readonly Concerned[]) => ({
    ...factsOf(group),
    ...(isOver && { turn: null, next_step: null }),
    ...more,
  });
  for (const ofCause of groupsBy(concerned, causeOf)) {
    const [{ organizationId } = { organizationId: '' }] = ofCause;
    await notifyGroup(tx, organizationId, null, type, facts(ofCause));
    for (const ofProject of groupsBy(ofCause, ({ teamId }) => String(teamId))) {
      const teamId = ofProject[0]?.teamId ?? null;
      if (teamId === null) continue;
      await notifyGroup(tx, organizationId, teamId, type, facts(ofProject));
    }
  }
  for (const ofAll of groupsBy(concerned, causeOfAll)) {
    const customers = [...new Set(ofAll.map(({ organizationId }) => organizationId))];
    const only = customers.length === 1 ? (customers[0] ?? null) : null;
    await notifyInstallation(tx, only, type, facts(ofAll));
  }
}

const causeOf = ({ organizationId, code, turn }: Concerned) => `${organizationId} ${code} ${turn}`;

const causeOfAll = (one: Concerned) =>
  one.turn === 'customer' ? causeOf(one) : `${one.code} ${one.turn}`;

function groupsBy<T>(items: readonly T[], keyOf: (item: T) => string): readonly (readonly T[])[] {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return [...groups.values()];
}

function factsOf(concerned: readonly Concerned[]): Readonly<Record<string, unknown>> {
  const [first] = concerned;
  const exports = groupsBy(concerned, ({ exportId }) => exportId).map((own) => ({
    id: own[0]?.exportId,
    name: own[0]?.name,
    project_id: own[0]?.teamId,
    intervals: sum(own),
  }));
  const code = first?.code ?? null;
  const errorCode = code !== null && isErrorCode(code) ? code : null;
  const spec = errorCode && errorCatalogue[errorCode];
  return {
    cause: { code, means: spec?.means ?? null },
    fault: spec?.fault ?? null,
    turn: first?.turn ?? null,
    since: concerned.map(({ since }) => since).toSorted()[0] ?? null,
    export_count: exports.length,
    interval_count: sum(concerned),
    next_step: errorCode ? nextStepOf(errorCode) : nextSteps[first?.turn ?? 'ours'],
    exports: exports.slice(0, namedExports),
  };
}

const nextSteps: Readonly<Record<Turn, string>> = {
  ours: 'No attempt has failed: the run waits, or takes too long. The operator adds workers, or looks at the log of the run.',
  source: 'The run waits for open transactions of the source. The owner of the source ends them.',
  customer: 'Nothing has failed yet.',
};

const sum = (concerned: readonly Concerned[]): number =>
  concerned.reduce((total, { intervals }) => total + intervals, 0);

/** Whose turn it is if an attempt failed with this code, or none failed. */
export function turnOfCode(code: string | null, waitsForSource: boolean): Turn {
  if (code !== null && isErrorCode(code)) return turnOf(code);
  return waitsForSource ? 'source' : 'ours';
}

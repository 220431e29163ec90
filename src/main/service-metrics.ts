import { type Fault, faultOf, faults, isErrorCode } from '../foundation/domain/errors.ts';
import { runSteps } from '../foundation/domain/run-step.ts';
import type { Sql } from '../state/store/database/database.ts';
import {
  type ExportHealth,
  type LeftBehind,
  readExportHealth,
} from '../state/store/exports/export-health.ts';
import { readServiceState } from '../state/store/database/service-state.ts';
import { readVerifyState } from '../state/store/intervals/verifications.ts';
import type { Metrics } from '../foundation/telemetry/metrics.ts';
import { turnOfCode, turns } from '../foundation/domain/causes.ts';
import type { Outages } from '../foundation/telemetry/outages.ts';

export function watchDependencies({ dependencyUp }: Metrics, outages: Pick<Outages, 'look'>): void {
  const collect = async () => {
    for (const [dependency, isUp] of await outages.look()) {
      dependencyUp.set({ dependency }, isUp ? 1 : 0);
    }
  };
  Object.assign(dependencyUp, { collect });
}

type AnyGauge = Metrics['service'][keyof Metrics['service']];

function forget(gauge: AnyGauge): void {
  gauge.reset();
  // A gauge without labels still has its zero.
  gauge.remove({});
}

/** Fills the gauges of the whole service from Postgres at each scrape. @param verifies whether VERIFY_SCHEDULE is set */
export function watchService(
  metrics: Metrics,
  db: Sql,
  outages: Pick<Outages, 'look'>,
  verifies = false,
): void {
  const { service } = metrics;
  let reading: Promise<void> | null = null;
  const read = async () => {
    const isUp = (await outages.look()).get('postgres') ?? false;
    const state = isUp ? await readServiceState(db).catch(() => null) : null;
    const health = state && (await readExportHealth(db).catch(() => null));
    const verify = state && (await readVerifyState(db).catch(() => null));
    if (!state || !health || !verify) {
      // A value of before would say that all is as it was.
      for (const gauge of Object.values(service)) forget(gauge);
      return;
    }
    showHealth(service, health);
    service.verifyFailedExports.set(verify.failed);
    // For an export that was never verified, this process has waited since it started.
    const unverified = Math.min(verify.unverifiedSeconds ?? 0, process.uptime());
    if (verifies) service.verifyAgeSeconds.set(Math.max(verify.ageSeconds ?? 0, unverified));
    else forget(service.verifyAgeSeconds);
    service.tickLagSeconds.set(state.tickLagSeconds);
    service.waitingRuns.set({ kind: 'live' }, state.waitingLive);
    service.waitingRuns.set({ kind: 'backfill' }, state.waitingBackfill);
    service.runningRuns.set(state.running);
    for (const step of runSteps)
      service.longestRunSeconds.set({ step }, state.longestSteps[step] ?? 0);
    service.workerCapacity.set(state.capacity);
    service.unsettledIntervals.set(state.unsettled);
    service.oldestUnsettledSeconds.set(state.oldestUnsettledSeconds);
    service.workSetAside.set(state.workSetAside);
  };
  // prom-client collects all gauges at once, so all wait for the same read.
  const collect = () => {
    reading ??= read().finally(() => {
      reading = null;
    });
    return reading;
  };
  for (const gauge of Object.values(service)) Object.assign(gauge, { collect });
}

/** Whose alert it is: the same as the turn of the cause. What the customer must fix keeps its fault. */
function faultByTurn(code: string): Fault {
  const turn = turnOfCode(code);
  if (turn !== 'customer') return turn === 'ours' ? 'internal' : 'source';
  return faultOf(code) === 'destination' ? 'destination' : 'customer';
}

const unknown = 'unknown';

/** Whose fault it was. What is no longer known is no fault of ours: an alert on it would stay red. */
const faultLeft = (code: string | null): Fault | typeof unknown =>
  code !== null && isErrorCode(code) ? faultByTurn(code) : unknown;

function showHealth(gauges: Metrics['service'], health: ExportHealth): void {
  for (const fault of faults) {
    const those = health.troubled.filter(({ code }) => faultByTurn(code ?? '') === fault);
    const sum = (name: 'failing' | 'exhausted' | 'late') =>
      those.reduce((total, each) => total + each[name], 0);
    gauges.failingExports.set({ fault }, sum('failing'));
    gauges.exhaustedExports.set({ fault }, sum('exhausted'));
    gauges.lateExports.set({ fault }, sum('late'));
  }
  for (const fault of [...faults, unknown]) {
    const sum = (left: readonly LeftBehind[]) =>
      left.reduce((total, { code, count }) => total + (faultLeft(code) === fault ? count : 0), 0);
    gauges.missingIntervals.set({ fault }, sum(health.missingIntervals));
    gauges.pausedExports.set({ by: 'sluice', fault }, sum(health.pausedBySluice));
  }
  gauges.pausedExports.set({ by: 'person', fault: '' }, health.pausedByPerson);
  gauges.pausedExports.set({ by: 'operator', fault: '' }, health.pausedByOperator);
  gauges.worstLagSeconds.set(health.worstLagSeconds);
  gauges.longestLateSeconds.set(health.longestLateSeconds);
  gauges.waitingNotifications.set(health.waitingNotifications);
  gauges.oldestDueNotificationSeconds.set(health.oldestDueNotificationSeconds);
  for (const turn of turns) gauges.overdueIntervals.set({ turn }, health.overdue[turn]);
  gauges.atRiskIntervals.set(health.atRisk);
  gauges.healingIntervals.set(health.healing);
  gauges.failingTargets.set(health.failingTargets);
}
